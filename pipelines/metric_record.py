"""A run's own record of its metrics on disk, one JSON line a step, with or without a server."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path


class MetricRecord:
    """Appends one line a step: {"step", "time", <metric>: value or null, "nonfinite": {<metric>: "nan"}}.

    Opening an existing file cuts a line that a killed process left unfinished and remembers the last step of
    each metric, so that the steps a restart repeats are not written twice.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._last = {key: steps[-1][0] for key, steps in read_record(path).items()}
        self._file = path.open("ab")
        _cut_torn_line(path)

    def append(self, step: int, seconds: float, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one step that were not written before; flushed to the operating system."""
        new = {key: value for key, value in metrics.items() if step > self._last.get(key, -1)}
        if not new:
            return
        line: dict[str, object] = {"step": step, "time": round(seconds, 3)}
        line |= {key: value if math.isfinite(value) else None for key, value in new.items()}
        if nonfinite := {key: str(value) for key, value in new.items() if not math.isfinite(value)}:
            line["nonfinite"] = nonfinite
        self._file.write(json.dumps(line, ensure_ascii=True, allow_nan=False).encode() + b"\n")
        self._file.flush()
        self._last |= dict.fromkeys(new, step)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_record(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Read a record as (step, value) lists per metric, with NaN and infinities as such.

    An unfinished last line is ignored.
    """
    series: dict[str, list[tuple[int, float]]] = {}
    if not path.exists():
        return series
    with path.open("rb") as lines:
        for raw in lines:
            if not raw.endswith(b"\n"):
                break
            line = json.loads(raw)
            step, nonfinite = line.pop("step"), line.pop("nonfinite", {})
            line.pop("time", None)
            for key, value in line.items():
                series.setdefault(key, []).append((step, float(nonfinite[key] if value is None else value)))
    return series


def _cut_torn_line(path: Path) -> None:
    with path.open("r+b") as file:
        content = file.seek(0, 2)
        start = max(0, content - (1 << 20))
        file.seek(start)
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(start + tail.rfind(b"\n") + 1)
