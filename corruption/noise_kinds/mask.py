"""Masking: tokens, whole words or spans are hidden, replaced at random or kept, and the originals asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.errors import InputError
from corruption.lengths import Float64, Geometric, Ngram, Shares
from corruption.noise import draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, UInt64
from corruption.registry import register
from corruption.schema import IGNORE
from corruption.spans import COUNTS, choose_spans, choose_tokens, choose_words
from corruption.substitute import masked_token
from corruption.vocabulary import Vocabulary

UNITS = {"token": 0, "word": 1, "span": 2}
"""What is chosen together, and what shares one decision."""

_TOKEN, _WORD, _SPAN = 0, 1, 2
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


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
    unit_of: int,
    decide: int,
    table: Float64,
    mean: float,
    mask_share: float,
    changed_share: float,
    stream: np.uint64,
    scratch: Int32,
    out: Int32,
    labels: Int32,
) -> None:
    """One row: choose positions, then decide at each what stands there and ask for the original."""
    for i in range(len(tokens)):
        out[i] = tokens[i]
        labels[i] = IGNORE
    chosen, heads, words = scratch[0], scratch[1], scratch[2]
    if unit_of == _SPAN:
        sizes, places, ring, before, ends = scratch[3], scratch[4], scratch[5], scratch[6], scratch[7]
        k = choose_spans(
            tokens,
            word_start,
            fixed,
            rate,
            count,
            table,
            mean,
            stream,
            words,
            sizes,
            places,
            ring,
            before,
            ends,
            chosen,
            heads,
        )
    elif unit_of == _WORD:
        k = choose_words(tokens, word_start, fixed, rate, count, stream, words, chosen)
    else:
        k = choose_tokens(tokens, fixed, rate, count, stream, chosen)
    first = np.int64(0)
    for j in range(k):
        p = np.int64(chosen[j])
        if decide == _SPAN:
            first = np.int64(heads[j])
        elif decide == _TOKEN or p == 0 or word_start[p] == 1:
            first = p
        labels[p] = tokens[p]
        out[p] = masked_token(
            tokens[p],
            unit(draw(stream, _THREE * np.uint64(first) + _ONE)),
            draw(stream, _THREE * np.uint64(p) + _TWO),
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
    unit_of: int,
    decide: int,
    table: Float64,
    mean: float,
    mask_share: float,
    changed_share: float,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    scratch: Int32,
    out: Int32,
    labels: Int32,
) -> None:
    """The loop over rows; `scratch` is int32[8, longest row + 1]."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        mask_row(
            tokens[a:b],
            word_start[a:b],
            fixed,
            pool,
            rank,
            mask_id,
            rate,
            count,
            unit_of,
            decide,
            table,
            mean,
            mask_share,
            changed_share,
            fold(fold(prefix, keys[row]), copies[row]),
            scratch,
            out[a:b],
            labels[a:b],
        )


@register
@dataclass(frozen=True)
class Mask:
    """Mask tokens, whole words or spans of words and label them with the originals.

    rate: share of the tokens that may be chosen. unit: "token", "word" (all tokens of a word or none) or
    "span" (of words; `rate` stays a share of tokens). lengths: with unit "span" only: the law of span lengths in
    whole words, Geometric(0.2, 10) unless given. count: "exact" (round half to even, at least one), "bernoulli"
    (a coin for each token or word, or whether a span begins; may choose none), "stochastic" (floor(rate * n + U),
    unbiased). mask_share and random_share: what happens at a chosen position; the rest keeps its token. A random
    token is ordinary and differs from the original. decide: with units "word" and "span" only: decided once for
    each of these (default), or for each smaller one (random tokens are always drawn one by one). Special tokens,
    [UNK] among them, are neither chosen nor invented, and no span holds one.

    Random: positions, lengths, decisions and replacements, from the step's stream of the example.
    Raises InputError when a share or the rate is out of range, an option does nothing with the unit, or the
    tokenizer has no mask token.
    Source: Devlin et al. 2019, section 3.1, task 1, and the released whole-word option; spans: Joshi et al. 2020,
    section 3.1, and Lan et al. 2020, section 3.1. Deviations: the count is over the tokens that may be chosen,
    without [CLS] and [SEP]; decisions are per word for words; the random token is never special and never the
    original; spans do not overlap, and every word is equally likely to be in one (see `spans.choose_spans`).
    """

    kind: ClassVar[str] = "mask"
    provides: ClassVar[tuple[str, ...]] = ("labels",)
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 0.15
    unit: Literal["token", "word", "span"] = "token"
    count: Literal["exact", "bernoulli", "stochastic"] = "exact"
    mask_share: float = 0.8
    random_share: float = 0.1
    decide: Literal["span", "word", "token"] | None = None
    lengths: Ngram | Geometric | Shares | None = None

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
        if self.unit != "span" and self.lengths is not None:
            given = f"{self.lengths.kind} does nothing with unit: {self.unit}"
            raise InputError("mask.lengths", given, "remove it, or use unit: span")
        if self.decide is None:
            object.__setattr__(self, "decide", None if self.unit == "token" else self.unit)
        elif self.unit == "token":
            raise InputError(
                "mask.decide", f"{self.decide!r} does nothing with unit: token", "remove it, or use unit: word"
            )
        elif self.decide == "span" and self.unit != "span":
            given = f"'span' does nothing with unit: {self.unit}"
            raise InputError("mask.decide", given, "remove it, or use unit: span")
        if self.unit == "span" and self.lengths is None:
            object.__setattr__(self, "lengths", Geometric())

    def needs(self) -> tuple[str, ...]:
        """The columns this configuration reads: words and spans of words need the stored word starts."""
        return ("tokens",) if self.unit == "token" else ("tokens", "word_start")

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
        word_start = tokens if self.unit == "token" else batch.columns["word_start"]
        longest = int(tokens.lengths.max()) if len(batch) else 0
        table = np.ones(1) if self.lengths is None else self.lengths.table()
        out, labels = np.empty_like(tokens.values), np.empty_like(tokens.values)
        mask_rows(
            tokens.values,
            tokens.offsets,
            word_start.values,
            vocabulary.fixed,
            vocabulary.pool,
            vocabulary.rank,
            -1 if vocabulary.mask is None else vocabulary.mask,
            float(self.rate),
            COUNTS[self.count],
            UNITS[self.unit],
            UNITS[self.decide or "token"],
            table,
            math.fsum(1.0 - table),
            float(self.mask_share),
            float(self.mask_share + self.random_share),
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty((8, longest + 1), np.int32),
            out,
            labels,
        )
        return batch.put(tokens=tokens.with_values(out), labels=tokens.with_values(labels))
