"""Padding: the only place that makes int64 of int32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.ragged import Int32, Int64, Ragged
from corruption.schema import COLUMNS
from corruption.vocabulary import Vocabulary


@njit(inline="always")
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """The source to the front of the target. This loop becomes vector instructions; assigning a slice does not."""
    for i in range(len(source)):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def _pad(values: Int32, lengths: Int64, fill: int, out: Int64) -> None:
    start = 0
    for row in range(len(lengths)):
        n = lengths[row]
        _copy(values[start : start + n], out[row])
        out[row, n:] = fill
        start += n


def pad(values: Int32, lengths: npt.NDArray[np.integer], fill: int, width: int | None = None) -> Int64:
    """int64[rows, width] from flat int32[T] and the rows' lengths; `width` defaults to the longest row.

    Raises ValueError when a row is longer than `width`, or the lengths do not add up to T.
    """
    rows: Int64 = lengths.astype(np.int64, copy=False)
    longest = int(rows.max()) if len(rows) else 0
    width = longest if width is None else width
    if longest > width or int(rows.sum()) != len(values):
        raise ValueError(f"rows of up to {longest}, {int(rows.sum())} of {len(values)} tokens, width {width}")
    out = np.empty((len(rows), width), np.int64)
    _pad(values, rows, fill, out)
    return out


@njit(cache=True, nogil=True)
def _visible(lengths: Int64, out: Int64) -> None:
    for row in range(len(lengths)):
        for i in range(out.shape[1]):
            out[row, i] = 1 if i < lengths[row] else 0


def attention_mask(lengths: npt.NDArray[np.integer], width: int | None = None) -> Int64:
    """int64[rows, width]: 1 on real positions, from the lengths and never from the ids."""
    rows: Int64 = lengths.astype(np.int64, copy=False)
    width = (int(rows.max()) if len(rows) else 0) if width is None else width
    out = np.empty((len(rows), width), np.int64)
    _visible(rows, out)
    return out


MASKS = {"input_ids": "attention_mask", "positive_input_ids": "positive_attention_mask"}
"""Framed column -> the mask that is 1 on its real positions."""


def padded(
    columns: Mapping[str, Ragged], vocabulary: Vocabulary, widths: Mapping[str, int] | None = None
) -> dict[str, Int64]:
    """Framed columns as int64 arrays: [rows, width] for one number a token, [rows] for one an example.

    `attention_mask` (and `positive_attention_mask`) come with them. widths: of columns that are to have a
    fixed one; the others are as wide as their longest row.
    """
    widths = widths or {}
    out = {}
    for name, column in columns.items():
        if COLUMNS[name].per == "row":
            out[name] = column.values.astype(np.int64)
            continue
        fill = COLUMNS[name].pad
        number = vocabulary.need("pad", "padding") if fill == "pad" else int(fill)
        out[name] = pad(column.values, column.lengths, number, widths.get(name))
    for name, mask in MASKS.items():
        if name in columns:
            out[mask] = attention_mask(columns[name].lengths, widths.get(name))
    return out
