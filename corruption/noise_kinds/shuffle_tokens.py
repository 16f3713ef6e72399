"""Token shuffling: all tokens or words in random order, or each moved by less than a few places.

Draw j of a row's stream belongs to token (or word) j: its exchange in the global shuffle, its shift in the local one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.chain import Noise
from corruption.edit import take
from corruption.errors import InputError
from corruption.noise import below, draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.spans import edges_of, expand
from corruption.vocabulary import Vocabulary

Float64 = npt.NDArray[np.float64]

_WINDOW = 3.0
_NARROW = 12.0  # up to here it is faster to compare each item with all that it may pass than to sort


@njit(inline="always")
def shuffle_all(n: int, stream: np.uint64, order: Int32) -> None:
    """Every order of 0..n-1 equally likely (Fisher-Yates)."""
    for i in range(n):
        order[i] = i
    for j in range(n - 1):
        other = j + np.int64(below(draw(stream, np.uint64(j)), np.uint64(n - j)))
        order[j], order[other] = order[other], order[j]


@njit(inline="always")
def shuffle_near(
    n: int, window: float, stream: np.uint64, keys: Float64, sorted_keys: Float64, counts: Int32, order: Int32
) -> None:
    """0..n-1 sorted by i + U(0, window), stably; so none moves by `window` places or more."""
    for i in range(n):
        keys[i] = i + window * unit(draw(stream, np.uint64(i)))
    if window <= _NARROW:
        # Only neighbours at less than `window` places can change sides: counting who does needs no branch.
        for i in range(n):
            counts[i] = i
        for distance in range(1, min(n, int(np.ceil(window)))):
            for i in range(n - distance):
                passed = np.int32(keys[i] > keys[i + distance])
                counts[i] += passed
                counts[i + distance] -= passed
        for i in range(n):
            order[counts[i]] = i
        return
    # Into twice as many buckets as there are items, in order of their keys; few are then left to sort by insertion.
    buckets = 2 * n
    scale = buckets / (n + window)
    for i in range(buckets + 1):
        counts[i] = 0
    for i in range(n):
        counts[min(buckets - 1, int(keys[i] * scale)) + 1] += 1
    before = np.int32(0)
    for i in range(buckets):
        before += counts[i]
        counts[i] = before
    for i in range(n):
        bucket = min(buckets - 1, int(keys[i] * scale))
        to = counts[bucket]
        counts[bucket] = to + 1
        sorted_keys[to] = keys[i]
        order[to] = i
    for i in range(1, n):
        key, item = sorted_keys[i], order[i]
        j = i
        while j > 0 and sorted_keys[j - 1] > key:
            sorted_keys[j], order[j] = sorted_keys[j - 1], order[j - 1]
            j -= 1
        sorted_keys[j], order[j] = key, item


@njit(cache=True, nogil=True)
def shuffle_tokens_rows(
    offsets: Int64,
    word_start: Int32,
    by_word: bool,
    window: float,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    edges: Int32,
    words: Int32,
    counts: Int32,
    near: Float64,
    sorted_near: Float64,
    index: Int32,
) -> None:
    """The loop over rows; window 0 is the global shuffle.

    `edges` to `sorted_near` are scratch, one longer than the longest row, `counts` twice that.
    """
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        stream = fold(fold(prefix, keys[row]), copies[row])
        n = edges_of(word_start[a:b], edges) if by_word else b - a
        order = words if by_word else index[a:b]
        if window == 0.0:
            shuffle_all(n, stream, order)
        else:
            shuffle_near(n, window, stream, near, sorted_near, counts, order)
        if by_word:
            expand(words[:n], edges, index[a:])


@register
@dataclass(frozen=True)
class ShuffleTokens:
    """Put the tokens, or whole words, of each row into another order.

    scope: "global" (every order equally likely) or "local" (each token or word stays less than `window` places
    from where it was). window: with scope "local" only, 3 unless given; 1 changes nothing. unit: "token", or
    "word" (words move whole, and places are counted in words).

    Random: the order; in the local scope by sorting i + U(0, window), stably.
    Raises InputError when the window is below 1, or given where it does nothing.
    Source: Raffel et al. 2020, section 3.3.1, deshuffling (global); Lample et al. 2018, "Unsupervised machine
    translation using monolingual corpora only", section 2.3 (local, window 3, words). Deviation: the first token
    moves like any other.
    """

    kind: ClassVar[str] = "shuffle_tokens"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True

    scope: Literal["global", "local"] = "global"
    window: float | None = None
    unit: Literal["token", "word"] = "token"

    def __post_init__(self) -> None:
        if self.scope == "global" and self.window is not None:
            raise InputError(
                "shuffle_tokens.window",
                f"{self.window} does nothing with scope: global",
                "remove it, or use scope: local",
            )
        if self.scope == "local" and self.window is None:
            object.__setattr__(self, "window", _WINDOW)
        if self.window is not None and not 1.0 <= self.window <= 1e9:
            raise InputError("shuffle_tokens.window", f"{self.window} is not from 1 to 1e9", "give a number of places")

    @property
    def breaks(self) -> tuple[str, ...]:
        """Sentences fall apart; words too, unless they move whole."""
        return ("sentence_start",) if self.unit == "word" else ("word_start", "sentence_start")

    def needs(self) -> tuple[str, ...]:
        """The columns this configuration reads: whole words need the stored word starts."""
        return ("tokens", "word_start") if self.unit == "word" else ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """Shuffling keeps the length."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do."""

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Tokens and all that is aligned with them, in another order."""
        tokens = batch.tokens
        by_word = self.unit == "word"
        longest = int(tokens.lengths.max(initial=0)) + 1
        longest_near = longest if self.window is not None else 0
        index = np.empty(len(tokens.values) + 3, np.int32)  # `expand` writes up to three too many
        shuffle_tokens_rows(
            tokens.offsets,
            batch.columns["word_start"].values if by_word else tokens.values[:0],
            by_word,
            float(self.window or 0.0),
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest if by_word else 0, np.int32),
            np.empty(longest if by_word else 0, np.int32),
            np.empty(2 * longest_near, np.int32),
            np.empty(longest_near),
            np.empty(longest_near),
            index,
        )
        return take(batch, tokens.with_values(index[: len(tokens.values)]))
