"""Ctrl-C and SIGTERM while trainers run: stop after a whole step with a checkpoint, and say which signal it was."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
GRACE_SECONDS = 25.0
"""How long the trainers may take to finish their step and save; clouds give 30 s before they take a machine."""


class Stopped(Exception):
    """The job was told to stop and has not ended in time, or was told twice."""


class StopRequest:
    """Runs a blocking call in a thread, so that the main thread can hear signals; a context manager.

    The first signal calls `ask`, which must make the call end soon. A second one, or none of that within the grace
    period, gives up waiting. Outside the main thread nothing is installed, and signals are the caller's.
    """

    def __init__(self, ask: Callable[[], None], grace: float = GRACE_SECONDS) -> None:
        self.signal: int | None = None
        self._ask, self._grace = ask, grace
        self._asked_at = 0.0
        self._twice = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in EXIT_CODES:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self._twice = self.signal is not None
        if self.signal is None:
            self.signal, self._asked_at = number, time.monotonic()

    def run(self, call: Callable[[], _T]) -> _T:
        """What the call returns or raises. Raises Stopped when it did not end in time after a signal."""
        result: list[_T] = []
        failure: list[BaseException] = []

        def target() -> None:
            try:
                result.append(call())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=target, name="papermoth-fit", daemon=True)
        thread.start()
        asked = False
        while thread.is_alive():
            thread.join(0.1)
            if self.signal is None:
                continue
            if not asked:
                asked = True
                self._ask()
            if self._twice or time.monotonic() - self._asked_at > self._grace:
                raise Stopped
        if failure:
            raise failure[0]
        return result[0]

    def exit_code(self) -> int:
        """128 plus the signal that was heard."""
        assert self.signal is not None
        return 128 + self.signal
