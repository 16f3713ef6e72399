"""The half of the metric logger that talks to the store: what is new, and under which name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipelines.tracking_names import LONGEST_TAG, shorten, store_name
from pipelines.tracking_store import RunHandle, Warn, client, passing, short_reason

if TYPE_CHECKING:
    from mlflow.entities import Metric, RunTag

_BATCH = 1000  # values a store takes at once
_TAGS = 100
_NONFINITE_SHOWN = 100


class Entry(NamedTuple):
    """The metrics of one step under their original names, and the time in milliseconds since the epoch."""

    step: int
    time: int
    values: dict[str, float]


class Package(NamedTuple):
    """What one request or a few send; sending it twice stores it once, since every value carries its time."""

    metrics: list[Metric]
    tags: list[RunTag]


class MetricWriter:
    """Writes to one run; used by one thread. `warn(text, about)` is told once about each refused name."""

    def __init__(self, handle: RunHandle, warn: Warn) -> None:
        self._handle, self._warn = handle, warn
        self._store = client(handle.uri)
        self._last: dict[str, int] = {}
        self._nonfinite: dict[str, list[str]] = {}
        self._named: set[str] = set()
        self.stored = self.skipped = self.refused = 0

    def read_progress(self) -> None:
        """Learn the last step of every metric the run holds.

        Raises:
            Exception: whatever mlflow raises if the store does not answer.
        """
        data = self._store.get_run(self._handle.run_id).data
        latest = getattr(data, "_metric_objs", None)  # the public dictionary has values without steps
        if latest is None:
            latest = [
                e for key in data.metrics for e in self._store.get_metric_history(self._handle.run_id, key)
            ]
        for entry in latest:
            self._last[entry.key] = max(entry.step, self._last.get(entry.key, -1))
        for key, text in data.tags.items():
            if key.startswith("nonfinite."):
                self._nonfinite[key.removeprefix("nonfinite.")] = text.split(",")

    def pack(self, entries: Sequence[Entry]) -> Package:
        """Keep what is new, a value per metric and step; non-finite ones and changed names become tags."""
        from mlflow.entities import Metric, RunTag

        metrics: list[Metric] = []
        tags: dict[str, str] = {}
        for step, moment, values in entries:
            for original, value in values.items():
                key = store_name(original)
                if not math.isfinite(value):
                    tags |= self._nonfinite_tag(key, f"{value}@{step}")
                elif step <= self._last.get(key, -1):
                    self.skipped += 1
                else:
                    self._last[key] = step
                    metrics.append(Metric(key, value, moment, step))
                if key != original and key not in self._named:
                    self._named.add(key)
                    tags[f"name.{key}"] = shorten(original, LONGEST_TAG, "cut")
        return Package(metrics, [RunTag(key, text) for key, text in tags.items()])

    def send(self, package: Package) -> None:
        """Store a package; may be called again with the same one.

        Raises:
            Exception: whatever mlflow raises if the store does not answer or does not know the run.
        """
        metrics, tags = package
        while metrics:
            self._send_metrics(metrics[:_BATCH])
            del metrics[:_BATCH]  # a second call goes on behind what arrived
        for start in range(0, len(tags), _TAGS):
            try:
                self._store.log_batch(self._handle.run_id, tags=tags[start : start + _TAGS])
            except Exception as error:
                if not _refused(error):
                    raise
                self._warn(f"the tracking store refuses a tag of the metrics ({short_reason(error)})")

    def _send_metrics(self, metrics: list[Metric]) -> None:
        try:
            self._store.log_batch(self._handle.run_id, metrics=metrics)
            self.stored += len(metrics)
        except Exception as error:
            if not _refused(error):
                raise
            if len(metrics) > 1:  # one bad value must not take the others with it
                for metric in metrics:
                    self._send_metrics([metric])
                return
            self.refused += 1
            self._warn(f"the tracking store refuses metric {metrics[0].key!r} ({short_reason(error)})")

    def _nonfinite_tag(self, key: str, event: str) -> dict[str, str]:
        events = self._nonfinite.setdefault(key, [])
        if event in events or events[-1:] == ["..."]:
            return {}
        events.append(event if len(events) < _NONFINITE_SHOWN else "...")
        return {f"nonfinite.{key}": ",".join(events)}


def _refused(error: Exception) -> bool:
    """Whether the store answered that this request is wrong, as opposed to: no answer, or no such run."""
    return not passing(error) and getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST"
