"""A Ray for the jobs of one command, against a Ray that only notes how it was called; conftest starts a real one."""

from __future__ import annotations

import shutil
import signal
from collections import namedtuple
from typing import Any

import pytest
import ray

from corruption.errors import InputError
from pipelines import ray_session
from pipelines.ray_session import RaySession, object_store_bytes

MB = 1 << 20


class Calls:
    """What was asked of Ray."""

    def __init__(self, running: bool = False) -> None:
        self.running, self.inits, self.ends = running, [], 0

    def init(self, **options: Any) -> None:
        assert not self.running
        self.running = True
        self.inits.append(options)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def shutdown(self) -> None:
        self.running = False
        self.ends += 1


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls()
    monkeypatch.setattr(ray, "is_initialized", lambda: made.running)
    monkeypatch.setattr(ray, "init", lambda **options: made.init(**options))
    monkeypatch.setattr(ray, "shutdown", made.shutdown)
    monkeypatch.setattr(ray_session, "_hush", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    yield made
    assert signal.getsignal(signal.SIGTERM) is before, "Ray's own handler must not stay"
    signal.signal(signal.SIGTERM, before)


def test_started_once_and_shut_down_at_the_end(calls: Calls) -> None:
    with RaySession(cpus=7) as session:
        assert not calls.inits, "nothing is started before the first job needs it"
        session.start()
        session.start()
    assert len(calls.inits) == calls.ends == 1
    options = calls.inits[0]
    assert options["address"] == "local" and options["num_cpus"] == 7 and options["include_dashboard"] is False
    assert options["object_store_memory"] == object_store_bytes()
    session.close()
    assert calls.ends == 1


def test_shut_down_when_a_job_fails(calls: Calls) -> None:
    with pytest.raises(ZeroDivisionError), RaySession() as session:
        session.start()
        raise ZeroDivisionError
    assert calls.ends == 1


def test_a_session_that_no_job_needed_starts_nothing(calls: Calls) -> None:
    with RaySession():
        pass
    assert not calls.inits and not calls.ends


def test_a_ray_that_runs_already_is_used_and_left(calls: Calls) -> None:
    calls.running = True
    with RaySession() as session:
        session.start()
    assert not calls.inits and not calls.ends and calls.running


def test_a_cluster_is_joined_by_its_address_with_its_own_size(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with RaySession("ray://head:10001", cpus=3) as session:
        session.start()
    (options,) = calls.inits
    assert options["address"] == "ray://head:10001" and "num_cpus" not in options
    import os

    assert "RAY_AUTH_MODE" not in os.environ, "a cluster keeps its own mode"


def test_an_address_that_does_not_answer_is_one_line(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(**_: Any) -> None:
        raise ConnectionError("nobody is there\nmore of it")

    monkeypatch.setattr(ray, "init", refusing)
    with pytest.raises(InputError) as refused, RaySession("10.0.0.1:6379") as session:
        session.start()
    assert str(refused.value) == "--address 10.0.0.1:6379: nobody is there; start the cluster or correct it"
    assert calls.ends == 0


@pytest.mark.parametrize(("free", "given"), [(64, 128), (1000, 500), (100_000, 2048)])
def test_shared_memory_is_half_of_what_is_free_within_bounds(
    monkeypatch: pytest.MonkeyPatch, free: int, given: int
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("os.path.isdir", lambda path: True)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, free * MB))
    assert object_store_bytes() == given * MB


def test_only_the_line_about_started_workers_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray._private.worker as worker

    printed: list[Any] = []
    monkeypatch.setattr(worker, "print_to_stdstream", lambda data, *rest: printed.append((data, rest)))
    ray_session._without_startup_warning()
    ray_session._without_startup_warning()
    noise = "WARNING: 9 PYTHON worker processes have been started on node: abc"
    worker.print_to_stdstream({"lines": [noise, "out of memory"], "pid": 1}, "x")
    worker.print_to_stdstream({"lines": [noise], "pid": 2}, "x")
    assert printed == [({"lines": ["out of memory"], "pid": 1}, ("x",))]
