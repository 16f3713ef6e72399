"""Deletion: tokens or whole words vanish without a trace; at least one always stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import take
from corruption.errors import InputError
from corruption.noise import below, draw, fold
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.registry import register
from corruption.spans import COUNTS, choose_tokens, choose_words
from corruption.vocabulary import Vocabulary

_SPARED = np.uint64(1 << 56)


@njit(inline="always")
def delete_row(
    tokens: Int32,
    word_start: Int32,
    fixed: np.ndarray,
    rate: float,
    count: int,
    by_word: bool,
    stream: np.uint64,
    words: Int32,
    chosen: Int32,
    places: Int32,
) -> None:
    """One row: `places` holds its positions, -1 where the token goes."""
    if by_word:
        k = choose_words(tokens, word_start, fixed, rate, count, stream, words, chosen)
    else:
        k = choose_tokens(tokens, fixed, rate, count, stream, chosen)
    for i in range(len(tokens)):
        places[i] = i
    for j in range(k):
        places[chosen[j]] = -1
    if k > 0 and k == len(tokens):
        # All would go. One stays: each token, or each word, is equally likely to.
        n = 0
        for i in range(k):
            n += 1 if not by_word or i == 0 or word_start[i] == 1 else 0
        spared = np.int64(below(draw(stream, _SPARED), np.uint64(n)))
        item = -1
        for i in range(k):
            item += 1 if not by_word or i == 0 or word_start[i] == 1 else 0
            if item == spared:
                places[i] = i


@njit(cache=True, nogil=True)
def delete_rows(
    tokens: Int32,
    offsets: Int64,
    word_start: Int32,
    fixed: np.ndarray,
    rate: float,
    count: int,
    by_word: bool,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    words: Int32,
    chosen: Int32,
    index: Int32,
    new_offsets: Int64,
) -> None:
    """The loop over rows: `index` (as long as the tokens) comes to hold the kept places, row behind row."""
    n = np.int64(0)
    new_offsets[0] = n
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        delete_row(
            tokens[a:b],
            word_start[a:b],
            fixed,
            rate,
            count,
            by_word,
            fold(fold(prefix, keys[row]), copies[row]),
            words,
            chosen,
            index[a:b],
        )
        # What is kept never overtakes what is still to be read.
        for i in range(a, b):
            index[n] = index[i]
            n += 1 if index[n] >= 0 else 0
        new_offsets[row + 1] = n


@register
@dataclass(frozen=True)
class Delete:
    """Delete tokens or whole words; the decoder has to find where they were.

    rate: share of the tokens that may be chosen. unit: "token", or "word" (all tokens of a word or none; `rate`
    stays a share of tokens). count: "exact" (round half to even, at least one), "bernoulli" (a coin for each
    token or word), "stochastic" (floor(rate * n + U), unbiased). Special tokens stay. Where every token of a row
    would go, one (with unit "word" one word) stays, so a row of one token stays as it is.

    Random: which tokens go, and the one that is spared, from the step's stream of the example.
    Raises InputError when the rate is outside 0 to 1.
    Source: Lewis et al. 2020, section 2.2, token deletion; the spared token: Wang et al. 2021 (TSDAE), released
    code. Deviations: no rate is published for the former, 0.15 is ours; the count is rounded, not rounded up.
    """

    kind: ClassVar[str] = "delete"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 0.15
    unit: Literal["token", "word"] = "token"
    count: Literal["exact", "bernoulli", "stochastic"] = "exact"

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise InputError("delete.rate", f"{self.rate} is outside 0 to 1", "give the share of the tokens that goes")

    def needs(self) -> tuple[str, ...]:
        """The columns this configuration reads: whole words need the stored word starts."""
        return ("tokens", "word_start") if self.unit == "word" else ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """A row may stay whole: one word may be all there is, and coins may spare every token."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do."""

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Every aligned column without the tokens that go, and `origin`."""
        tokens = batch.tokens
        word_start = batch.columns["word_start"] if self.unit == "word" else tokens
        longest = int(tokens.lengths.max()) if len(batch) else 0
        index, offsets = np.empty_like(tokens.values), np.empty_like(tokens.offsets)
        delete_rows(
            tokens.values,
            tokens.offsets,
            word_start.values,
            vocabulary.fixed,
            float(self.rate),
            COUNTS[self.count],
            self.unit == "word",
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest, np.int32),
            np.empty(longest + 1, np.int32),
            index,
            offsets,
        )
        return take(batch, Ragged.of(index[: offsets[-1]], offsets))
