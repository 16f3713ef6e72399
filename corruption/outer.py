"""What stands around content in rows as a tokenizer makes them: padding, [CLS] or BOS in front, [SEP] or EOS behind.

It is found by the vocabulary's roles, and by `attention_mask` and `special_tokens_mask` where rows bring them, so that
a chain sees content only and a frame puts the tokens back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.errors import InputError
from corruption.frames.layout import Layout, Stretch
from corruption.ragged import Int32, Int64, Ragged
from corruption.vocabulary import ROLES, Vocabulary

_PAD, _MASK, _CLS, _SEP, _BOS, _EOS, _UNK = range(len(ROLES))
_INNER_PAD, _HIDDEN, _OTHER_FRAME, _PROTECTED = 1, 2, 3, 4

_TELL = {
    _INNER_PAD: (
        "there is padding inside it, at position {place}",
        "give each text a row of its own, padded at one end or not at all",
    ),
    _HIDDEN: (
        "attention_mask is 0 at position {place}, where the id {id} is no padding",
        "give attention_mask 0 on padding only, or leave the column out",
    ),
    _OTHER_FRAME: (
        "the special token {id} at position {place} is not one that a frame puts around content",
        "tokenise with add_special_tokens=False and call the column tokens",
    ),
    _PROTECTED: (
        "special_tokens_mask is 1 at position {place}, where the id {id} is an ordinary token",
        "leave the column out, or make that token a special one of the tokenizer",
    ),
}


@dataclass(frozen=True, eq=False)
class Content:
    """The content of rows: where it lies in them, and what stood around it.

    tokens: the content. starts: int64[rows], its place in the rows' flat values. first, last: bool[rows], whether a
    special token stood directly before and behind it. inner: bool[rows], whether special tokens stand inside, as [SEP]
    in a pair.
    """

    tokens: Ragged
    starts: Int64
    first: npt.NDArray[np.bool_]
    last: npt.NDArray[np.bool_]
    inner: npt.NDArray[np.bool_]

    def of(self, column: Ragged) -> Ragged:
        """The same places of a column over the whole rows, aligned with `tokens`."""
        return self.tokens.with_values(_cut(column, self.starts, self.tokens.lengths).values)


@njit(inline="always")
def edge(token: int, roles: Int64) -> bool:
    """Whether it is one of the four tokens that frames put around content."""
    return bool(token == roles[_CLS] or token == roles[_SEP] or token == roles[_BOS] or token == roles[_EOS])


@njit(inline="always")
def text(token: int, roles: Int64) -> bool:
    """Whether it is a special token that stands for text."""
    return bool(token == roles[_UNK] or token == roles[_MASK])


@njit(inline="always")
def padding(i: int, ids: Int32, attention: Int32, roles: Int64) -> bool:
    """Whether position i is padding. Where the pad id is an edge's too (as in GPT-2), attention decides."""
    if len(attention) == 0:
        return bool(ids[i] == roles[_PAD])
    return bool(attention[i] == 0 or (ids[i] == roles[_PAD] and not edge(ids[i], roles)))


@njit(inline="always")
def outer_row(
    ids: Int32, attention: Int32, special: Int32, fixed: np.ndarray, roles: Int64, found: Int64
) -> tuple[int, int]:
    """One row: write (start, end, token before?, token behind?, special inside?) to `found`; (fault or 0, place)."""
    a, b = 0, len(ids)
    while a < b and padding(a, ids, attention, roles):
        a += 1
    while b > a and padding(b - 1, ids, attention, roles):
        b -= 1
    for i in range(len(ids)):
        if (i < a or i >= b) and ids[i] != roles[_PAD]:
            return _HIDDEN, i
    first, last = 0, 0
    if a < b and (ids[a] == roles[_CLS] or ids[a] == roles[_BOS]) and (len(special) == 0 or special[a] == 1):
        first, a = 1, a + 1
    if b > a and (len(special) == 0 or special[b - 1] == 1):
        behind = b - 1
        if ids[behind] == roles[_CLS] and behind > a:  # XLNet: [SEP] [CLS]
            behind -= 1
        if ids[behind] == roles[_SEP] or ids[behind] == roles[_EOS]:
            last, b = 1, behind
    inner = 0
    leads = roles[_CLS] >= 0 or roles[_BOS] >= 0
    if leads and last == 1 and first == 0 and a < b and fixed[ids[a]] == 1 and not text(ids[a], roles):
        return _OTHER_FRAME, a  # NLLB: language, content, EOS
    for i in range(a, b):
        if padding(i, ids, attention, roles) and not (len(attention) == 0 and edge(ids[i], roles)):
            return _INNER_PAD, i
        if len(special) > 0 and special[i] == 1 and not text(ids[i], roles):
            if fixed[ids[i]] == 0:
                return _PROTECTED, i
            if not edge(ids[i], roles) and (i == a or i == b - 1):
                return _OTHER_FRAME, i
            inner = 1
        elif len(special) == 0 and edge(ids[i], roles):
            inner = 1
            if i == b - 2 and fixed[ids[b - 1]] == 1 and not edge(ids[b - 1], roles):  # mBART: EOS, language
                return _OTHER_FRAME, b - 1
    found[0], found[1], found[2], found[3], found[4] = a, b, first, last, inner
    return 0, 0


@njit(cache=True, nogil=True)
def outer_rows(
    ids: Int32,
    offsets: Int64,
    attention: Int32,
    special: Int32,
    fixed: np.ndarray,
    roles: Int64,
    found: Int64,
) -> tuple[int, int, int]:
    """The loop over rows: `found` is int64[rows, 5]; the first row at fault as (row, fault, place), else zeros."""
    for row in range(len(offsets) - 1):
        a, b = offsets[row], offsets[row + 1]
        fault, place = outer_row(
            ids[a:b],
            attention[a:b] if len(attention) > 0 else attention,
            special[a:b] if len(special) > 0 else special,
            fixed,
            roles,
            found[row],
        )
        if fault != 0:
            return row, fault, place
    return 0, 0, 0


def content_of(
    ids: Ragged, vocabulary: Vocabulary, attention: Ragged | None = None, special: Ragged | None = None
) -> Content:
    """The content of rows that may be padded at either end and framed.

    ids, attention, special: `input_ids`, `attention_mask` and `special_tokens_mask`, under the same offsets.
    Raises InputError for padding inside a row, a mask that contradicts the ids, or special tokens of another frame.
    """
    none = np.zeros(0, np.int32)
    roles = np.array([-1 if (i := getattr(vocabulary, role)) is None else i for role in ROLES], np.int64)
    found = np.zeros((len(ids), 5), np.int64)
    row, fault, place = outer_rows(
        ids.values,
        ids.offsets,
        none if attention is None else attention.values,
        none if special is None else special.values,
        vocabulary.fixed,
        roles,
        found,
    )
    if fault:
        _refuse(ids, row, fault, place)
    start, end, first, last, inner = found.T
    starts = ids.offsets[:-1] + start
    return Content(_cut(ids, starts, end - start), starts, first == 1, last == 1, inner == 1)


def _cut(column: Ragged, starts: Int64, lengths: Int64) -> Ragged:
    return Layout.of((Stretch(starts, lengths),), len(column)).fill((column.values,))


def _refuse(ids: Ragged, row: int, fault: int, place: int) -> NoReturn:
    given, do = _TELL[fault]
    raise InputError(f"row {row} of the batch", given.format(place=place, id=ids.row(row)[place]), do)
