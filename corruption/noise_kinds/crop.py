"""Cropping: one stretch of the text is kept, what stands before and behind it goes.

Draw 0 of a row's stream says where the stretch begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import take
from corruption.errors import InputError
from corruption.noise import below, draw, fold
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64, offsets_of
from corruption.registry import register
from corruption.spans import COUNTS, budget
from corruption.vocabulary import Vocabulary

_EXACT = COUNTS["exact"]
_START_DRAW = np.uint64(0)


@njit(inline="always")
def kept_tokens(n: int, rate: float, stream: np.uint64) -> int:
    """How many of n tokens stay: all but the budget, and at least one."""
    return n - min(budget(n, rate, _EXACT, stream), max(n - 1, 0))


@njit(inline="always")
def crop_row(n: int, stream: np.uint64, index: Int32) -> None:
    """One row of n tokens: the places of a stretch as long as `index`, each stretch equally likely."""
    start = np.int64(below(draw(stream, _START_DRAW), np.uint64(n - len(index) + 1)))
    for j in range(len(index)):
        index[j] = start + j


@njit(cache=True, nogil=True)
def crop_lengths(lengths: Int64, rate: float, out: Int64) -> None:
    """How long each row comes out."""
    for row in range(len(lengths)):
        out[row] = kept_tokens(lengths[row], rate, np.uint64(0))  # an exact budget draws nothing


@njit(cache=True, nogil=True)
def crop_rows(
    lengths: Int64, new_offsets: Int64, prefix: np.uint64, keys: UInt64, copies: UInt64, index: Int32
) -> None:
    """The loop over rows."""
    for row in range(len(lengths)):
        stream = fold(fold(prefix, keys[row]), copies[row])
        crop_row(lengths[row], stream, index[new_offsets[row] : new_offsets[row + 1]])


@register
@dataclass(frozen=True)
class Crop:
    """Keep one stretch of the passage, as a view of it for contrastive objectives.

    rate: share of the tokens that goes, rounded half to even; at least one goes unless it is 0, and at least
    one stays. All tokens count, [UNK] too.

    Random: where the stretch begins, each place equally likely.
    Raises InputError when the rate is outside 0 to 1.
    Source: Gao et al. 2021 (SimCSE), section 3, where "crop 10 %" keeps 90 % of the length.
    """

    kind: ClassVar[str] = "crop"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise InputError("crop.rate", f"{self.rate} is outside 0 to 1", "give the share of the tokens that goes")

    def needs(self) -> tuple[str, ...]:
        """Only the tokens."""
        return ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """What stays of `length` tokens; a shorter passage leaves no more."""
        return {"tokens": int(kept_tokens(length, self.rate, np.uint64(0)))}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do."""

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """The stretch, every aligned column with it."""
        lengths = batch.tokens.lengths
        kept = np.empty_like(lengths)
        crop_lengths(lengths, float(self.rate), kept)
        offsets = offsets_of(kept)
        index = np.empty(offsets[-1], np.int32)
        crop_rows(lengths, offsets, noise.prefix, batch.keys, batch.copies, index)
        return take(batch, Ragged.of(index, offsets))
