"""A signal while a blocking call runs in its thread."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from pipelines.stopping import Stopped, StopRequest


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks_and_the_call_ends_by_itself(number: int, code: int) -> None:
    asked = threading.Event()

    def call() -> str:
        os.kill(os.getpid(), number)
        assert asked.wait(10)
        return "ended"

    before = signal.getsignal(number)
    with StopRequest(asked.set) as request:
        assert request.run(call) == "ended"
        assert request.exit_code() == code
    assert signal.getsignal(number) is before


def test_a_call_that_does_not_end_is_given_up() -> None:
    release = threading.Event()
    with StopRequest(lambda: None, grace=0.3) as request, pytest.raises(Stopped):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        request.run(lambda: release.wait(30))
    release.set()


def test_a_second_signal_does_not_wait() -> None:
    release = threading.Event()
    began = time.monotonic()
    with StopRequest(lambda: None, grace=60) as request, pytest.raises(Stopped):
        for delay in (0.1, 0.4):
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        request.run(lambda: release.wait(30))
    release.set()
    assert time.monotonic() - began < 20


def test_without_a_signal_the_call_is_just_a_call() -> None:
    with StopRequest(lambda: pytest.fail("nobody asked")) as request:
        assert request.run(lambda: 7) == 7
        assert request.signal is None
        with pytest.raises(KeyError):
            request.run(lambda: {}["x"])  # type: ignore[var-annotated]
