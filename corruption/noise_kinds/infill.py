"""Text infilling: spans of any length, 0 included, become one mask each; the model must say how much is missing.

Everything is done on items: tokens, or whole words. A row's new items are first an index of old ones, -1 where a mask
comes to stand and -2 where a random token does. Draws of a row's stream: j is the length of the j-th span drawn; each
further question (which slot, whether a random token, which one, where an insertion goes) has a range of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numba import njit

from corruption.chain import Noise
from corruption.edit import INVENTED, take
from corruption.errors import InputError
from corruption.lengths import Float64, Geometric, Ngram, Poisson, Shares, length_at
from corruption.noise import below, draw, fold, unit
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.registry import register
from corruption.spans import COUNTS, budget, edges_of, expand
from corruption.vocabulary import Vocabulary

_SLOT, _COIN, _TOKEN, _INSERT = (np.uint64(i << 32) for i in (1, 2, 3, 4))
_RANDOM = -2
_ROUNDING = 1e-9  # what a product of a rate and a count may be off by
_POISSON = Poisson()


@njit(inline="always")
def draw_lengths(
    wanted: int, table: Float64, guide: Int32, nonzero: Float64, stream: np.uint64, lengths: Int32
) -> tuple[int, int]:
    """Draw lengths until they add up to `wanted`, the last cut to fit: how many above 0 (in `lengths`), how many 0.

    `guide` says for each 256th of [0, 1) where in the table to start looking. `nonzero` is the law of a length that is
    not 0: once there are `wanted` zeros no further one could find room, so from then on none is drawn, and a law that
    gives almost nothing but zeros comes to an end.
    """
    spans, zeros, total = 0, 0, 0
    while total < wanted:
        u = unit(draw(stream, np.uint64(spans + zeros)))
        if zeros < wanted:
            length = int(guide[int(u * 256.0)])
            while u >= table[length]:
                length += 1
        else:
            length = length_at(nonzero, u)
        if length == 0:
            zeros += 1
        else:
            length = min(length, wanted - total)
            lengths[spans] = length
            total += length
            spans += 1
    return spans, zeros


@njit(inline="always")
def scatter(count: int, lengths: Int32, slots: int, stream: np.uint64, places: Int32, length_in: Int32) -> None:
    """Put `count` lengths into different slots, each way equally likely; `length_in` is -1 where none is."""
    for s in range(slots):
        places[s] = s
        length_in[s] = -1
    for j in range(count):
        other = j + np.int64(below(draw(stream, _SLOT + np.uint64(j)), np.uint64(slots - j)))
        places[j], places[other] = places[other], places[j]
        length_in[places[j]] = lengths[j]


@njit(inline="always")
def infill_disjoint(
    n: int,
    rate: float,
    count: int,
    table: Float64,
    guide: Int32,
    nonzero: Float64,
    stream: np.uint64,
    lengths: Int32,
    places: Int32,
    length_in: Int32,
    index: Int32,
) -> int:
    """Spans with at least one kept item between them, insertions where no span is; how many items that makes.

    The slots are the places before, between and behind the kept items; each holds one mask at most.
    """
    wanted = budget(n, rate, count, stream)
    slots = n - wanted + 1
    spans, zeros = draw_lengths(wanted, table, guide, nonzero, stream, lengths)
    for j in range(slots, spans):
        lengths[j % slots] += lengths[j]
    spans = min(spans, slots)
    zeros = min(zeros, min(slots, wanted) - spans)
    for j in range(spans, spans + zeros):
        lengths[j] = 0
    scatter(spans + zeros, lengths, slots, stream, places, length_in)
    to, place = np.uint32(0), 0
    for s in range(slots):
        # Written whether or not it stays: a branch would go either way.
        index[to] = INVENTED
        to += np.uint32(length_in[s] >= 0)
        index[to] = place + max(length_in[s], 0)
        to += np.uint32(1)
        place += max(length_in[s], 0) + 1
    return int(np.int64(to)) - 1  # behind the last slot there is no item


@njit(inline="always")
def infill_overlapping(
    n: int,
    rate: float,
    table: Float64,
    guide: Int32,
    nonzero: Float64,
    random_share: float,
    stream: np.uint64,
    lengths: Int32,
    places: Int32,
    length_in: Int32,
    index: Int32,
) -> int:
    """Spans at different random starts, which swallow each other's items and masks; then the insertions, anywhere."""
    wanted = min(n, int(np.ceil(rate * n - _ROUNDING)))
    spans, zeros = draw_lengths(wanted, table, guide, nonzero, stream, lengths)
    scatter(spans, lengths, n, stream, places, length_in)
    end, left = np.uint32(0), 0  # left: how many more items the spans so far take away
    for i in range(n):
        stays = left <= 0
        index[end] = i
        if length_in[i] >= 0:
            index[end] = INVENTED
            left = max(left, int(length_in[i]))
        end += np.uint32(stays)
        left -= 1
    to = int(np.int64(end))
    choose_random(0, to, random_share, stream, index)
    zeros = min(zeros, n - to)
    total = to + zeros
    for i in range(total):
        places[i] = i
        length_in[i] = 0
    at_random = int(np.ceil(zeros * random_share - _ROUNDING))
    for j in range(zeros):
        other = j + np.int64(below(draw(stream, _INSERT + np.uint64(j)), np.uint64(total - j)))
        places[j], places[other] = places[other], places[j]
        length_in[places[j]] = _RANDOM if j < at_random else INVENTED
    # From behind, until the last insertion is in: what stands before it is in its place.
    left, old = zeros, to
    for i in range(total - 1, -1, -1):
        if left == 0:
            break
        if length_in[i] < 0:
            index[i] = length_in[i]
            left -= 1
        else:
            old -= 1
            index[i] = index[old]
    return total


@njit(inline="always")
def choose_random(a: int, b: int, random_share: float, stream: np.uint64, index: Int32) -> None:
    """Turn each mask of index[a:b] into a random token with that chance."""
    if random_share > 0.0:
        for i in range(a, b):
            if index[i] < 0 and unit(draw(stream, _COIN + np.uint64(i))) < random_share:
                index[i] = _RANDOM


@njit(inline="always")
def fill(
    old: Int32, index: Int32, mask_id: int, random_share: float, pool: Int32, stream: np.uint64, out: Int32
) -> None:
    """The tokens of an index: the old row's, the mask, or random ones, which `index` then calls invented too."""
    for j in range(len(index)):
        i = index[j]
        token = old[np.uint32(max(i, 0))]
        out[j] = token if i >= 0 else mask_id
    if random_share > 0.0:
        for j in range(len(index)):
            if index[j] == _RANDOM:
                out[j] = pool[below(draw(stream, _TOKEN + np.uint64(j)), np.uint64(len(pool)))]
                index[j] = INVENTED


@njit(cache=True, nogil=True)
def infill_rows(
    tokens: Int32,
    offsets: Int64,
    word_start: Int32,
    by_word: bool,
    overlapping: bool,
    rate: float,
    count: int,
    table: Float64,
    guide: Int32,
    nonzero: Float64,
    random_share: float,
    mask_id: int,
    pool: Int32,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    edges: Int32,
    lengths: Int32,
    places: Int32,
    length_in: Int32,
    items: Int32,
    new_offsets: Int64,
    index: Int32,
    out: Int32,
) -> None:
    """The loop over rows: items to an index, words to their tokens, masks to ids; `edges` to `items` are scratch."""
    new_offsets[0] = 0
    for row in range(len(keys)):
        old = tokens[offsets[row] : offsets[row + 1]]
        stream = fold(fold(prefix, keys[row]), copies[row])
        to = new_offsets[row]
        n = edges_of(word_start[offsets[row] : offsets[row + 1]], edges) if by_word else len(old)
        made = items if by_word else index[to:]
        if overlapping:
            size = infill_overlapping(
                n, rate, table, guide, nonzero, random_share, stream, lengths, places, length_in, made
            )
        else:
            size = infill_disjoint(n, rate, count, table, guide, nonzero, stream, lengths, places, length_in, made)
            choose_random(0, size, random_share, stream, made)
        end = to + size
        if by_word:
            end = to + expand(items[:size], edges, index[to:])
        new_offsets[row + 1] = end
        fill(old, index[to:end], mask_id, random_share, pool, stream, out[to:end])


@register
@dataclass(frozen=True)
class Infill:
    """Replace spans of tokens, or of whole words, by one mask each; a span of length 0 is a mask put in between.

    rate: share of the items (tokens, or words with unit "word") that spans cover. count: "exact" (round half to
    even, at least one) or "stochastic" (floor(rate * n + U), unbiased). lengths: the law of span lengths, in items;
    they are drawn until they add up to the count, the last cut to fit. placement: "disjoint" (default) or
    "overlapping". random_share: chance that a random ordinary token stands where a mask would.

    "disjoint": spans and insertions are laid out with at least one kept item between any two, every layout equally
    likely, so the count is exact and no two masks meet. Where the kept items cannot hold so many spans apart, spans
    are joined (rate 1 is a single mask). An insertion that finds no gap left is left out, and so is one that would
    make the row longer than it was, which happens where the mean length is about 1 or less.

    "overlapping" exists to compare with models trained by the released code: spans start at different random items
    and may swallow each other, so that a rate of 0.3 covers about 26.7 % of 510 tokens; two masks may be neighbours.
    The count is rounded up; insertions go anywhere, and of m of them ceil(random_share * m) are random tokens. Only
    insertions that would make the row longer than it was are left out.

    Random: lengths, places, random tokens, from the step's stream of the example.
    Raises InputError when a share is out of range, placement and count do not go together, or the tokenizer has no
    mask token.
    Source: Lewis et al. 2020, section 2.2, text infilling (rate 0.3, Poisson lengths of mean 3), and for
    "overlapping" its released code. Deviations: "disjoint" covers the whole budget; random tokens are never special.
    """

    kind: ClassVar[str] = "infill"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True

    rate: float = 0.30
    lengths: Poisson | Geometric | Ngram | Shares = _POISSON
    placement: Literal["disjoint", "overlapping"] = "disjoint"
    random_share: float = 0.0
    unit: Literal["token", "word"] = "token"
    count: Literal["exact", "stochastic"] = "exact"

    def __post_init__(self) -> None:
        for name in ("rate", "random_share"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise InputError(f"infill.{name}", f"{value} is outside 0 to 1", "give a share between 0 and 1")
        if self.placement == "overlapping" and self.count != "exact":
            raise InputError(
                "infill.placement + infill.count",
                f"{self.placement!r} rounds the count up, so {self.count!r} does nothing",
                "use count: exact, or placement: disjoint",
            )

    @property
    def breaks(self) -> tuple[str, ...]:
        """Random tokens in place of spans are nothing to ask for."""
        return ("labels",) if self.random_share > 0 else ()

    def needs(self) -> tuple[str, ...]:
        """The columns this configuration reads: whole words need the stored word starts."""
        return ("tokens", "word_start") if self.unit == "word" else ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        """A row never gets longer: a span leaves one mask at most, and insertions only fill up what spans took."""
        return {"tokens": max(1, length)}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks what this needs."""
        if self.random_share < 1.0:
            vocabulary.need("mask", "the corruption 'infill'")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Tokens, with a mask for each span, and all that is aligned with them."""
        tokens = batch.tokens
        by_word = self.unit == "word"
        longest = int(tokens.lengths.max(initial=0)) + 2
        table = self.lengths.table()
        guide = np.searchsorted(table, np.arange(256) / 256.0, "right").astype(np.int32)
        # The law of a length that is not 0; for a law that gives nothing else, as far as floats can tell, always 1.
        nonzero = (table - table[0]) / (1.0 - table[0]) if table[0] < 1.0 else np.array([0.0, 1.0])
        new_offsets = np.empty(len(batch) + 1, np.int64)
        # Each row is written behind the one before it, and up to three places beyond its own end.
        index = np.empty(len(tokens.values) + 3, np.int32)
        out = np.empty(len(tokens.values), np.int32)
        infill_rows(
            tokens.values,
            tokens.offsets,
            batch.columns["word_start"].values if by_word else tokens.values[:0],
            by_word,
            self.placement == "overlapping",
            float(self.rate),
            COUNTS[self.count],
            table,
            guide,
            nonzero,
            float(self.random_share),
            -1 if vocabulary.mask is None else vocabulary.mask,
            vocabulary.pool,
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
            np.empty(longest, np.int32),
            new_offsets,
            index,
            out,
        )
        end = new_offsets[-1]
        return take(batch, Ragged.of(index[:end], new_offsets), tokens=out[:end])
