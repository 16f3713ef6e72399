"""Framing and padding: the only place that adds special tokens, and that makes int64 of int32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.errors import InputError
from corruption.ragged import Batch, Int32, Int64, Ragged
from corruption.schema import COLUMNS, IGNORE
from corruption.vocabulary import Vocabulary


@njit(inline="always")
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """The source to the front of the target. This loop becomes vector instructions; assigning a slice does not."""
    for i in range(len(source)):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def _surround(values: Int32, offsets: Int64, first: int, last: int, out: Int32) -> None:
    for row in range(len(offsets) - 1):
        a, b = offsets[row], offsets[row + 1]
        start, end = a + 2 * row, b + 2 * row + 1
        out[start] = first
        _copy(values[a:b], out[start + 1 : end])
        out[end] = last


@dataclass(frozen=True)
class SingleSegment:
    """[CLS] tokens [SEP]: one segment, as BERT, RoBERTa and ModernBERT read it."""

    columns: tuple[str, ...] = ("input_ids", "labels")
    extra: int = 2
    """Special tokens added to each example."""

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks [CLS] and BOS, [SEP] and EOS, or the pad token."""
        _edge(vocabulary, "cls", "bos")
        _edge(vocabulary, "sep", "eos")
        vocabulary.need("pad", "padding")

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns, ragged int32 under one offsets array."""
        tokens = batch.tokens
        offsets = tokens.offsets + 2 * np.arange(len(tokens.offsets))
        framed: dict[str, Ragged] = {}
        for name in self.columns:
            if name == "input_ids":
                column, first, last = tokens, _edge(vocabulary, "cls", "bos"), _edge(vocabulary, "sep", "eos")
            elif name == "origin":
                column, first, last = batch.origin(), -1, -1
            elif name in batch.columns:
                column = batch.columns[name]
                first = last = int(COLUMNS[name].pad) if name in COLUMNS else IGNORE
            else:
                raise InputError(
                    "objective", f"no corruption provides the column {name!r}", "add one to the chain"
                )
            out = np.empty(len(column.values) + 2 * len(batch), np.int32)
            _surround(column.values, column.offsets, first, last, out)
            framed[name] = (
                Ragged.of(out, offsets) if not framed else next(iter(framed.values())).with_values(out)
            )
        return framed


def _edge(vocabulary: Vocabulary, role: str, instead: str) -> int:
    found = getattr(vocabulary, role)
    if found is None:
        found = getattr(vocabulary, instead)
    return int(found) if found is not None else vocabulary.need(role, "framing one segment")


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


def padded(
    columns: Mapping[str, Ragged], vocabulary: Vocabulary, width: int | None = None
) -> dict[str, Int64]:
    """Framed columns as padded int64 arrays, plus `attention_mask`."""
    lengths = next(iter(columns.values())).lengths
    out = {}
    for name, column in columns.items():
        fill = COLUMNS[name].pad if name in COLUMNS else IGNORE
        number = vocabulary.need("pad", "padding") if fill == "pad" else int(fill)
        out[name] = pad(column.values, lengths, number, width)
    out["attention_mask"] = attention_mask(lengths, width)
    return out


FRAMES = {"bert": SingleSegment}
"""How examples are framed, by the name an objective asks for."""
