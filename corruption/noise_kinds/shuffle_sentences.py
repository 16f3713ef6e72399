"""Sentence permutation: the sentences of a document change places, each whole.

Draws of a row's stream: j = 0, 1, ... for the j-th exchange, and from 2 ** 32 on for which sentences take part.
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
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.spans import edges_of
from corruption.vocabulary import Vocabulary

_WHICH = np.uint64(1 << 32)


@njit(inline="always")
def shuffle_sentences_row(
    starts: Int32, share: float, stream: np.uint64, edges: Int32, slots: Int32, order: Int32, index: Int32
) -> None:
    """One row: choose the sentences that take part, permute them among their own slots, write them out."""
    n = edges_of(starts, edges)
    if n > 1 and starts[0] == 0:
        # What comes before the first start belongs to the first sentence.
        n -= 1
        for s in range(1, n + 1):
            edges[s] = edges[s + 1]
    moved = min(n, max(2, int(np.rint(share * n)))) if share > 0.0 else 0
    for s in range(n):
        slots[s] = s
        order[s] = s
    if moved < n:
        for j in range(moved):
            other = j + np.int64(below(draw(stream, _WHICH + np.uint64(j)), np.uint64(n - j)))
            slots[j], slots[other] = slots[other], slots[j]
    for j in range(moved - 1):
        a, b = slots[j], slots[j + np.int64(below(draw(stream, np.uint64(j)), np.uint64(moved - j)))]
        order[a], order[b] = order[b], order[a]
    to = 0
    for s in range(n):
        for i in range(edges[order[s]], edges[order[s] + 1]):
            index[to] = i
            to += 1


@njit(cache=True, nogil=True)
def shuffle_sentences_rows(
    sentence_start: Int32,
    offsets: Int64,
    share: float,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    edges: Int32,
    slots: Int32,
    order: Int32,
    index: Int32,
) -> None:
    """The loop over rows; `edges`, `slots` and `order` are scratch, one longer than the longest row."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        stream = fold(fold(prefix, keys[row]), copies[row])
        shuffle_sentences_row(sentence_start[a:b], share, stream, edges, slots, order, index[a:b])


@register
@dataclass(frozen=True)
class ShuffleSentences:
    """Permute the stored sentences of each row; every order is equally likely, the written one among them.

    share: share of the row's sentences that are permuted, among their own places (rounded half to even, at
    least two); the others stay. 0 changes nothing. Tokens before the first start belong to the first sentence; a
    row of one sentence stays as it is.

    Random: which sentences take part, and their order.
    Raises InputError when the share is out of range.
    Source: Lewis et al. 2020, section 2.2, sentence permutation. Deviation: sentences are the stored ones, not
    what ends in a full stop; nothing else moves.
    """

    kind: ClassVar[str] = "shuffle_sentences"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise InputError(
                "shuffle_sentences.share", f"{self.share} is outside 0 to 1", "give a share of the sentences"
            )

    def needs(self) -> tuple[str, ...]:
        """Tokens and the stored sentence starts."""
        return ("tokens", "sentence_start")

    def bounds(self, length: int) -> Mapping[str, int]:
        """A permutation keeps the length."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do."""

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Tokens and all that is aligned with them, sentence by sentence in another order."""
        tokens = batch.tokens
        longest = int(tokens.lengths.max(initial=0)) + 1
        index = np.empty(len(tokens.values), np.int32)
        shuffle_sentences_rows(
            batch.columns["sentence_start"].values,
            tokens.offsets,
            float(self.share),
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
            index,
        )
        return take(batch, tokens.with_values(index))
