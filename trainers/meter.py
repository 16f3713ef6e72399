"""What a run reports: sums and counts over an interval of steps, turned into plain floats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def averages(
    totals: Mapping[str, float], counts: Mapping[str, float], weights: Mapping[str, float]
) -> dict[str, float]:
    """Losses and metrics from sums: `loss/<term>` per counted position, `loss` in all, and each metric.

    totals: {"loss/<term>": sum, "metric/<name>": sum, "of/<name>": count}; counts: by term. A term or metric
    that counted nothing is left out.
    """
    losses = {term: totals[f"loss/{term}"] / count for term, count in counts.items() if count}
    out = {f"loss/{term}": value for term, value in losses.items()}
    if losses:
        out["loss"] = sum(weights[term] * value for term, value in losses.items())
    for name, count in totals.items():
        if name.startswith("of/") and count:
            metric = name.removeprefix("of/")
            out[metric] = totals[f"metric/{metric}"] / count
    return out


class Meter:
    """Sums over the steps since the last report."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._start()

    def _start(self) -> None:
        self._totals: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._tokens, self._seconds, self._waited, self._skipped = 0, 0.0, 0.0, 0

    def add(
        self,
        totals: Mapping[str, float],
        counts: Mapping[str, int],
        *,
        tokens: int,
        seconds: float,
        waited: float,
        skipped: bool,
    ) -> None:
        """Take in a step: sums over all trainers, counts, and this trainer's time and wait for data."""
        self._totals.update({k: v for k, v in totals.items() if k.startswith(("loss/", "metric/", "of/"))})
        self._counts.update(counts)
        self._tokens += tokens
        self._seconds += seconds
        self._waited += waited
        self._skipped += skipped

    def take(self) -> dict[str, float]:
        """Averages since the last take, with `tokens_per_second`, `data_wait` (a share), `skipped_steps`."""
        out = averages(self._totals, self._counts, self._weights)
        out["tokens_per_second"] = self._tokens / max(self._seconds, 1e-9)
        out["data_wait"] = self._waited / max(self._seconds, 1e-9)
        out["skipped_steps"] = float(self._skipped)
        self._start()
        return out
