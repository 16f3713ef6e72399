"""Prefix split: the input is the beginning of a passage, and the targets are the rest.

A row's draw 0 says how much is left of the part whose length is drawn; see `PrefixSplit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import INVENTED
from corruption.errors import InputError
from corruption.noise import below, draw, fold
from corruption.noise_kinds.span_sentinel import replaced
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.registry import register
from corruption.vocabulary import Vocabulary


def _longest_part(length: int, rate: float) -> int:
    """The most tokens of the part that is rarer than the other: twice its mean, less one."""
    return min(max(int(np.rint(2.0 * min(rate, 1.0 - rate) * length)), 2), length) - 1


longest_part = njit(inline="always")(_longest_part)


@njit(inline="always")
def split_at(length: int, rate: float, stream: np.uint64) -> int:
    """How many tokens of one row of at least 2 the input keeps.

    The tail, or beyond rate 0.5 the beginning, has 1 to `longest_part` tokens, each equally likely.
    """
    drawn = below(draw(stream, np.uint64(0)), np.uint64(longest_part(length, rate)))
    part = 1 + int(drawn)
    return length - part if rate <= 0.5 else part


@njit(cache=True, nogil=True)
def prefix_split_rows(
    tokens: Int32,
    offsets: Int64,
    mode: Int32,
    rate: float,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    index: Int32,
    out: Int32,
    out_offsets: Int64,
    targets: Int32,
    target_offsets: Int64,
) -> None:
    """The loop over rows; `mode` holds the mode token or nothing, the outputs have room for the most."""
    o, t = np.int64(0), np.int64(0)
    for row in range(len(keys)):
        out_offsets[row], target_offsets[row] = o, t
        source = tokens[offsets[row] : offsets[row + 1]]
        kept = len(source)
        if kept >= 2:
            kept = split_at(len(source), rate, fold(fold(prefix, keys[row]), copies[row]))
            for i in range(len(mode)):
                index[o], out[o] = INVENTED, mode[i]
                o += 1
        for i in range(kept):
            index[o + i], out[o + i] = i, source[i]
        for i in range(kept, len(source)):
            targets[t + i - kept] = source[i]
        o += kept
        t += len(source) - kept
    out_offsets[len(keys)], target_offsets[len(keys)] = o, t


@register
@dataclass(frozen=True)
class PrefixSplit:
    """Cut a row in two: the input keeps the beginning, the targets are the rest.

    rate: mean share of the tokens that become targets. At 0.5 each of the L - 1 cuts is equally likely; below it
    the tail has 1 to round(2 * rate * L) - 1 tokens, each length equally likely, above it the beginning has, with
    1 - rate for rate. mode: text of a token put in front of the input. There are no sentinels. A row of fewer than
    2 tokens is unusable, "too_short".

    Random: the cut, from the step's stream of the example.
    Raises InputError when the rate is out of range or the tokenizer lacks the mode token.
    Source: Raffel et al. 2020, section 3.2.3 (prefix LM, rate 0.5), and Tay et al. 2022, section 3.1.2 (the
    S-denoiser: one tail of mean length L / 4, rate 0.25). Deviation: the mean is rate * L up to rounding, where the
    released random_prefix_noise_mask is off by up to a token; rates beyond 0.5, which it refuses, mirror the law.
    """

    kind: ClassVar[str] = "prefix_split"
    provides: ClassVar[tuple[str, ...]] = ("targets",)
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 0.5
    mode: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < 1.0:
            given = f"{self.rate} is not between 0 and 1"
            raise InputError("prefix_split.rate", given, "give the mean share of the tokens that become targets")

    def needs(self) -> tuple[str, ...]:
        """The tokens alone."""
        return ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """All but one token, or the longest part that can be drawn; each is reached."""
        if length < 2:
            return {"tokens": length, "targets": 0}
        most, mode = _longest_part(length, self.rate), self.mode is not None
        kept, asked = (length - 1, most) if self.rate <= 0.5 else (most, length - 1)
        return {"tokens": kept + mode, "targets": asked}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks the mode token."""
        if self.mode is not None:
            vocabulary.token(self.mode, "the corruption 'prefix_split'")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """`tokens` cut short, what is aligned with it, and `targets`, unaligned."""
        tokens = batch.tokens
        mode = [] if self.mode is None else [vocabulary.token(self.mode, "the corruption 'prefix_split'")]
        room = len(tokens.values) + len(batch)
        index, out, targets = (np.empty(room, np.int32) for _ in range(3))
        offsets, target_offsets = (np.empty(len(batch) + 1, np.int64) for _ in range(2))
        prefix_split_rows(
            tokens.values,
            tokens.offsets,
            np.array(mode, np.int32),
            float(self.rate),
            noise.prefix,
            batch.keys,
            batch.copies,
            index,
            out,
            offsets,
            targets,
            target_offsets,
        )
        return replaced(batch, index, out, offsets).put(
            targets=Ragged.of(targets[: target_offsets[-1]], target_offsets)
        )
