"""Rotation: a document is cut at a random token, and what came before it is moved to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import take
from corruption.noise import below, draw, fold
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.vocabulary import Vocabulary


@njit(inline="always")
def rotate_row(stream: np.uint64, index: Int32) -> None:
    """One row of len(index) tokens: the token at a random offset comes first. Draw 0 is the offset."""
    n = len(index)
    first = 1 + np.int64(below(draw(stream, np.uint64(0)), np.uint64(n - 1))) if n > 1 else np.int64(0)
    for i in range(n - first):
        index[i] = first + i
    for i in range(first):
        index[n - first + i] = i


@njit(cache=True, nogil=True)
def rotate_rows(offsets: Int64, prefix: np.uint64, keys: UInt64, copies: UInt64, index: Int32) -> None:
    """The loop over rows."""
    for row in range(len(keys)):
        rotate_row(fold(fold(prefix, keys[row]), copies[row]), index[offsets[row] : offsets[row + 1]])


@register
@dataclass(frozen=True)
class Rotate:
    """Rotate each row so that another token, any but the first, comes first; a row of one token stays.

    Random: the offset, uniform on 1..n-1.
    Source: Lewis et al. 2020, section 2.2, document rotation. Deviation: never the identity, which the released
    code draws with probability 2/(n + 1).
    """

    kind: ClassVar[str] = "rotate"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    def needs(self) -> tuple[str, ...]:
        """Tokens only."""
        return ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """Rotation keeps the length."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do."""

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Tokens and all that is aligned with them, rotated."""
        tokens = batch.tokens
        index = np.empty(len(tokens.values), np.int32)
        rotate_rows(tokens.offsets, noise.prefix, batch.keys, batch.copies, index)
        return take(batch, tokens.with_values(index))
