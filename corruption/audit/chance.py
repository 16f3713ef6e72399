"""Exact tests for what is true on average only: how unlikely is a count, if all was done as asked?

Everything comes down to the binomial law. A sum of independent coins of different bias lies closer to its mean
than the binomial law of the same mean (Hoeffding 1956), and how many of a chosen set fall into another set is
such a sum; so both are tested, on the safe side, as if they were binomial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.number[Any]]

LEVEL = 1e-9
"""How often a test may raise an alarm although all is well: once in a billion data sets."""


@dataclass(frozen=True)
class Trial:
    """A count that chance decides: `hits` of `of` tries, where from `low` to `high` hits are expected.

    law: the law's name; what: what is counted, for messages. low and high differ where it is only known between
    which bounds the expectation lies.
    """

    law: str
    what: str
    hits: int
    of: int
    low: float
    high: float

    @property
    def size(self) -> int:
        """How many tries there were."""
        return self.of

    def chance(self) -> float:
        """How likely a count at least as far from what is expected is, at most; 1 for one that is expected."""
        if self.of == 0 or self.low <= self.hits <= self.high:
            return 1.0
        if self.hits < self.low:
            return min(1.0, 2.0 * at_most(self.hits, self.of, min(1.0, self.low / self.of)))
        return min(1.0, 2.0 * at_least(self.hits, self.of, max(0.0, min(1.0, self.high / self.of))))

    def __add__(self, other: Trial) -> Trial:
        return Trial(
            self.law,
            self.what,
            self.hits + other.hits,
            self.of + other.of,
            self.low + other.low,
            self.high + other.high,
        )

    def __str__(self) -> str:
        if self.of == 0:
            return f"{self.what}: none"
        low, high, share = self.low / self.of, self.high / self.of, self.hits / self.of
        asked = f"{low:.4f}" if low == high else f"{low:.4f} to {high:.4f}"
        a, b = interval(self.hits, self.of)
        return (
            f"{self.what}: {self.hits:,} of {self.of:,}, a share of {share:.4f}, asked for {asked}; "
            f"such a count comes of a share from {a:.4f} to {b:.4f}"
        )


@dataclass(frozen=True)
class Total:
    """A total over rows, each of which chance decides on its own.

    squares: the sum of each row's squared distance from what is expected of it. reach: how wide the range is in which
    a row can lie.
    """

    law: str
    what: str
    rows: int
    seen: float
    expected: float
    squares: float
    reach: float

    @staticmethod
    def of(law: str, what: str, seen: Numbers, expected: Numbers, reach: float) -> Total:
        """From what was seen and what is expected of each row."""
        off = seen.astype(np.float64) - expected.astype(np.float64)
        return Total(law, what, len(off), float(np.sum(seen)), float(np.sum(expected)), float((off * off).sum()), reach)

    @property
    def size(self) -> int:
        """How many rows were looked at."""
        return self.rows

    def chance(self) -> float:
        """How likely a total at least as far from what is expected is, at most.

        Source: the empirical Bernstein bound of Audibert, Munos and Szepesvari 2009, theorem 1.
        """
        off = abs(self.seen - self.expected)
        if off == 0.0:
            return 1.0
        root = (math.sqrt(2 * self.squares + 12 * self.reach * off) - math.sqrt(2 * self.squares)) / (6 * self.reach)
        return min(1.0, 3.0 * math.exp(-root * root))

    def __add__(self, other: Total) -> Total:
        return Total(
            self.law,
            self.what,
            self.rows + other.rows,
            self.seen + other.seen,
            self.expected + other.expected,
            self.squares + other.squares,
            max(self.reach, other.reach),
        )

    def __str__(self) -> str:
        return f"{self.what}: {self.seen:,.1f} over {self.rows:,} rows, where {self.expected:,.1f} are expected"


def summed(trials: Iterable[Trial | Total]) -> list[Trial | Total]:
    """Trials of one law and thing made one, in the order of their first."""
    found: dict[tuple[str, str], Trial | Total] = {}
    for trial in trials:
        key = (trial.law, trial.what)
        found[key] = found[key] + trial if key in found else trial  # type: ignore[operator]
    return list(found.values())


def at_least(hits: int, of: int, chance: float) -> float:
    """P(X >= hits) for `of` coins of this chance."""
    if hits <= 0:
        return 1.0
    if hits > of or chance <= 0.0:
        return 0.0
    return 1.0 if chance >= 1.0 else _beta(chance, hits, of - hits + 1)


def at_most(hits: int, of: int, chance: float) -> float:
    """P(X <= hits) for `of` coins of this chance."""
    return at_least(of - hits, of, 1.0 - chance)


def interval(hits: int, of: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of the chance behind a count; it misses with `level` at most."""
    low = 0.0 if hits == 0 else _root(lambda p: at_least(hits, of, p) - level / 2)
    high = 1.0 if hits == of else _root(lambda p: level / 2 - at_most(hits, of, p))
    return low, high


def _root(rising: object) -> float:
    a, b = 0.0, 1.0
    for _ in range(60):
        middle = (a + b) / 2
        a, b = (middle, b) if rising(middle) < 0 else (a, middle)  # type: ignore[operator]
    return (a + b) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22, evaluated by Lentz's method.
    """
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta(1.0 - x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 1_000_000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + step * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + step / c
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return math.exp(logarithm) * fraction / a
