"""How one row lies in another: with gaps, as a part of it, or turned. Compiled, one answer for each row."""

from __future__ import annotations

import numpy as np
from numba import njit

from corruption.audit.finding import Bools
from corruption.ragged import Int32, Int64, Ragged


@njit(inline="always")
def _at(row: Int32, piece: Int32, place: int) -> bool:
    """Whether the piece stands in the row from that place on."""
    i = 0
    while i < len(piece) and row[place + i] == piece[i]:
        i += 1
    return i == len(piece)


@njit(cache=True, nogil=True)
def _gapped(whole: Int32, offsets: Int64, parts: Int32, part_offsets: Int64, gap: int, out: Bools) -> None:
    for r in range(len(out)):
        row = whole[offsets[r] : offsets[r + 1]]
        pattern = parts[part_offsets[r] : part_offsets[r + 1]]
        place, start, good = 0, 0, True
        while start <= len(pattern) and good:
            end = start
            while end < len(pattern) and pattern[end] != gap:
                end += 1
            piece = pattern[start:end]
            last = len(row) - len(piece)
            # The first piece begins where the row does, the last ends where it ends; the others as early as they can.
            if start == 0 and end == len(pattern):
                good = last == 0 and _at(row, piece, 0)
            elif start == 0:
                good = last >= 0 and _at(row, piece, 0)
                place = len(piece)
            elif end == len(pattern):
                good = last >= place and _at(row, piece, last)
            else:
                while place <= last and not _at(row, piece, place):
                    place += 1
                good = place <= last
                place += len(piece)
            start = end + 1
        out[r] = good


def gapped(whole: Ragged, parts: Ragged, gap: int) -> Bools:
    """bool[rows]: whether a row of `parts` is that of `whole` with a run of any length behind each `gap`."""
    out = np.empty(len(whole), np.bool_)
    _gapped(whole.values, whole.offsets, parts.values, parts.offsets, gap, out)
    return out


@njit(cache=True, nogil=True)
def _subsequence(whole: Int32, offsets: Int64, parts: Int32, part_offsets: Int64, out: Bools) -> None:
    for r in range(len(out)):
        place, end = part_offsets[r], part_offsets[r + 1]
        for i in range(offsets[r], offsets[r + 1]):
            if place < end and whole[i] == parts[place]:
                place += 1
        out[r] = place == end


def subsequence(whole: Ragged, parts: Ragged) -> Bools:
    """bool[rows]: whether a row of `parts` comes of that of `whole` by leaving tokens out."""
    out = np.empty(len(whole), np.bool_)
    _subsequence(whole.values, whole.offsets, parts.values, parts.offsets, out)
    return out


@njit(cache=True, nogil=True)
def _common(whole: Int32, offsets: Int64, parts: Int32, part_offsets: Int64, line: Int32, out: Int64) -> None:
    for r in range(len(out)):
        row = whole[offsets[r] : offsets[r + 1]]
        other = parts[part_offsets[r] : part_offsets[r + 1]]
        line[: len(other) + 1] = 0
        for token in row:
            before = 0
            for j in range(len(other)):
                above = line[j + 1]
                line[j + 1] = before + 1 if other[j] == token else max(above, line[j])
                before = above
        out[r] = line[len(other)]


def common(whole: Ragged, parts: Ragged) -> Int64:
    """int64[rows]: how many tokens of two rows can be paired up in order (their longest common subsequence)."""
    out = np.empty(len(whole), np.int64)
    line = np.empty(int(parts.lengths.max(initial=0)) + 1, np.int32)
    _common(whole.values, whole.offsets, parts.values, parts.offsets, line, out)
    return out


@njit(cache=True, nogil=True)
def _turned(whole: Int32, offsets: Int64, others: Int32, out: Int64) -> None:
    for r in range(len(out)):
        row = whole[offsets[r] : offsets[r + 1]]
        other = others[offsets[r] : offsets[r + 1]]
        n, found = len(row), -1 if len(row) > 0 else 0
        for k in range(1, n + 1):
            i = 0
            while i < n and other[i] == row[k + i if k + i < n else k + i - n]:
                i += 1
            if i == n:
                found = k if found < 0 else 0
        out[r] = found


def turned(whole: Ragged, others: Ragged) -> Int64:
    """int64[rows]: by how many tokens (1 up to the row's length, which is none) each row is turned.

    -1 where it is no turn of the row at all, 0 where it can be one in several ways. The rows are equally long.
    """
    out = np.empty(len(whole), np.int64)
    _turned(whole.values, whole.offsets, others.values, out)
    return out


@njit(cache=True, nogil=True)
def _stretch(whole: Int32, offsets: Int64, parts: Int32, part_offsets: Int64, out: Int64) -> None:
    for r in range(len(out)):
        row = whole[offsets[r] : offsets[r + 1]]
        piece = parts[part_offsets[r] : part_offsets[r + 1]]
        out[r] = -1
        for place in range(len(row) - len(piece) + 1):
            if _at(row, piece, place):
                out[r] = place
                break


def stretch(whole: Ragged, parts: Ragged) -> Int64:
    """int64[rows]: where a row of `parts` first stands in one piece in that of `whole`, -1 if nowhere."""
    out = np.empty(len(whole), np.int64)
    _stretch(whole.values, whole.offsets, parts.values, parts.offsets, out)
    return out


def same_tokens(a: Ragged, b: Ragged) -> Bools:
    """bool[rows]: whether two rows hold the same tokens, each as often, in any order."""
    same: Bools = a.lengths == b.lengths
    rows = np.flatnonzero(same)
    one, other = a.take(rows), b.take(rows)
    row = np.repeat(np.arange(len(rows)), one.lengths)
    unlike = one.values[np.lexsort((one.values, row))] != other.values[np.lexsort((other.values, row))]
    same[rows[np.unique(row[unlike])]] = False
    return same


def equal(a: Ragged, b: Ragged) -> Bools:
    """bool[rows]: whether two rows hold the same tokens in the same order."""
    same: Bools = a.lengths == b.lengths
    rows = np.flatnonzero(same)
    one, other = a.take(rows), b.take(rows)
    row = np.repeat(np.arange(len(rows)), one.lengths)
    same[rows[np.unique(row[one.values != other.values])]] = False
    return same


def front(column: Ragged, lengths: Int64) -> Ragged:
    """The first so many tokens of each row."""
    inside = np.arange(len(column.values)) - np.repeat(column.offsets[:-1], column.lengths) < np.repeat(
        lengths, column.lengths
    )
    return Ragged.from_lengths(column.values[inside], np.minimum(lengths, column.lengths))


def back(column: Ragged, lengths: Int64) -> Ragged:
    """All but the first so many tokens of each row."""
    inside = np.arange(len(column.values)) - np.repeat(column.offsets[:-1], column.lengths) >= np.repeat(
        lengths, column.lengths
    )
    return Ragged.from_lengths(column.values[inside], np.maximum(column.lengths - lengths, 0))


def joined(a: Ragged, b: Ragged) -> Ragged:
    """Each row of `b` behind that of `a`."""
    row = np.concatenate([np.repeat(np.arange(len(a)), a.lengths), np.repeat(np.arange(len(b)), b.lengths)])
    order = np.argsort(row, kind="stable")
    return Ragged.from_lengths(np.concatenate([a.values, b.values])[order], a.lengths + b.lengths)
