"""Where trainer 0 leaves its newest numbers and the driver finds them, whichever machines they are on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

POLL_SECONDS = 1.0


class Board:
    """A Ray actor's class: keeps the newest progress and what happened since it was last asked."""

    def __init__(self) -> None:
        self._newest: dict[str, Any] = {}
        self._messages: list[str] = []
        self._stopping = False
        self._fault: str | None = None

    def put(self, numbers: dict[str, Any]) -> None:
        """Trainer 0 reports where it is."""
        self._newest = {**self._newest, **numbers}

    def say(self, message: str) -> None:
        """A line for the person watching."""
        self._messages.append(message)

    def stop(self) -> None:
        """The driver asks the trainers to stop after their step."""
        self._stopping = True

    def stopping(self) -> bool:
        """Whether it has."""
        return self._stopping

    def broken(self, fault: str) -> None:
        """A trainer found that the data cannot be had, which no restart mends; the first to say so is heard."""
        self._fault = self._fault or fault

    def fault(self) -> str | None:
        """What it said."""
        return self._fault

    def take(self) -> tuple[dict[str, Any], list[str]]:
        """The newest numbers, and the messages since the last call."""
        messages, self._messages = self._messages, []
        return self._newest, messages


class StopPoll:
    """A thread of trainer 0 that asks the board whether to stop, so that no step waits for the answer."""

    def __init__(self, board: Any) -> None:
        self._board = board
        self._asked = threading.Event()
        threading.Thread(target=self._poll, name="papermoth-stop", daemon=True).start()

    def _poll(self) -> None:
        import ray

        while not self._asked.is_set():
            time.sleep(POLL_SECONDS / 2)
            try:
                if ray.get(self._board.stopping.remote(), timeout=10):
                    self._asked.set()
            except Exception:
                # Out of reach for a while; the next poll may answer.
                time.sleep(POLL_SECONDS)

    def __call__(self) -> bool:
        """Whether the driver asked to stop."""
        return self._asked.is_set()


class Watcher:
    """A thread of the driver that shows what is on the board until it is closed."""

    def __init__(self, board: Any, show: Callable[[dict[str, Any], list[str]], None]) -> None:
        self._board, self._show = board, show
        self._stop = threading.Event()
        self._shown: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._watch, name="papermoth-progress", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        import ray

        while not self._stop.wait(POLL_SECONDS):
            try:
                numbers, messages = ray.get(self._board.take.remote(), timeout=10)
            except Exception:
                # The board may be out of reach while its node restarts; progress is not worth a run.
                time.sleep(POLL_SECONDS)
                continue
            self._tell(numbers, messages)

    def _tell(self, numbers: dict[str, Any], messages: list[str]) -> None:
        """Show what is new; the numbers of a step once."""
        if messages or numbers != self._shown:
            self._show(numbers if numbers != self._shown else {}, messages)
            self._shown = numbers

    def close(self) -> None:
        """Show what is left and stop."""
        import ray

        self._stop.set()
        self._thread.join(timeout=15)
        try:
            self._tell(*ray.get(self._board.take.remote(), timeout=10))
        except Exception as error:
            self._show({}, [f"the last progress is lost: {type(error).__name__}"])
