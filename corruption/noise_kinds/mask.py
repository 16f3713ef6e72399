"""Masking: tokens or whole words are hidden, replaced at random or kept, and the originals are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.errors import InputError
from corruption.noise import below, draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.schema import IGNORE
from corruption.spans import COUNTS, choose_tokens, choose_words
from corruption.vocabulary import Vocabulary

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@njit(inline="always")
def _replace(
    token: int,
    decision: float,
    bits: np.uint64,
    mask_id: int,
    mask_share: float,
    changed_share: float,
    pool: Int32,
    rank: Int32,
) -> int:
    """The token that stands at a chosen position: the mask, another ordinary token, or the token itself."""
    if decision < mask_share:
        return mask_id
    if decision >= changed_share:
        return token
    place = rank[token]
    others = len(pool) - (1 if place >= 0 else 0)
    if others == 0:
        return token
    j = np.int64(below(bits, np.uint64(others)))
    if place >= 0 and j >= place:
        j += 1
    return int(pool[j])


@njit(inline="always")
def mask_row(
    tokens: Int32,
    word_start: Int32,
    fixed: np.ndarray,
    pool: Int32,
    rank: Int32,
    mask_id: int,
    rate: float,
    count: int,
    by_word: bool,
    one_decision: bool,
    mask_share: float,
    changed_share: float,
    stream: np.uint64,
    words: Int32,
    chosen: Int32,
    out: Int32,
    labels: Int32,
) -> None:
    """One row: choose positions, then decide at each what stands there and ask for the original."""
    for i in range(len(tokens)):
        out[i] = tokens[i]
        labels[i] = IGNORE
    if by_word:
        k = choose_words(tokens, word_start, fixed, rate, count, stream, words, chosen)
    else:
        k = choose_tokens(tokens, fixed, rate, count, stream, chosen)
    first = np.int64(0)
    for j in range(k):
        p = np.int64(chosen[j])
        if not one_decision or p == 0 or word_start[p] == 1:
            first = p
        at = _THREE * np.uint64(p)
        labels[p] = tokens[p]
        out[p] = _replace(
            tokens[p],
            unit(draw(stream, _THREE * np.uint64(first) + _ONE)),
            draw(stream, at + _TWO),
            mask_id,
            mask_share,
            changed_share,
            pool,
            rank,
        )


@njit(cache=True, nogil=True)
def mask_rows(
    tokens: Int32,
    offsets: Int64,
    word_start: Int32,
    fixed: np.ndarray,
    pool: Int32,
    rank: Int32,
    mask_id: int,
    rate: float,
    count: int,
    by_word: bool,
    one_decision: bool,
    mask_share: float,
    changed_share: float,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    words: Int32,
    chosen: Int32,
    out: Int32,
    labels: Int32,
) -> None:
    """The loop over rows; `words` and `chosen` are scratch of the longest row's length."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        mask_row(
            tokens[a:b],
            word_start[a:b] if by_word else word_start,
            fixed,
            pool,
            rank,
            mask_id,
            rate,
            count,
            by_word,
            one_decision,
            mask_share,
            changed_share,
            fold(fold(prefix, keys[row]), copies[row]),
            words,
            chosen,
            out[a:b],
            labels[a:b],
        )


@register
@dataclass(frozen=True)
class Mask:
    """Mask tokens or whole words and label them with the originals.

    rate: share of the tokens that may be chosen. unit: "token", or "word" (all tokens of a word or none;
    `rate` stays a share of tokens). count: "exact" (round half to even, at least one), "bernoulli" (a coin
    for each token or word, may choose none), "stochastic" (floor(rate * n + U), unbiased). mask_share and
    random_share: what happens at a chosen position; the rest keeps its token. A random token is ordinary and
    differs from the original. decide: with unit "word" only: decided once per "word" (default) or per "token"
    (random tokens are always drawn one by one). Special tokens, [UNK] among them, are neither chosen nor
    invented.

    Random: positions, decisions and replacements, from the step's stream of the example.
    Raises InputError when a share or the rate is out of range, or the tokenizer has no mask token.
    Source: Devlin et al. 2019, section 3.1, task 1, and the released whole-word option. Deviations: the count
    is over the tokens that may be chosen, without [CLS] and [SEP]; decisions are per word for words; the
    random token is never special and never the original.
    """

    kind: ClassVar[str] = "mask"
    provides: ClassVar[tuple[str, ...]] = ("labels",)
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 0.15
    unit: Literal["token", "word"] = "token"
    count: Literal["exact", "bernoulli", "stochastic"] = "exact"
    mask_share: float = 0.8
    random_share: float = 0.1
    decide: Literal["word", "token"] | None = None

    def __post_init__(self) -> None:
        for name in ("rate", "mask_share", "random_share"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise InputError(f"mask.{name}", f"{value} is outside 0 to 1", "give a share between 0 and 1")
        if self.mask_share + self.random_share > 1.0 + 1e-12:
            raise InputError(
                "mask.mask_share + mask.random_share",
                f"{self.mask_share} + {self.random_share} is above 1",
                "lower one of them; the rest is the share that keeps its token",
            )

        if self.unit == "token" and self.decide is not None:
            raise InputError(
                "mask.decide", f"{self.decide!r} does nothing with unit: token", "remove it, or use unit: word"
            )
        if self.unit == "word" and self.decide is None:
            object.__setattr__(self, "decide", "word")

    def needs(self) -> tuple[str, ...]:
        """The columns this configuration reads: whole words need the stored word starts."""
        return ("tokens", "word_start") if self.unit == "word" else ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """Masking keeps the length."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks what this needs."""
        if self.mask_share > 0:
            vocabulary.need("mask", "the corruption 'mask'")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Columns `tokens` (masked) and `labels` (originals at chosen positions, else IGNORE), aligned."""
        tokens = batch.tokens
        by_word = self.unit == "word"
        word_start = batch.columns["word_start"].values if by_word else tokens.values[:0]
        longest = int(tokens.lengths.max()) if len(batch) else 0
        out, labels = np.empty_like(tokens.values), np.empty_like(tokens.values)
        mask_rows(
            tokens.values,
            tokens.offsets,
            word_start,
            vocabulary.fixed,
            vocabulary.pool,
            vocabulary.rank,
            -1 if vocabulary.mask is None else vocabulary.mask,
            float(self.rate),
            COUNTS[self.count],
            by_word,
            by_word and self.decide == "word",
            float(self.mask_share),
            float(self.mask_share + self.random_share),
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest if by_word else 0, np.int32),
            np.empty(longest + 1, np.int32),
            out,
            labels,
        )
        return batch.put(tokens=tokens.with_values(out), labels=tokens.with_values(labels))
