"""Random replacement: tokens become other ordinary tokens, and nothing marks which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import INVENTED
from corruption.errors import InputError
from corruption.noise import draw, fold
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.spans import COUNTS, choose_tokens, choose_words
from corruption.substitute import other_token
from corruption.vocabulary import Vocabulary

_TWO, _THREE = np.uint64(2), np.uint64(3)


@njit(inline="always")
def replace_row(
    tokens: Int32,
    word_start: Int32,
    fixed: np.ndarray,
    pool: Int32,
    rank: Int32,
    rate: float,
    count: int,
    by_word: bool,
    stream: np.uint64,
    words: Int32,
    chosen: Int32,
    out: Int32,
    origin: Int32,
) -> None:
    """One row: choose positions, put another ordinary token at each, and call it invented."""
    for i in range(len(tokens)):
        out[i] = tokens[i]
    if by_word:
        k = choose_words(tokens, word_start, fixed, rate, count, stream, words, chosen)
    else:
        k = choose_tokens(tokens, fixed, rate, count, stream, chosen)
    for j in range(k):
        p = chosen[j]
        out[p] = other_token(tokens[p], draw(stream, _THREE * np.uint64(p) + _TWO), pool, rank)
        origin[p] = INVENTED


@njit(cache=True, nogil=True)
def replace_rows(
    tokens: Int32,
    offsets: Int64,
    word_start: Int32,
    fixed: np.ndarray,
    pool: Int32,
    rank: Int32,
    rate: float,
    count: int,
    by_word: bool,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    words: Int32,
    chosen: Int32,
    out: Int32,
    origin: Int32,
) -> None:
    """The loop over rows; `words` and `chosen` are scratch, one longer than the longest row."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        replace_row(
            tokens[a:b],
            word_start[a:b],
            fixed,
            pool,
            rank,
            rate,
            count,
            by_word,
            fold(fold(prefix, keys[row]), copies[row]),
            words,
            chosen,
            out[a:b],
            origin[a:b],
        )


@register
@dataclass(frozen=True)
class ReplaceRandom:
    """Replace tokens, or all tokens of whole words, by other ordinary tokens.

    rate: share of the tokens that may be chosen. unit: "token", or "word" (all tokens of a word or none; `rate`
    stays a share of tokens). count: "exact" (round half to even, at least one), "bernoulli" (a coin for each
    token or word), "stochastic" (floor(rate * n + U), unbiased). As many tokens differ as were chosen: special
    tokens, [UNK] among them, are neither chosen nor drawn, and a token is never replaced by itself. No labels;
    `origin` is -1 at each.

    Random: positions and replacements, from the step's stream of the example.
    Raises InputError when the rate is outside 0 to 1, or the tokenizer has a single ordinary token.
    Source: Devlin et al. 2019, section 3.1, the random tenth of task 1, alone. Deviation: never the same token.
    """

    kind: ClassVar[str] = "replace_random"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ("labels",)

    rate: float = 0.15
    unit: Literal["token", "word"] = "token"
    count: Literal["exact", "bernoulli", "stochastic"] = "exact"

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            do = "give the share of the tokens that is replaced"
            raise InputError("replace_random.rate", f"{self.rate} is outside 0 to 1", do)

    def needs(self) -> tuple[str, ...]:
        """The columns this configuration reads: whole words need the stored word starts."""
        return ("tokens", "word_start") if self.unit == "word" else ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """Replacing keeps the length."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when no token could be replaced by another."""
        if len(vocabulary.pool) < 2:
            given = "it has a single ordinary token, and the corruption 'replace_random' needs another one"
            raise InputError(f"tokenizer {vocabulary.name}", given, "give one with a vocabulary")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Column `tokens`, and `origin`: -1 at each replaced token."""
        tokens = batch.tokens
        word_start = batch.columns["word_start"] if self.unit == "word" else tokens
        longest = int(tokens.lengths.max()) if len(batch) else 0
        out, origin = np.empty_like(tokens.values), batch.origin().values.copy()
        replace_rows(
            tokens.values,
            tokens.offsets,
            word_start.values,
            vocabulary.fixed,
            vocabulary.pool,
            vocabulary.rank,
            float(self.rate),
            COUNTS[self.count],
            self.unit == "word",
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest + 1, np.int32),
            np.empty(longest + 1, np.int32),
            out,
            origin,
        )
        return batch.put(tokens=tokens.with_values(out), origin=tokens.with_values(origin))
