"""Laws of span lengths: small configurations, each a table of P(length <= n) that the kernels draw from.

A kernel sees only the table, so every law costs the same and a new one needs no new kernel. Lengths are
counted in whatever the corruption counts spans in: tokens, or whole words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.errors import InputError

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Poisson:
    """P(n) of a Poisson law, lengths of 0 included, cut where P(n) falls below 1e-7 behind the mean.

    Source: Lewis et al. 2020, section 2.2 (mean 3). Deviation: the cut, which the released code has too.
    """

    kind: ClassVar[str] = "poisson"
    mean: float = 3.0

    def __post_init__(self) -> None:
        if not 0.0 < self.mean <= 100.0:
            raise InputError("poisson.mean", f"{self.mean} is not above 0 and up to 100", "give a mean in tokens")

    def table(self) -> Float64:
        """float64[longest + 1]: P(length <= n); the last is 1."""
        shares = [math.exp(-self.mean)]
        while len(shares) <= self.mean or shares[-1] >= 1e-7:
            shares.append(shares[-1] * self.mean / len(shares))
        return _cumulated(shares)


@dataclass(frozen=True)
class Geometric:
    """P(n) = p (1 - p)^(n - 1) for n = 1..longest, scaled to add up to 1.

    Source: Joshi et al. 2020, section 3.1 (p 0.2, longest 10, mean 3.8 by cutting off).
    """

    kind: ClassVar[str] = "geometric"
    p: float = 0.2
    longest: int = 10

    def __post_init__(self) -> None:
        if not 0.0 < self.p <= 1.0:
            raise InputError("geometric.p", f"{self.p} is not above 0 and up to 1", "give the chance that a span ends")
        _longest("geometric", self.longest)

    def table(self) -> Float64:
        """float64[longest + 1]: P(length <= n); the first is 0, the last 1."""
        return _cumulated([0.0] + [self.p * (1.0 - self.p) ** n for n in range(self.longest)])


@dataclass(frozen=True)
class Ngram:
    """P(n) proportional to 1/n for n = 1..longest.

    Source: Lan et al. 2020, section 3.1, n-gram masking (longest 3); Yang et al. 2019 (longest 5).
    """

    kind: ClassVar[str] = "ngram"
    longest: int = 3

    def __post_init__(self) -> None:
        _longest("ngram", self.longest)

    def table(self) -> Float64:
        """float64[longest + 1]: P(length <= n); the first is 0, the last 1."""
        return _cumulated([0.0] + [1.0 / n for n in range(1, self.longest + 1)])


@dataclass(frozen=True)
class Shares:
    """P(n) as given, for n = 1, 2, ...; they are scaled to add up to 1.

    Source: Dong et al. 2019 (UniLM), section 2.3: (0.8, 0.1, 0.1).
    """

    kind: ClassVar[str] = "shares"
    shares: tuple[float, ...] = (0.8, 0.1, 0.1)

    def __post_init__(self) -> None:
        if not self.shares or min(self.shares) < 0 or not 0 < sum(self.shares) < math.inf:
            raise InputError("shares.shares", f"{list(self.shares)}", "give a share for each length 1, 2, ...")

    def table(self) -> Float64:
        """float64[longest + 1]: P(length <= n); the first is 0, the last 1."""
        return _cumulated([0.0, *self.shares])


def _longest(kind: str, longest: int) -> None:
    if not 1 <= longest <= 1000:
        raise InputError(f"{kind}.longest", f"{longest} is not from 1 to 1000", "give the longest span")


def _cumulated(shares: Sequence[float]) -> Float64:
    # Summed one by one in a fixed order, so that every machine has the same table.
    table, total, whole = np.empty(len(shares)), 0.0, math.fsum(shares)
    for n, share in enumerate(shares):
        total += share / whole
        table[n] = total
    table[-1] = 1.0
    return table


@njit(inline="always")
def length_at(table: Float64, u: float) -> int:
    """The length that a uniform number in [0, 1) stands for: the first n with u < P(length <= n)."""
    n = 0
    while u >= table[n]:
        n += 1
    return n
