"""Attention patterns: which tokens see which, drawn for each passage, and the two segments that some of them need.

Draw 0 of a row's stream chooses the pattern, draw 1 the split.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.errors import InputError
from corruption.lengths import Float64, Shares, length_at
from corruption.noise import below, draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, UInt64, per_row
from corruption.registry import register
from corruption.schema import PATTERNS
from corruption.vocabulary import Vocabulary

_PATTERN_DRAW, _SPLIT_DRAW = np.uint64(0), np.uint64(1)
_ONE_WAY = np.array([name in ("left_to_right", "right_to_left") for name in PATTERNS])


@njit(inline="always")
def count_starts(starts: Int32) -> int:
    """How many starts there are behind the first token."""
    found = 0
    for i in range(1, len(starts)):
        found += starts[i]
    return found


@njit(inline="always")
def nth_start(starts: Int32, n: int) -> int:
    """The place of start number n = 0, 1, ... behind the first token."""
    place = 0
    for _ in range(n + 1):
        place += 1
        while starts[place] == 0:
            place += 1
    return place


@njit(inline="always")
def split_place(sentence_start: Int32, word_start: Int32, bits: np.uint64) -> int:
    """Where the second of two segments begins: at a sentence, else at a word, else at any token, but the first.

    The row has at least two tokens; each place of the kind is equally likely.
    """
    sentences = count_starts(sentence_start)
    if sentences > 0:
        return nth_start(sentence_start, int(np.int64(below(bits, np.uint64(sentences)))))
    words = count_starts(word_start)
    if words > 0:
        return nth_start(word_start, int(np.int64(below(bits, np.uint64(words)))))
    return 1 + int(np.int64(below(bits, np.uint64(len(word_start) - 1))))


@njit(inline="always")
def pattern_row(
    sentence_start: Int32, word_start: Int32, table: Float64, one_way: np.ndarray, stream: np.uint64, segment: Int32
) -> int:
    """One row of at least two tokens: the pattern, then `segment`, 1 from the split on where it has one."""
    pattern = length_at(table, unit(draw(stream, _PATTERN_DRAW))) - 1
    split = len(segment)
    if not one_way[pattern]:
        split = split_place(sentence_start, word_start, draw(stream, _SPLIT_DRAW))
    for i in range(split):
        segment[i] = 0
    for i in range(split, len(segment)):
        segment[i] = 1
    return pattern


@njit(cache=True, nogil=True)
def pattern_rows(
    sentence_start: Int32,
    word_start: Int32,
    offsets: Int64,
    table: Float64,
    one_way: np.ndarray,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    segment: Int32,
    patterns: Int32,
) -> None:
    """The loop over rows; a row of fewer than two tokens is left in one segment."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        if b - a < 2:
            segment[a:b] = 0
            patterns[row] = 0
            continue
        patterns[row] = pattern_row(
            sentence_start[a:b],
            word_start[a:b],
            table,
            one_way,
            fold(fold(prefix, keys[row]), copies[row]),
            segment[a:b],
        )


@register
@dataclass(frozen=True)
class AttentionPattern:
    """Draw an attention pattern for each passage, and split it in two segments where the pattern has two.

    shares: how often each of `schema.PATTERNS` comes: bidirectional, left_to_right, right_to_left,
    sequence_to_sequence; they are scaled to add up to 1. Bidirectional and sequence_to_sequence rows are
    split at a sentence, a passage of one sentence at a word, one of one word at a token, but never before the
    first; the two others are one segment. A passage of fewer than two tokens is "too_short", whatever it
    would draw, so that the shares hold among those used. Tokens are not changed: `mask` behind it hides some.

    `sentence_pair` provides segments too, so a chain takes one of the two.

    Random: pattern and split.
    Raises InputError unless there is one share for each pattern, none below 0, and not all 0.
    Source: Dong et al. 2019 (UniLM), sections 2.2 and 2.3. Deviations: the two segments are one passage
    split, without a next-sentence task in the bidirectional case.
    """

    kind: ClassVar[str] = "attention_pattern"
    provides: ClassVar[tuple[str, ...]] = ("segment", "attention_pattern")
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    shares: tuple[float, ...] = (1 / 3, 1 / 6, 1 / 6, 1 / 3)

    def __post_init__(self) -> None:
        good = len(self.shares) == len(PATTERNS) and min(self.shares) >= 0.0 and 0.0 < sum(self.shares) < math.inf
        if not good:
            do = f"give a share of at least 0 for each of {', '.join(PATTERNS)}, not all 0"
            raise InputError("attention_pattern.shares", f"{list(self.shares)}", do)

    def needs(self) -> tuple[str, ...]:
        """Where sentences and words start."""
        return ("tokens", "sentence_start", "word_start")

    def bounds(self, length: int) -> Mapping[str, int]:
        """Tokens stay."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do. Raises InputError when every passage would be too short to split."""
        if longest is not None and longest < 2:
            given = f"passages have up to {longest} token, and two segments take two"
            raise InputError("attention_pattern", given, "raise corpus.max_tokens")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Columns `segment`, aligned, and `attention_pattern`, one a row: a place in PATTERNS."""
        tokens = batch.tokens
        segment, patterns = np.empty_like(tokens.values), np.empty(len(batch), np.int32)
        pattern_rows(
            batch.columns["sentence_start"].values,
            batch.columns["word_start"].values,
            tokens.offsets,
            Shares(self.shares).table(),
            _ONE_WAY,
            noise.prefix,
            batch.keys,
            batch.copies,
            segment,
            patterns,
        )
        marked = batch.mark(tokens.lengths < 2, "too_short")
        return marked.put(segment=tokens.with_values(segment), attention_pattern=per_row(patterns))
