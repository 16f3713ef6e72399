"""WHAT a corruption does to a row: `take` (gather) and `splice` (replace spans), which keep columns aligned.

Both come down to one index for each new token: the place in the old row it is copied from, or -1 for an
invented one. `origin` follows the same index, so every kept token can name its place in the original passage.

Word and sentence starts follow the text: where tokens vanish, a start among them passes to the token that now
stands for them, the invented one or else the next kept one; where the order is broken a new word or sentence
begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.ragged import Batch, Int32, Int64, Ragged, offsets_of
from corruption.schema import COLUMNS, STARTS

INVENTED = -1

_FILLS = {name: column.pad for name, column in COLUMNS.items() if isinstance(column.pad, int)}


@njit(cache=True, nogil=True)
def _gather(values: Int32, offsets: Int64, index: Int32, new_offsets: Int64, fill: int, out: Int32) -> None:
    for row in range(len(offsets) - 1):
        start = offsets[row]
        for j in range(new_offsets[row], new_offsets[row + 1]):
            i = index[j]
            out[j] = values[start + i] if i >= 0 else fill


@njit(cache=True, nogil=True)
def _gather_starts(values: Int32, offsets: Int64, index: Int32, new_offsets: Int64, out: Int32) -> None:
    """Flags that follow the text; see the module's first lines."""
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        place = 0  # every earlier token of the old row has been dealt with
        for j in range(new_offsets[row], new_offsets[row + 1]):
            i = index[j]
            if i < 0:
                # It stands for all up to the next kept token, if that comes later in the old row.
                k = j + 1
                while k < new_offsets[row + 1] and index[k] < 0:
                    k += 1
                until = index[k] if k < new_offsets[row + 1] else end - start
                flag = 0
                while place < until:
                    flag |= values[start + place]
                    place += 1
            elif i < place:
                flag = 1
                place = i + 1
            else:
                flag = 0
                while place <= i:
                    flag |= values[start + place]
                    place += 1
            out[j] = flag


def take(batch: Batch, index: Ragged, fills: dict[str, int] | None = None) -> Batch:
    """Each row rebuilt from the places `index` names in it (int32, -1 for an invented token).

    Every aligned column is gathered by the same index; an invented token gets `fills[column]`, else the
    column's padding (-1 for origin, IGNORE for labels), else 0. Word and sentence starts follow the text.
    Raises IndexError when a place lies outside its row.
    """
    lengths = batch.tokens.lengths
    if len(index.values):
        limit = np.repeat(lengths, index.lengths)
        if bool(((index.values < INVENTED) | (index.values >= limit)).any()):
            raise IndexError("an index points outside its row")
    columns = dict(batch.columns)
    columns["origin"] = batch.origin()
    fills = {**_FILLS, **(fills or {})}
    offsets = index.offsets
    moved = {}
    for name, column in columns.items():
        if column.offsets is not batch.tokens.offsets:
            continue
        out = np.empty(len(index.values), np.int32)
        if name in STARTS:
            _gather_starts(column.values, column.offsets, index.values, offsets, out)
        else:
            _gather(column.values, column.offsets, index.values, offsets, fills.get(name, 0), out)
        moved[name] = index.with_values(out)
    return batch.put(**moved)


@njit(cache=True, nogil=True)
def _splice_index(
    lengths: Int64,
    span_offsets: Int64,
    starts: Int32,
    ends: Int32,
    sizes: Int64,
    new_offsets: Int64,
    index: Int32,
    invented: Int64,
) -> None:
    """Fill `index` with old places (or -1), and `invented` with where each inserted token comes to stand."""
    inserted = 0
    for row in range(len(lengths)):
        out = new_offsets[row]
        place = 0
        for s in range(span_offsets[row], span_offsets[row + 1]):
            for i in range(place, starts[s]):
                index[out] = i
                out += 1
            for _ in range(sizes[s]):
                index[out] = INVENTED
                invented[inserted] = out
                inserted += 1
                out += 1
            place = ends[s]
        for i in range(place, lengths[row]):
            index[out] = i
            out += 1


def splice(
    batch: Batch,
    starts: Ragged,
    ends: Ragged,
    sizes: npt.NDArray[np.int64],
    values: Int32,
    fills: dict[str, int] | None = None,
) -> Batch:
    """Each span [start, end) of a row replaced by new tokens; an empty span is an insertion before `start`.

    `starts` and `ends` are ragged by row, int32, in order and without overlap; `sizes` is int64[spans], how
    many tokens replace each; `values` is int32[sum(sizes)], those tokens. Other aligned columns are filled
    at them as `take` does.
    Raises ValueError when spans overlap, are out of order, or leave their row, or sizes and values differ.
    """
    lengths = batch.tokens.lengths
    row_of_span = np.repeat(np.arange(len(starts)), starts.lengths)
    inside = (starts.values >= 0) & (starts.values <= ends.values) & (ends.values <= lengths[row_of_span])
    ordered = (row_of_span[1:] != row_of_span[:-1]) | (starts.values[1:] >= ends.values[:-1])
    if not (bool(inside.all()) and bool(ordered.all())):
        raise ValueError("spans overlap, are out of order, or leave their row")
    if len(sizes) != len(row_of_span) or bool((sizes < 0).any()) or int(sizes.sum()) != len(values):
        raise ValueError(f"{len(sizes)} sizes add up to {int(sizes.sum())}, for {len(values)} values")
    removed = np.zeros(len(lengths), np.int64)
    np.add.at(removed, row_of_span, sizes - (ends.values - starts.values))
    new_lengths = lengths + removed
    new_offsets = offsets_of(new_lengths)
    index = np.empty(new_offsets[-1], np.int32)
    invented = np.empty(len(values), np.int64)
    _splice_index(lengths, starts.offsets, starts.values, ends.values, sizes, new_offsets, index, invented)
    moved = take(batch, Ragged.of(index, new_offsets), fills)
    tokens = moved.tokens.values.copy()
    tokens[invented] = values
    return moved.put(tokens=moved.tokens.with_values(tokens))
