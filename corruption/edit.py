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
def _inside(offsets: Int64, index: Int32, new_offsets: Int64) -> bool:
    """Whether every place lies in its row. No branch, so that it costs next to nothing beside a gather."""
    outside = False
    for row in range(len(offsets) - 1):
        n = offsets[row + 1] - offsets[row]
        for i in index[new_offsets[row] : new_offsets[row + 1]]:
            outside |= (i < INVENTED) | (i >= n)
    return not outside


@njit(cache=True, nogil=True)
def _gather(values: Int32, offsets: Int64, index: Int32, new_offsets: Int64, fill: int, out: Int32) -> None:
    for row in range(len(offsets) - 1):
        old = values[offsets[row] : offsets[row + 1]]
        places = index[new_offsets[row] : new_offsets[row + 1]]
        new = out[new_offsets[row] : new_offsets[row + 1]]
        if len(old) == 0:
            for j in range(len(new)):
                new[j] = fill
            continue
        for j in range(len(new)):
            i = places[j]
            # Read something even for an invented token, at an unsigned place: the loop is then one of wide gathers.
            value = old[np.uint32(max(i, 0))]
            new[j] = value if i >= 0 else fill


@njit(cache=True, nogil=True)
def _gather_starts(values: Int32, offsets: Int64, index: Int32, new_offsets: Int64, before: Int32, out: Int32) -> None:
    """Flags that follow the text; see the module's first lines. `before` is scratch: starts before each place."""
    for row in range(len(offsets) - 1):
        old = values[offsets[row] : offsets[row + 1]]
        places = index[new_offsets[row] : new_offsets[row + 1]]
        new = out[new_offsets[row] : new_offsets[row + 1]]
        count = np.int32(0)
        before[0] = count
        for i in range(len(old)):
            count += old[i]
            before[i + 1] = count
        told = 0  # the starts of places below it have passed to a token
        run = 0  # where the run of invented tokens ends that has been dealt with
        for j in range(len(new)):
            i = places[j]
            if i >= 0:
                # No branch: in a shuffled row it would go either way.
                new[j] = (i < told) | (before[i + 1] > before[told])
                told = i + 1
                continue
            new[j] = 0
            if j < run:
                continue
            # The first of a run stands for all up to the next kept token, if that comes later in the old row.
            run = j + 1
            while run < len(new) and places[run] < 0:
                run += 1
            until = places[run] if run < len(new) else len(old)
            if until > told:
                new[j] = 1 if before[until] > before[told] else 0
                told = until


def take(batch: Batch, index: Ragged, fills: dict[str, int] | None = None, tokens: Int32 | None = None) -> Batch:
    """Each row rebuilt from the places `index` names in it (int32, -1 for an invented token).

    Every aligned column is gathered by the same index; an invented token gets `fills[column]`, else the
    column's padding (-1 for origin, IGNORE for labels), else 0. Word and sentence starts follow the text.
    tokens: the new tokens, where the caller has made them already; then they are not gathered.
    Raises IndexError when a place lies outside its row, ValueError when `tokens` has another length.
    """
    old = batch.tokens.offsets
    if not _inside(old, index.values, index.offsets):
        raise IndexError("an index points outside its row")
    if tokens is not None and len(tokens) != len(index.values):
        raise ValueError(f"{len(tokens)} tokens for an index of {len(index.values)}")
    fills = {**_FILLS, **(fills or {})}
    # While no column says otherwise the tokens stand where they stood, so the index itself is their origin.
    moved = {} if "origin" in batch.columns else {"origin": index}
    if tokens is not None:
        moved["tokens"] = index.with_values(tokens)
    before = np.empty(int(batch.tokens.lengths.max(initial=0)) + 1, np.int32)
    for name, column in batch.columns.items():
        if column.offsets is not old or name in moved:
            continue
        out = np.empty(len(index.values), np.int32)
        if name in STARTS:
            _gather_starts(column.values, old, index.values, index.offsets, before, out)
        else:
            _gather(column.values, old, index.values, index.offsets, fills.get(name, 0), out)
        moved[name] = index.with_values(out)
    return batch.put(**moved)


@njit(cache=True, nogil=True)
def _spliced_lengths(
    offsets: Int64, span_offsets: Int64, starts: Int32, ends: Int32, sizes: Int64, new_lengths: Int64
) -> bool:
    """Fill `new_lengths`; false when spans overlap, are out of order, or leave their row."""
    for row in range(len(offsets) - 1):
        n = offsets[row + 1] - offsets[row]
        length, place = n, 0
        for s in range(span_offsets[row], span_offsets[row + 1]):
            if starts[s] < place or ends[s] < starts[s] or ends[s] > n:
                return False
            place = int(ends[s])
            length += sizes[s] - (place - starts[s])
        new_lengths[row] = length
    return True


@njit(cache=True, nogil=True)
def _splice(
    tokens: Int32,
    offsets: Int64,
    span_offsets: Int64,
    starts: Int32,
    ends: Int32,
    sizes: Int64,
    values: Int32,
    index: Int32,
    out: Int32,
) -> None:
    """Fill `index` with old places (or -1), and `out` with the tokens; rows follow each other without a gap."""
    j, inserted = 0, 0
    for row in range(len(offsets) - 1):
        old = tokens[offsets[row] : offsets[row + 1]]
        place = 0
        for s in range(span_offsets[row], span_offsets[row + 1]):
            for i in range(place, starts[s]):
                index[j], out[j] = i, old[i]
                j += 1
            for _ in range(sizes[s]):
                index[j], out[j] = INVENTED, values[inserted]
                j += 1
                inserted += 1
            place = ends[s]
        for i in range(place, len(old)):
            index[j], out[j] = i, old[i]
            j += 1


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
    if len(sizes) != len(starts.values) or bool((sizes < 0).any()) or int(sizes.sum()) != len(values):
        raise ValueError(f"{len(sizes)} sizes add up to {int(sizes.sum())}, for {len(values)} values")
    if len(starts) != len(batch) or not np.array_equal(starts.offsets, ends.offsets):
        raise ValueError("starts and ends are not ragged by the batch's rows")
    tokens = batch.tokens
    new_lengths = np.empty(len(batch), np.int64)
    if not _spliced_lengths(tokens.offsets, starts.offsets, starts.values, ends.values, sizes, new_lengths):
        raise ValueError("spans overlap, are out of order, or leave their row")
    offsets = offsets_of(new_lengths)
    index, out = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
    _splice(tokens.values, tokens.offsets, starts.offsets, starts.values, ends.values, sizes, values, index, out)
    return take(batch, Ragged.of(index, offsets), fills, out)
