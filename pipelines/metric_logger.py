"""Metrics on their way to the tracking store: queued by the loop, written by a thread, never in its way."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

from pipelines.metric_record import MetricRecord
from pipelines.metric_writer import Entry, MetricWriter
from pipelines.tracking_names import describe, metric_number, step_number
from pipelines.tracking_store import RunHandle, Warn, log_warning, passing, short_reason

_GATHER = 1000  # values taken from the queue at once
_PAUSE = 0.2  # seconds in which a few steps gather for one request


class MetricLogger:
    """Writes metrics to one run from one process (rank 0): `log` only queues, a thread does the rest.

    One value per metric and step: what a restart repeats is skipped, by the last step the store holds. NaN
    and infinities are not numbers to plot: they become a tag "nonfinite.<metric>" = "nan@<step>,...".
    Whatever the store does, training goes on: values wait in memory (the oldest are dropped beyond
    `capacity`), are sent again with growing pauses, and one warning says so. With `record`, everything is
    also written to that file at once (see `metric_record`), store or no store.
    """

    def __init__(
        self,
        handle: RunHandle,
        *,
        record: Path | None = None,
        warn: Warn = log_warning,
        capacity: int = 100_000,
        longest_pause: float = 30.0,
    ) -> None:
        self._uri, self._warn_with, self._capacity, self._longest = handle.uri, warn, capacity, longest_pause
        self._warned: set[str] = set()
        self._queue: deque[Entry] = deque()
        self._queued = self._in_flight = self._lost = 0  # counts of values
        self._hurry = self._closing = self._failing = self._gone = False
        self._change = threading.Condition()
        self._record = self._open_record(record) if record is not None else None
        self._writer: MetricWriter | None = None
        try:  # not in the thread: importing mlflow beside a main thread that imports torch asks for deadlocks
            self._writer = MetricWriter(handle, self._warn)
        except Exception as error:
            self._give_up(error)
        self._thread = threading.Thread(target=self._work, daemon=True, name="metric logger")
        self._thread.start()
        atexit.register(self.close, 5.0)

    @property
    def stored(self) -> int:
        """Values that the store has taken."""
        return self._writer.stored if self._writer else 0

    @property
    def skipped(self) -> int:
        """Values not sent because the run already holds that metric at that step or a later one."""
        return self._writer.skipped if self._writer else 0

    @property
    def lost(self) -> int:
        """Values dropped because the store refused them or did not answer."""
        return self._lost + (self._writer.refused if self._writer else 0)

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        """Queue the metrics of a step (an int >= 0, in any numeric type); values are read now, so tensors may
        change after.

        What is not a number, or not a step, is left out with one warning that names it.
        """
        number = step_number(step)
        if number is None:
            about = f"step {type(step)}"
            self._warn(f"step {describe(step)} is not an integer >= 0; its metrics are not logged", about)
            return
        values: dict[str, float] = {}
        for key, value in metrics.items():
            read = metric_number(value)
            if read is None:
                self._warn(
                    f"metric {key!r} is not a number but {describe(value)}; not logged",
                    f"{key} {type(value)}",
                )
            else:
                values[str(key)] = read
        if values:
            self._put(Entry(number, int(time.time() * 1000), values))

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was logged is stored; False if it is not by then (at once when the store is
        failing).
        """
        until = time.monotonic() + timeout
        with self._change:
            self._hurry = True
            self._change.notify_all()
            while self._queue or self._in_flight:
                left = until - time.monotonic()
                if left <= 0 or self._failing or not self._thread.is_alive():
                    return False
                self._change.wait(left)
            return not self._gone

    def close(self, timeout: float = 30.0) -> None:
        """Store what is left, with one last try if the store is failing, and stop; says how many values were
        lost.
        """
        with self._change:
            if self._closing:
                return
            self._closing = True
            self._change.notify_all()
        atexit.unregister(self.close)
        self._thread.join(timeout)
        with self._change:
            self._lost += self._queued + self._in_flight
            self._queue.clear()
            self._queued = self._in_flight = 0
        if self._record is not None:
            self._record.close()
        if self.lost:
            self._warn(f"{self.lost} metric values did not reach the tracking store {self._uri}")

    def __enter__(self) -> MetricLogger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, entry: Entry) -> None:
        size = len(entry.values)
        with self._change:
            if self._closing:
                self._warn("metrics logged after the logger was closed are not stored", "closed")
                return
            if self._record is not None:
                try:
                    self._record.append(entry.step, entry.time / 1000, entry.values)
                except OSError as error:
                    self._record = None
                    self._warn(f"the metric record stopped ({short_reason(error)}); training goes on")
            self._queue.append(entry)
            self._queued += size
            while self._queued > self._capacity and len(self._queue) > 1:
                dropped = len(self._queue.popleft().values)
                self._queued, self._lost = self._queued - dropped, self._lost + dropped
            self._change.notify_all()

    def _work(self) -> None:
        ready = self._writer is not None and self._until_done(self._writer.read_progress)
        while entries := self._next():
            if ready and not self._gone and self._writer is not None:
                package = self._writer.pack(entries)
                self._until_done(partial(self._writer.send, package))
                left = len(package.metrics)
            else:
                left = sum(len(entry.values) for entry in entries)
            with self._change:
                self._in_flight, self._lost = 0, self._lost + left
                self._change.notify_all()

    def _next(self) -> list[Entry]:
        """Take a few entries; waits for some, and is empty only when the logger closes."""
        with self._change:
            while not self._queue and not self._closing:
                self._hurry = False
                self._change.wait()
            if not (self._closing or self._hurry):
                self._change.wait_for(lambda: self._closing or self._hurry, _PAUSE)
            entries: list[Entry] = []
            while self._queue and self._in_flight < _GATHER:
                entry = self._queue.popleft()
                self._queued -= len(entry.values)
                self._in_flight += len(entry.values)
                entries.append(entry)
            return entries

    def _until_done(self, call: Callable[[], None]) -> bool:
        """Try until it works; False once the store has refused for good, or when the logger closes on a
        failing store.
        """
        pause, last_try = 0.25, False
        while True:
            try:
                call()
            except Exception as error:
                if not passing(error):
                    self._give_up(error)
                    return False
                with self._change:
                    self._failing = pause > 0.25
                    self._change.notify_all()
                    if self._failing:
                        what = f"tracking store {self._uri} does not answer ({short_reason(error)})"
                        self._warn(
                            f"{what}; training goes on, the metrics are sent again when it does",
                            "not answering",
                        )
                    if last_try:
                        return False
                    last_try = self._closing or self._change.wait_for(lambda: self._closing, pause)
                pause = min(self._longest, pause * 2)
            else:
                with self._change:
                    self._failing = False
                    self._change.notify_all()
                return True

    def _give_up(self, error: Exception) -> None:
        self._gone = True
        self._warn(f"tracking is off ({short_reason(error)}); training goes on without it")

    def _warn(self, text: str, about: str | None = None) -> None:
        about = text if about is None else about
        if about not in self._warned:
            self._warned.add(about)
            self._warn_with(text)

    def _open_record(self, path: Path) -> MetricRecord | None:
        try:
            return MetricRecord(path)
        except (OSError, ValueError) as error:
            self._warn(
                f"cannot write the metric record {path} ({short_reason(error)}); training goes on without it"
            )
            return None
