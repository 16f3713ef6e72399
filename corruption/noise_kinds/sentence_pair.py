"""Sentence pairs: two segments, and whether the second follows the first (NSP) or the two are swapped (SOP).

Draws of a row's stream: 0 where the first segment ends, 1 the label, 2 the sentence of the other document.
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
from corruption.noise import below, draw, fold
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64, offsets_of, per_row
from corruption.registry import register
from corruption.schema import FOREIGN, IGNORE, REASONS, STARTS
from corruption.vocabulary import Vocabulary

_END_DRAW, _LABEL_DRAW, _FOREIGN_DRAW = np.uint64(0), np.uint64(1), np.uint64(2)
_TOP_BIT = np.uint64(63)
_USABLE, _TOO_SHORT, _ONE_SENTENCE, _NO_OTHER = 0, *(
    1 + REASONS.index(reason) for reason in ("too_short", "one_sentence", "no_other_sentence")
)


@njit(inline="always")
def list_sentences(sentence_start: Int32, places: Int32) -> int:
    """Write where sentences start, then the row's length, to `places` (one longer than the row); return how many.

    The first token starts one whatever its flag.
    """
    n = 0
    for i in range(len(sentence_start)):
        places[n] = i
        if i == 0 or sentence_start[i] == 1:
            n += 1
    places[n] = len(sentence_start)
    return n


@njit(inline="always")
def same(a: Int32, b: Int32) -> bool:
    """Whether two stretches hold the same tokens."""
    if len(a) != len(b):
        return False
    i = 0
    while i < len(a) and a[i] == b[i]:
        i += 1
    return i == len(a)


@njit(inline="always")
def find_other(
    follows: Int32, first: int, other: Int32, places: Int32, n_places: int, begin: int
) -> tuple[int, int]:
    """Where another document's sentences begin and how many tokens of them to take, or (0, 0) where all clash.

    `follows` is what truly follows, its first sentence `first` tokens long. Starts are tried from number
    `begin` on, once around. One clashes whose tokens, cut to the length of `follows`, are those of `follows`,
    or whose first sentence is its first sentence.
    """
    for turn in range(n_places):
        s = begin + turn if begin + turn < n_places else begin + turn - n_places
        start = int(places[s])
        size = min(len(follows), len(other) - start)
        sentence = other[start : places[s + 1]]
        if not same(follows, other[start : start + size]) and not same(follows[:first], sentence):
            return start, size
    return 0, 0


@njit(inline="always")
def plan_row(
    tokens: Int32,
    sentence_start: Int32,
    foreign: Int32,
    foreign_start: Int32,
    nsp: bool,
    cut_both: bool,
    stream: np.uint64,
    places: Int32,
) -> tuple[int, int, int, int, int]:
    """One row: (0 or why it is unusable, the label, where A ends, where a foreign B starts, how long B is).

    What makes a row unusable does not look at the label, so half of the usable rows have each.
    """
    n = len(tokens)
    if n == 0:
        return _TOO_SHORT, IGNORE, 0, 0, 0
    sentences = list_sentences(sentence_start, places)
    if sentences < 2:
        return _ONE_SENTENCE, IGNORE, n, 0, 0
    a = 1 + int(np.int64(below(draw(stream, _END_DRAW), np.uint64(sentences - 1))))
    end = int(places[a])
    label = int(np.int64(draw(stream, _LABEL_DRAW) >> _TOP_BIT))
    start, size = 0, n - end
    if nsp:
        first = places[a + 1] - end
        others = list_sentences(foreign_start, places)
        cut = 0
        if others > 0:
            begin = int(np.int64(below(draw(stream, _FOREIGN_DRAW), np.uint64(others))))
            start, cut = find_other(tokens[end:], first, foreign, places, others, begin)
        if cut == 0:
            return _NO_OTHER, IGNORE, n, 0, 0
        if label == 1 or cut_both:
            size = cut
    elif same(tokens[:end], tokens[end:]):
        return _NO_OTHER, IGNORE, n, 0, 0
    return _USABLE, label, end, start, size


@njit(cache=True, nogil=True)
def plan_rows(
    tokens: Int32,
    sentence_start: Int32,
    offsets: Int64,
    foreign: Int32,
    foreign_start: Int32,
    foreign_offsets: Int64,
    nsp: bool,
    cut_both: bool,
    prefix: np.uint64,
    keys: UInt64,
    copies: UInt64,
    places: Int32,
    plan: Int64,
) -> None:
    """The loop over rows; `places` is one longer than the longest row, plan int64[rows, 5] as `plan_row` says."""
    for row in range(len(keys)):
        a, b = offsets[row], offsets[row + 1]
        c, d = (foreign_offsets[row], foreign_offsets[row + 1]) if nsp else (0, 0)
        found = plan_row(
            tokens[a:b],
            sentence_start[a:b],
            foreign[c:d],
            foreign_start[c:d],
            nsp,
            cut_both,
            fold(fold(prefix, keys[row]), copies[row]),
            places,
        )
        for i in range(5):
            plan[row, i] = found[i]


@njit(inline="always")
def copy(source: Int32, target: Int32) -> None:
    """The source to the front of the target. This loop becomes vector instructions; assigning a slice does not."""
    for i in range(len(source)):
        target[i] = source[i]


@njit(inline="always")
def lay_row(
    tokens: Int32, label: int, end: int, foreign: Int32, nsp: bool, index: Int32, out: Int32, segment: Int32
) -> None:
    """One row: the new tokens, where each comes from, and its segment; `foreign` are those of a foreign B.

    `index`, `out` and `segment` have the new row's length.
    """
    n, first = len(tokens), end
    if label != 1:
        copy(tokens[: len(out)], out)
        for j in range(len(index)):
            index[j] = j
    elif nsp:
        copy(tokens[:end], out)
        copy(foreign, out[end:])
        for j in range(end):
            index[j] = j
        for j in range(end, len(index)):
            index[j] = INVENTED
    else:
        first = n - end
        copy(tokens[end:], out)
        copy(tokens[:end], out[first:])
        for j in range(first):
            index[j] = end + j
        for j in range(end):
            index[first + j] = j
    for j in range(len(segment)):
        segment[j] = 1 if j >= first else 0


@njit(cache=True, nogil=True)
def lay_rows(
    tokens: Int32,
    offsets: Int64,
    foreign: Int32,
    foreign_offsets: Int64,
    plan: Int64,
    nsp: bool,
    new_offsets: Int64,
    index: Int32,
    out: Int32,
    segment: Int32,
) -> None:
    """The loop over rows, by the plan."""
    for row in range(len(plan)):
        a, b = new_offsets[row], new_offsets[row + 1]
        c = foreign_offsets[row] + plan[row, 3] if nsp else 0
        lay_row(
            tokens[offsets[row] : offsets[row + 1]],
            plan[row, 1],
            plan[row, 2],
            foreign[c : c + plan[row, 4]],
            nsp,
            index[a:b],
            out[a:b],
            segment[a:b],
        )


@njit(cache=True, nogil=True)
def fill_foreign(plan: Int64, foreign: Int32, foreign_offsets: Int64, new_offsets: Int64, out: Int32) -> None:
    """Write a column of the other document to where B lies in rows of label 1."""
    for row in range(len(plan)):
        if plan[row, 1] == 1:
            size = plan[row, 4]
            start = foreign_offsets[row] + plan[row, 3]
            copy(foreign[start : start + size], out[new_offsets[row + 1] - size : new_offsets[row + 1]])


@register
@dataclass(frozen=True)
class SentencePair:
    """Two segments and a label: 1 where the second does not follow the first, 0 where it does.

    The passage is parted behind one of its sentences, each but the last equally likely. task "nsp": with
    label 1, half of the time, the second segment is another document's sentences from a random one on, its
    front as long as the true second segment at most. They differ from the true second segment, and the first
    of them from the sentence that truly follows; where one does not, the next sentence of that passage is
    tried, wrapping round. task "sop": with label 1 the two parts are swapped. Neither task is ever used in
    place of the other. cut, with "nsp" only: "both" (default) cuts the true second segment to the length that
    the foreign one would have, so that a pair's length, or a last sentence without its end, says next to
    nothing of its label; "foreign" leaves it whole.

    Unusable, whatever the label would be: a passage without tokens ("too_short"), of one sentence
    ("one_sentence"), or without a second segment that could be told from the true one
    ("no_other_sentence": all sentences of the other passage clash, or two equal parts to swap).
    `next_sentence_label` is IGNORE there. In foreign tokens `origin` is -1.

    Random: the parting, the label, and the foreign sentence.
    Raises InputError when `cut` is given for "sop". For "nsp" it must be the first step of its chain, since
    none before it would have touched the foreign segment.
    Source: Devlin et al. 2019, section 3.1, task 2; Lan et al. 2020, section 3.1. Deviations: exactly half of
    the pairs are negative, none by force; only second segments are cut, at their end; no passage is made
    shorter at random.
    """

    kind: ClassVar[str] = "sentence_pair"
    provides: ClassVar[tuple[str, ...]] = ("segment", "next_sentence_label")
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    task: Literal["nsp", "sop"] = "nsp"
    cut: Literal["foreign", "both"] | None = None

    def __post_init__(self) -> None:
        if self.task not in ("nsp", "sop"):
            raise InputError("sentence_pair.task", f"unknown value {self.task!r}", "choose one of nsp, sop")
        if self.cut not in (None, "foreign", "both"):
            raise InputError("sentence_pair.cut", f"unknown value {self.cut!r}", "choose one of foreign, both")
        if self.task == "sop" and self.cut is not None:
            given, do = f"{self.cut!r} does nothing with task: sop", "remove it, or use task: nsp"
            raise InputError("sentence_pair.cut", given, do)
        if self.task == "nsp" and self.cut is None:
            object.__setattr__(self, "cut", "both")

    def needs(self) -> tuple[str, ...]:
        """Where sentences start, and for "nsp" a passage of another document."""
        return ("tokens", "sentence_start", *(FOREIGN if self.task == "nsp" else ()))

    def bounds(self, length: int) -> Mapping[str, int]:
        """No longer than the passage: a foreign segment is cut to the length of the true one."""
        return {"tokens": length}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Any tokenizer will do. Raises InputError when every passage would be too short for two sentences."""
        if longest is not None and longest < 2:
            given = f"passages have up to {longest} token, and two sentences take two"
            raise InputError("sentence_pair", given, "raise corpus.max_tokens")

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """Both segments as one row; columns `segment`, aligned, and `next_sentence_label`, one a row."""
        nsp = self.task == "nsp"
        tokens = batch.tokens
        # "sop" has no foreign columns; what stands in for them is not read.
        foreign = batch.columns["foreign_tokens" if nsp else "tokens"]
        foreign_start = batch.columns["foreign_sentence_start" if nsp else "sentence_start"]
        lengths = tokens.lengths
        longest = max((int(n.max()) for n in (lengths, foreign.lengths) if len(n)), default=0)
        plan = np.empty((len(batch), 5), np.int64)
        plan_rows(
            tokens.values,
            batch.columns["sentence_start"].values,
            tokens.offsets,
            foreign.values,
            foreign_start.values,
            foreign.offsets,
            nsp,
            self.cut == "both",
            noise.prefix,
            batch.keys,
            batch.copies,
            np.empty(longest + 1, np.int32),
            plan,
        )
        reason, label, end, _, size = plan.T
        offsets = offsets_of(end + size)
        index, out, segment = (np.empty(offsets[-1], np.int32) for _ in range(3))
        lay_rows(
            tokens.values, tokens.offsets, foreign.values, foreign.offsets, plan, nsp, offsets, index, out, segment
        )
        places = Ragged.of(index, offsets)
        moved = take(batch, places, tokens=out)
        if nsp:
            for name in STARTS:
                if name in moved.columns:
                    starts = moved.columns[name].values.copy()
                    fill_foreign(plan, batch.columns[f"foreign_{name}"].values, foreign.offsets, offsets, starts)
                    moved = moved.put(**{name: places.with_values(starts)})
        for code in (_TOO_SHORT, _ONE_SENTENCE, _NO_OTHER):
            moved = moved.mark(reason == code, REASONS[code - 1])
        return moved.put(segment=places.with_values(segment), next_sentence_label=per_row(label))
