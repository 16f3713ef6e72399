"""Span corruption: each hidden span leaves a sentinel in the input, and the targets say what stood there.

A row's draws: 2j and 2j + 1 cut the hidden and the kept tokens into spans at place j, _TURN turns the circle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.chain import Noise
from corruption.edit import INVENTED, take
from corruption.errors import InputError
from corruption.noise import below, draw, fold
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.registry import register
from corruption.vocabulary import Vocabulary

_TWO = np.uint64(2)
_HIDDEN, _KEPT = np.uint64(0), np.uint64(1)
_TURN = np.uint64(0xFFFFFFFFFFFFFFFD)


def _counts(length: int, rate: float, mean_length: float) -> tuple[int, int]:
    """Hidden tokens and spans of a row of at least 2: half rounds to even, and one kept token goes with each span."""
    hidden = min(max(int(np.rint(rate * length)), 1), length - 1)
    spans = max(int(np.rint(hidden / mean_length)), 1)
    return hidden, min(spans, hidden, length - hidden)


counts = njit(inline="always")(_counts)


@njit(inline="always")
def compose(n: int, parts: int, which: np.uint64, stream: np.uint64, cut: np.ndarray, lengths: Int32) -> None:
    """Write the lengths of `parts` parts, none empty, into which n things in a row fall.

    Each such composition is equally likely: `parts - 1` of the n - 1 places between neighbours are cut (Floyd's
    way of choosing without replacement). `cut` is uint8[n], scratch.
    """
    for place in range(n):
        cut[place] = 0
    for j in range(n - parts, n - 1):
        drawn = np.int64(below(draw(stream, _TWO * np.uint64(j) + which), np.uint64(j + 1)))
        cut[j if cut[drawn] == 1 else drawn] = 1
    part, start = 0, 0
    for place in range(n - 1):
        if cut[place] == 1:
            lengths[part] = place + 1 - start
            start = place + 1
            part += 1
    lengths[part] = n - start


@njit(inline="always")
def choose_spans(
    length: int,
    rate: float,
    mean_length: float,
    turned: bool,
    stream: np.uint64,
    cut: np.ndarray,
    hidden: Int32,
    kept: Int32,
    starts: Int32,
    ends: Int32,
) -> int:
    """Write the spans of one row of at least 2 tokens, in order, and return how many.

    Kept and hidden lengths take turns, kept first; `turned` bends the row into a circle and turns it, so that a
    span across the seam becomes two. The arrays are scratch, as long as the row.
    """
    tokens, spans = counts(length, rate, mean_length)
    compose(tokens, spans, _HIDDEN, stream, cut, hidden)
    compose(length - tokens, spans, _KEPT, stream, cut, kept)
    turn = np.int64(below(draw(stream, _TURN), np.uint64(length))) if turned else 0
    # Spans that end behind the row's end stand one row further left, before all others.
    first, place = 0, np.int64(turn)
    while first < spans and place + kept[first] + hidden[first] <= length:
        place += kept[first] + hidden[first]
        first += 1
    place -= length
    across = np.int64(0)  # hidden tokens at the end of the row, of the span that goes on at its start
    for n in range(spans):
        k = first + n if first + n < spans else first + n - spans
        start = place + kept[k]
        if start < 0:
            across, start = -start, np.int64(0)
        place += kept[k] + hidden[k]
        starts[n], ends[n] = start, place
    if across == 0:
        return spans
    starts[spans], ends[spans] = length - across, length
    return spans + 1


@njit(cache=True, nogil=True)
def span_sentinel_rows(
    tokens: Int32,
    offsets: Int64,
    sentinels: Int32,
    mode: Int32,
    rate: float,
    mean_length: float,
    turned: bool,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    cut: np.ndarray,
    scratch: Int32,
    index: Int32,
    out: Int32,
    out_offsets: Int64,
    targets: Int32,
    target_offsets: Int64,
) -> None:
    """The loop over rows; `mode` holds the mode token or nothing.

    `cut` and the four rows of `scratch` are as long as the longest row; the outputs have room for the most.
    """
    hidden, kept, starts, ends = scratch[0], scratch[1], scratch[2], scratch[3]
    o, t = np.int64(0), np.int64(0)
    for row in range(len(keys)):
        out_offsets[row], target_offsets[row] = o, t
        source = tokens[offsets[row] : offsets[row + 1]]
        place, spans = 0, 0
        if len(source) >= 2:
            stream = fold(fold(prefix, keys[row]), copies[row])
            spans = choose_spans(len(source), rate, mean_length, turned, stream, cut, hidden, kept, starts, ends)
            for i in range(len(mode)):
                index[o], out[o] = INVENTED, mode[i]
                o += 1
        for span in range(spans):
            for i in range(place, starts[span]):
                index[o], out[o] = i, source[i]
                o += 1
            index[o], out[o], targets[t] = INVENTED, sentinels[span], sentinels[span]
            o += 1
            t += 1
            for i in range(starts[span], ends[span]):
                targets[t] = source[i]
                t += 1
            place = ends[span]
        for i in range(place, len(source)):
            index[o], out[o] = i, source[i]
            o += 1
    out_offsets[len(keys)], target_offsets[len(keys)] = o, t


@register
@dataclass(frozen=True)
class SpanSentinel:
    """Replace spans by sentinels and ask for each sentinel followed by what it hides.

    rate: share of the tokens that is hidden: round half to even, at least 1 and at most all but 1. mean_length:
    mean length of a span in tokens; a row has round(hidden / mean_length) spans, at least 1, and no more than
    hidden or kept tokens. Every way to split the hidden tokens, and the kept ones, among them is equally likely.
    placement: "uniform" hides every position with the same chance; a span that meets the end of the row may go
    on at its start and then counts as two, with a sentinel each. "anchored" never hides the first token and
    always hides the last. mode: text of a token put in front of the input. The targets have no closing sentinel.
    A row of fewer than 2 tokens is unusable, "too_short".

    Random: lengths and places of the spans, from the step's stream of the example.
    Raises InputError when a field is out of range, or the tokenizer lacks sentinels or the mode token.
    Source: Raffel et al. 2020, section 3.1.4, and the released random_spans_noise_mask, whose law is
    "anchored"; "uniform" is its turn of the mask (random_roll). Deviation: the number of spans is bounded by the
    kept tokens too, where the release fails.
    """

    kind: ClassVar[str] = "span_sentinel"
    provides: ClassVar[tuple[str, ...]] = ("targets",)
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    rate: float = 0.15
    mean_length: float = 3.0
    placement: Literal["uniform", "anchored"] = "uniform"
    mode: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.rate <= 1.0:
            given = f"{self.rate} is not above 0 and up to 1"
            raise InputError("span_sentinel.rate", given, "give the share of the tokens to hide")
        if not 1.0 <= self.mean_length < math.inf:
            given = f"{self.mean_length} is not 1 or more"
            raise InputError("span_sentinel.mean_length", given, "give a mean in tokens")

    def needs(self) -> tuple[str, ...]:
        """The tokens alone."""
        return ("tokens",)

    def most_spans(self, length: int) -> int:
        """The most spans, hence sentinels, of a row of `length` tokens; never fewer than of a shorter one."""
        if length < 2:
            return 0
        hidden, spans = _counts(length, self.rate, self.mean_length)
        # A span of one token cannot lie across the seam.
        return spans + (1 if self.placement == "uniform" and hidden > spans else 0)

    def bounds(self, length: int) -> Mapping[str, int]:
        """What is kept or hidden, and the sentinels; each is reached, and by no shorter row."""
        if length < 2:
            return {"tokens": length, "targets": 0}
        hidden, _ = _counts(length, self.rate, self.mean_length)
        spans, mode = self.most_spans(length), self.mode is not None
        return {"tokens": length - hidden + spans + mode, "targets": hidden + spans}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks the mode token, or sentinels for rows of `longest` tokens."""
        if self.mode is not None:
            vocabulary.token(self.mode, "the corruption 'span_sentinel'")
        most, there = self.most_spans(2 if longest is None else longest), len(vocabulary.sentinels)
        if most > there:
            rows = "any row needs" if longest is None else f"a row of {longest} tokens can need"
            raise InputError(
                f"tokenizer {vocabulary.name}",
                f"it has {there} sentinels <extra_id_0>, <extra_id_1>, ..., and {rows} {most} "
                f"(span_sentinel.rate {self.rate}, mean_length {self.mean_length})",
                f"train one with sentinels: {most}, raise mean_length, or shorten the rows",
            )

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """`tokens` with a sentinel for each span, what is aligned with it, and `targets`, unaligned.

        Raises InputError when a row can need more sentinels than there are: none is ever used twice.
        """
        tokens = batch.tokens
        longest = int(tokens.lengths.max()) if len(batch) else 0
        self.check(vocabulary, longest)
        mode = [] if self.mode is None else [vocabulary.token(self.mode, "the corruption 'span_sentinel'")]
        # There are no more spans than hidden or kept tokens: only one across the seam and the mode token come on top.
        room = len(tokens.values) + 2 * len(batch)
        index, out, targets = (np.empty(room, np.int32) for _ in range(3))
        offsets, target_offsets = (np.empty(len(batch) + 1, np.int64) for _ in range(2))
        span_sentinel_rows(
            tokens.values,
            tokens.offsets,
            np.array(vocabulary.sentinels[: self.most_spans(longest)], np.int32),
            np.array(mode, np.int32),
            float(self.rate),
            float(self.mean_length),
            self.placement == "uniform",
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest, np.uint8),
            np.empty((4, longest + 1), np.int32),
            index,
            out,
            offsets,
            targets,
            target_offsets,
        )
        return replaced(batch, index, out, offsets).put(
            targets=Ragged.of(targets[: target_offsets[-1]], target_offsets)
        )


def replaced(batch: Batch, index: Int32, tokens: Int32, offsets: Int64) -> Batch:
    """The rows rebuilt from `index` with `tokens` in them, those of fewer than 2 tokens marked.

    `index` and `tokens` are int32, as long as `offsets` (int64[rows + 1]) says or longer.
    """
    short: npt.NDArray[np.bool_] = batch.tokens.lengths < 2
    moved = take(batch, Ragged.of(index[: offsets[-1]], offsets))
    return moved.put(tokens=moved.tokens.with_values(tokens[: offsets[-1]])).mark(short, "too_short")
