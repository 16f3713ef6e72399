"""How far one job is: its rate, smoothed, and the time left."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pipelines.readable import amount, duration, number, share
from pipelines.tracking_names import plain

_MEMORY = 20.0  # seconds that a rate remembers
_QUIET = ("tokens", "unit", "wait", "loss")


class Rate:
    """The speed of a growing count, an average that forgets with a time constant of 20 seconds.

    The first value is where counting starts, so a resumed job does not look infinitely fast; a count that
    falls (a restart from a checkpoint) starts anew and keeps the speed known so far.
    """

    def __init__(self) -> None:
        self.value: float | None = None
        self._at: tuple[float, float] | None = None
        self._seen = 0.0

    def update(self, now: float, count: float) -> None:
        """Take the count at a time in seconds."""
        if self._at is None or count < self._at[1]:
            self._at = now, count
            return
        passed, grown = now - self._at[0], count - self._at[1]
        if passed <= 0 or (
            grown == 0 and passed < _MEMORY
        ):  # between two reports nothing is known, a stall is
            return
        self._seen += passed
        # What was seen is averaged evenly until there is more of it than memory.
        weight = 1 - math.exp(-passed / _MEMORY) if self._seen > _MEMORY else passed / self._seen
        self.value = (
            grown / passed if self.value is None else self.value + weight * (grown / passed - self.value)
        )
        self._at = now, count


class Job:
    """The state behind one progress line."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.done, self.total = 0, None
        self.fields: dict[str, object] = {}
        self._start = self._now = now
        self._steps, self._tokens = Rate(), Rate()

    total: int | None

    def update(self, now: float, done: int, total: int | None, fields: Mapping[str, object]) -> None:
        """Take the latest numbers; a field that is not given keeps its last value."""
        self._now, self.done, self.total = now, done, total
        self.fields |= {key: plain(value) for key, value in fields.items()}  # numpy and torch scalars too
        self._steps.update(now, done)
        if "tokens" in fields and (tokens := _float(self.fields["tokens"])) is not None:
            self._tokens.update(now, tokens)

    def seconds_left(self) -> float | None:
        """Time to the end at the present rate, if both are known."""
        rate = self._steps.value
        return max(0, self.total - self.done) / rate if rate and self.total is not None else None

    def line(self) -> str:
        """The progress line: name, done/total, share, loss, rate, wait, time left, the other fields."""
        unit = str(self.fields.get("unit", ""))
        count = number(self.done) if self.total is None else f"{number(self.done)}/{number(self.total)}"
        parts = [self.name, f"{count} {unit}".rstrip()]
        if self.total:
            parts.append(share(min(1.0, self.done / self.total)))
        if "loss" in self.fields:
            parts.append(f"loss {number(self.fields['loss'])}")
        if self._tokens.value is not None:
            parts.append(amount(self._tokens.value, "tok/s"))
        elif unit and self._steps.value is not None:
            parts.append(f"{amount(self._steps.value)} {unit}/s")
        if (wait := _float(self.fields.get("wait"))) is not None:
            parts.append(f"wait {share(wait)}")
        if (left := self.seconds_left()) is not None and left > 0:
            parts.append(f"{duration(left)} left")
        parts += [
            f"{key.replace('_', ' ')} {number(value)}"
            for key, value in self.fields.items()
            if key not in _QUIET
        ]
        return "  ".join(parts)

    def event(self) -> dict[str, object]:
        """The same as raw numbers."""
        event: dict[str, object] = {"job": self.name, "done": self.done, "total": self.total}
        event |= {"seconds": round(self._now - self._start, 3)} | self.fields
        if self._tokens.value is not None:
            event["tokens_per_second"] = self._tokens.value
        event["rate"] = self._steps.value
        event["seconds_left"] = self.seconds_left()
        return event

    def outcome(self, now: float, fields: Mapping[str, object]) -> str:
        """The line that ends the job."""
        unit = str(fields.get("unit", self.fields.get("unit", "")))
        parts = [self.name, f"done in {duration(now - self._start)}"]
        if self.done and unit:
            parts.append(f"{number(self.done)} {unit}")
        if (tokens := _float(fields.get("tokens", self.fields.get("tokens")))) is not None:
            parts.append(amount(tokens, "tok"))
        if (wait := _float(fields.get("wait"))) is not None:
            parts.append(f"wait {share(wait)}")
        rest = {key: value for key, value in fields.items() if key not in ("tokens", "unit", "wait")}
        return "  ".join(parts + [f"{key.replace('_', ' ')} {number(value)}" for key, value in rest.items()])

    def outcome_event(self, now: float, fields: Mapping[str, object]) -> dict[str, object]:
        """The same as raw numbers, with the last of every field."""
        event: dict[str, object] = {"job": self.name, "done": self.done, "total": self.total}
        return event | {"seconds": round(now - self._start, 3)} | self.fields | dict(fields)


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
