"""Random insertion: ordinary tokens, or masks, that were never in the text come to stand between its tokens.

Draws 4j, 4j + 1 and 4j + 2 of a row's stream belong to insertion j: its gap, then, counted from left to right, whether
it is the mask, and which token it is. Draw 4i + 3 is the coin of token i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import splice
from corruption.errors import InputError
from corruption.noise import below, draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.registry import register
from corruption.spans import COUNTS, budget
from corruption.vocabulary import Vocabulary

_BERNOULLI = COUNTS["bernoulli"]
_ONE, _TWO, _THREE, _FOUR = (np.uint64(n) for n in (1, 2, 3, 4))
_HIGHEST_UNIT = 1.0 - 2.0**-53


@njit(inline="always")
def insert_row(
    n: int,
    rate: float,
    count: int,
    mask_id: int,
    mask_share: float,
    pool: Int32,
    stream: np.uint64,
    crowd: Int32,
    gaps: Int32,
    values: Int32,
) -> int:
    """One row of n tokens: write each insertion's gap, in order, and its token; return how many there are.

    Gap i lies before token i, gap n behind the last. `crowd` (n + 1) is scratch: for each gap, how many fall into it.
    """
    if count == _BERNOULLI:
        m = 0
        for i in range(n):
            m += 1 if unit(draw(stream, _FOUR * np.uint64(i) + _THREE)) < rate else 0
    else:
        m = budget(n, rate, count, stream)
    for gap in range(n + 1):
        crowd[gap] = 0
    for j in range(m):
        drawn = np.int64(below(draw(stream, _FOUR * np.uint64(j)), np.uint64(n + 1)))
        values[j] = drawn
        crowd[drawn] += 1
    # Sorted by counting: where the gap's insertions begin, then one place on for each.
    before = np.int32(0)
    for gap in range(n + 1):
        here = crowd[gap]
        crowd[gap] = before
        before += here
    for j in range(m):
        drawn = np.int64(values[j])
        gaps[crowd[drawn]] = drawn
        crowd[drawn] += 1
    for k in range(m):
        at = _FOUR * np.uint64(k)
        token = pool[below(draw(stream, at + _TWO), np.uint64(len(pool)))]
        values[k] = mask_id if unit(draw(stream, at + _ONE)) < mask_share else token
    return m


@njit(cache=True, nogil=True)
def insert_rows(
    offsets: Int64,
    rate: float,
    count: int,
    mask_id: int,
    mask_share: float,
    pool: Int32,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    crowd: Int32,
    gaps: Int32,
    values: Int32,
    new_offsets: Int64,
) -> None:
    """The loop over rows: `gaps` and `values` come to hold the insertions, row behind row."""
    n = np.int64(0)
    new_offsets[0] = n
    for row in range(len(keys)):
        n += insert_row(
            offsets[row + 1] - offsets[row],
            rate,
            count,
            mask_id,
            mask_share,
            pool,
            fold(fold(prefix, keys[row]), copies[row]),
            crowd,
            gaps[n:],
            values[n:],
        )
        new_offsets[row + 1] = n


@register
@dataclass(frozen=True)
class InsertRandom:
    """Insert ordinary tokens or masks between the tokens of each row.

    rate: insertions as a share of the row's tokens. mask_share: each insertion is the mask with this probability,
    one alone too, else an ordinary token, each equally likely. count: "exact" (round half to even, at least one),
    "bernoulli" (a coin for each token), "stochastic" (floor(rate * n + U), unbiased). Each insertion falls into
    one of the n + 1 gaps of a row of n tokens, all equally likely; several may share one. An empty row stays empty.

    Random: how many, where and what, from the step's stream of the example.
    Raises InputError when a share or the rate is out of range, or the tokenizer has no mask token.
    Source: the insertions of BART's released noise (Lewis et al. 2020); no paper gives a rate, 0.1 is ours.
    Deviations: the count is rounded, not rounded up; masks are drawn one by one, not by a rounded number.
    """

    kind: ClassVar[str] = "insert_random"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ("labels",)

    rate: float = 0.1
    mask_share: float = 0.0
    count: Literal["exact", "bernoulli", "stochastic"] = "exact"

    def __post_init__(self) -> None:
        for name in ("rate", "mask_share"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                do = "give a share between 0 and 1"
                raise InputError(f"insert_random.{name}", f"{value} is outside 0 to 1", do)

    def needs(self) -> tuple[str, ...]:
        """The columns it reads."""
        return ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """What the count can come to at most; every coin of "bernoulli" may fall so."""
        most = length if self.rate > 0 else 0
        if self.count == "exact" and most:
            most = min(length, max(1, round(self.rate * length)))
        elif self.count == "stochastic" and most:
            most = min(length, math.floor(self.rate * length + _HIGHEST_UNIT))
        return {"tokens": length + most}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks what this needs."""
        if self.mask_share > 0:
            vocabulary.need("mask", "the corruption 'insert_random'")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Every aligned column with room for the insertions, and `origin`: -1 at each."""
        tokens = batch.tokens
        longest = int(tokens.lengths.max()) if len(batch) else 0
        gaps, values = np.empty_like(tokens.values), np.empty_like(tokens.values)
        offsets = np.empty_like(tokens.offsets)
        insert_rows(
            tokens.offsets,
            float(self.rate),
            COUNTS[self.count],
            -1 if vocabulary.mask is None else vocabulary.mask,
            float(self.mask_share),
            vocabulary.pool,
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest + 1, np.int32),
            gaps,
            values,
            offsets,
        )
        places = Ragged.of(gaps[: offsets[-1]], offsets)
        return splice(batch, places, places, np.ones(offsets[-1], np.int64), values[: offsets[-1]])
