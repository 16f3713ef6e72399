"""Permutation orders: which tokens are predicted, and in which order, while the text stays as it is.

Draws of a row's stream: turn t of the walk over words takes 4t (how many words) and 4t + 1 (where), the single
token number j 4j + 2, place j of the order 4j + 3; where the walk begins has a number of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.errors import InputError
from corruption.lengths import Float64, Ngram, length_at
from corruption.noise import below, draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.schema import IGNORE
from corruption.spans import COUNTS, budget
from corruption.vocabulary import Vocabulary

_EXACT = COUNTS["exact"]
_BEGIN_DRAW = np.uint64(0xFFFFFFFFFFFFFFFD)
_FAR = 1e9  # words: longer than any row, and small enough to draw below
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit(inline="always")
def choose_ngrams(
    tokens: Int32,
    fixed: np.ndarray,
    words: Int32,
    n_words: int,
    wanted: int,
    rate: float,
    table: Float64,
    stream: np.uint64,
    order: Int32,
    chosen: Int32,
) -> int:
    """Write up to `wanted` positions to the front of `chosen`, set `order` to 0 there, and return how many.

    Word w is tokens words[w] up to words[w + 1]. From a random word on, once around the row: draw n, lay an
    n-gram of whole words into the next n / rate words, each place equally likely, go on behind them. Words of
    the n-gram that the quota has no room for are left out.
    """
    k, walked, turn = 0, 0, np.uint64(0)
    begin = int(np.int64(below(draw(stream, _BEGIN_DRAW), np.uint64(n_words))))
    while walked < n_words and k < wanted:
        n = length_at(table, unit(draw(stream, _FOUR * turn)))
        context = max(n, int(np.rint(min(n / rate, _FAR))))
        at = walked + int(np.int64(below(draw(stream, _FOUR * turn + _ONE), np.uint64(context - n + 1))))
        for w in range(at, min(at + n, n_words)):
            word = begin + w if begin + w < n_words else begin + w - n_words
            before = k
            for position in range(words[word], words[word + 1]):
                if fixed[tokens[position]] == 0:
                    if k < wanted:
                        chosen[k] = position
                    k += 1
            if k > wanted:
                k = before
                break
            for j in range(before, k):
                order[chosen[j]] = 0
        walked += context
        turn += _ONE
    return k


@njit(inline="always")
def choose_singles(
    tokens: Int32, fixed: np.ndarray, k: int, wanted: int, stream: np.uint64, order: Int32, rest: Int32, chosen: Int32
) -> None:
    """Fill `chosen` from k up to `wanted` with positions that are not chosen yet, each equally likely.

    `rest` is scratch, one longer than the row.
    """
    n = 0
    for i in range(len(tokens)):
        rest[n] = i
        if order[i] < 0 and fixed[tokens[i]] == 0:
            n += 1
    for j in range(wanted - k):
        other = j + np.int64(below(draw(stream, _FOUR * np.uint64(j) + _TWO), np.uint64(n - j)))
        chosen[k + j] = rest[other]
        rest[other] = rest[j]


@njit(inline="always")
def order_row(
    tokens: Int32,
    word_start: Int32,
    fixed: np.ndarray,
    rate: float,
    table: Float64,
    stream: np.uint64,
    scratch: Int32,
    chosen: Int32,
    order: Int32,
    labels: Int32,
) -> None:
    """One row: n-grams of words, single tokens for what is left of the quota, then a random order of them all."""
    n_words, ordinary = 0, 0
    for i in range(len(tokens)):
        order[i] = -1
        labels[i] = IGNORE
        scratch[n_words] = i
        if i == 0 or word_start[i] == 1:
            n_words += 1
        if fixed[tokens[i]] == 0:
            ordinary += 1
    scratch[n_words] = len(tokens)
    wanted = budget(ordinary, rate, _EXACT, stream)
    if len(tokens) < 2 or wanted == 0:
        return
    k = choose_ngrams(tokens, fixed, scratch, n_words, wanted, rate, table, stream, order, chosen)
    if k < wanted:
        choose_singles(tokens, fixed, k, wanted, stream, order, scratch, chosen)
    for j in range(wanted):
        other = j + np.int64(below(draw(stream, _FOUR * np.uint64(j) + _THREE), np.uint64(wanted - j)))
        position = chosen[other]
        chosen[other] = chosen[j]
        order[position] = j
        labels[position] = tokens[position]


@njit(cache=True, nogil=True)
def order_rows(
    tokens: Int32,
    offsets: Int64,
    word_start: Int32,
    fixed: np.ndarray,
    rate: float,
    table: Float64,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    scratch: Int32,
    chosen: Int32,
    order: Int32,
    labels: Int32,
) -> None:
    """The loop over rows; `scratch` and `chosen` are one longer than the longest row."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        order_row(
            tokens[a:b],
            word_start[a:b],
            fixed,
            rate,
            table,
            fold(fold(prefix, keys[row]), copies[row]),
            scratch,
            chosen,
            order[a:b],
            labels[a:b],
        )


@register
@dataclass(frozen=True)
class PermutationOrder:
    """Choose the tokens to predict and a random order among them; the tokens themselves stay.

    rate: share of the tokens that may be chosen; the count is exact, half to even, at least one. longest:
    n-grams have n = 1 to `longest` words, P(n) proportional to 1/n, each somewhere in n / rate words; single
    tokens, each equally likely, fill what is left of the count. Special tokens, [UNK] among them, are never
    targets. A passage of fewer than two tokens is "too_short": its one token would have no context.

    Random: the n-grams, the single tokens and the order.
    Raises InputError when rate or longest is out of range.
    Source: Yang et al. 2019 (XLNet), sections 2.3 and A.1 with K = 6, and the released code for n-grams.
    Deviations: n-grams end with a word, where the released code counts pieces; the context is counted in
    words too and holds the n-gram, so that it yields the rate; the walk begins at a random word and goes
    around, so that no position is favoured.
    """

    kind: ClassVar[str] = "permutation_order"
    provides: ClassVar[tuple[str, ...]] = ("permutation_order", "labels")
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 1 / 6
    longest: int = 5

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise InputError("permutation_order.rate", f"{self.rate} is outside 0 to 1", "give a share of the tokens")
        if not 1 <= self.longest <= 1000:
            given, do = f"{self.longest} is not from 1 to 1000", "give the most words of an n-gram"
            raise InputError("permutation_order.longest", given, do)

    def needs(self) -> tuple[str, ...]:
        """Where words start."""
        return ("tokens", "word_start")

    def bounds(self, length: int) -> Mapping[str, int]:
        """Tokens stay."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do. Raises InputError when every passage would be too short."""
        if longest is not None and longest < 2:
            given = f"passages have up to {longest} token, and a target needs context"
            raise InputError("permutation_order", given, "raise corpus.max_tokens")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Columns `permutation_order` (0, 1, ... at targets, -1 at context) and `labels` (the targets' tokens)."""
        tokens = batch.tokens
        longest = int(tokens.lengths.max()) if len(batch) else 0
        order, labels = np.empty_like(tokens.values), np.empty_like(tokens.values)
        order_rows(
            tokens.values,
            tokens.offsets,
            batch.columns["word_start"].values,
            vocabulary.fixed,
            float(self.rate),
            Ngram(self.longest).table(),
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest + 1, np.int32),
            np.empty(longest + 1, np.int32),
            order,
            labels,
        )
        marked = batch.mark(tokens.lengths < 2, "too_short")
        return marked.put(permutation_order=tokens.with_values(order), labels=tokens.with_values(labels))
