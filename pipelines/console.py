"""What a person, or a log collector, sees of a long job: messages, warnings, one live progress line, the
outcome.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal, TextIO

from pipelines.progress import Job
from pipelines.tracking_names import plain

_EVERY = 3.0  # seconds between progress lines that stay
_REDRAW = 0.1  # seconds between redraws of a live line


class Console:
    """Writes for people ("text") or one JSON object a line ("json"); safe to call from several threads.

    Messages, progress and outcomes go to `out`, warnings to `err`. On a terminal progress is one line that is
    redrawn; elsewhere a plain line every few seconds. Writing never breaks a job: a reader that went away (`|
    head`) silences that stream, letters that its encoding lacks are escaped.
    """

    def __init__(
        self,
        mode: Literal["text", "json"] = "text",
        out: TextIO | None = None,
        err: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        every: float = _EVERY,
    ) -> None:
        if mode not in ("text", "json"):
            raise ValueError(f"mode {mode!r} is neither 'text' nor 'json'")
        self.mode = mode
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._clock = clock
        self._live = mode == "text" and _redraws(self._out)
        self._every = _REDRAW if self._live else every
        self._jobs: dict[str, Job] = {}
        self._drawn: dict[str, float] = {}
        self._line = ""
        self._said: set[str] = set()
        self._deaf: set[int] = set()
        self._lock = threading.RLock()
        if self._live:
            atexit.register(self.close)

    def say(self, text: str) -> None:
        """Print a line (or a few) for people; in json mode {"event": "message", "text"}."""
        with self._lock:
            if self.mode == "json":
                self._event(self._out, "message", {"text": text})
            else:
                self._print(self._out, text)

    def warn(self, text: str) -> None:
        """Print "warning: ..." to stderr, each text once; in json mode {"event": "warning", "text"}, to
        stderr too.
        """
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
            if self.mode == "json":
                self._event(self._err, "warning", {"text": text})
            else:
                self._print(self._err, f"warning: {text}")

    def progress(self, job: str, done: int, total: int | None = None, **fields: object) -> None:
        """Tell how far a job is; call it as often as you like, it draws every few seconds and at the end.

        Fields with a meaning: `tokens` (counted since the start; gives the rate), `unit` (what `done`
        counts), `wait` (share of time, 0 to 1). All others are shown as they are. In json mode every field is
        passed on, raw, with "seconds", "rate" or "tokens_per_second", and "seconds_left".
        """
        with self._lock:
            now = self._clock()
            state = self._jobs.setdefault(job, Job(job, now))
            state.update(now, done, total, fields)
            complete = total is not None and done >= total
            if not complete and now - self._drawn.get(job, -1e9) < self._every:
                return
            self._drawn[job] = now
            if self.mode == "json":
                self._event(self._out, "progress", state.event())
            elif self._live:
                self._draw(state.line())
            else:
                self._print(self._out, state.line())

    def done(self, job: str, **fields: object) -> None:
        """Say that a job ended, with how long it took; ends its progress line."""
        with self._lock:
            state = self._jobs.pop(job, None) or Job(job, self._clock())
            self._drawn.pop(job, None)
            if self._live:
                self._draw("")
            if self.mode == "json":
                self._event(self._out, "done", state.outcome_event(self._clock(), fields))
            else:
                self._print(self._out, state.outcome(self._clock(), fields))

    def close(self) -> None:
        """Leave a live line behind as an ordinary one, so that what others print starts a line of its own."""
        with self._lock:
            if self._line:
                self._line = ""
                self._write(self._out, "\n")

    def _event(self, stream: TextIO, event: str, fields: Mapping[str, object]) -> None:
        line = {"event": event, "time": round(time.time(), 3)} | {
            key: plain(value) for key, value in fields.items()
        }
        self._write(stream, json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n")

    def _print(self, stream: TextIO, text: str) -> None:
        kept = self._line
        self._draw("")
        self._write(stream, text + "\n")
        self._draw(kept)

    def _draw(self, line: str) -> None:
        """Put a live line in the place of the one that is there."""
        if not self._live or (not line and not self._line):
            return
        room = (
            shutil.get_terminal_size((80, 24)).columns - 1
        )  # a full line would wrap and could not be erased
        self._line = line
        self._write(self._out, "\r\x1b[2K" + line[:room])

    def _write(self, stream: TextIO, text: str) -> None:
        if id(stream) in self._deaf:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                encoding = stream.encoding or "ascii"
                stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except (OSError, ValueError):  # a closed pipe or file
            self._deaf.add(id(stream))
            with contextlib.suppress(OSError, ValueError):  # or the interpreter complains about it at its end
                if stream.fileno() == 1:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _redraws(stream: TextIO) -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb") and not os.environ.get("CI")
    return False
