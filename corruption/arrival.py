"""How columns arrive: as Arrow, Python lists, arrays or tensors; and the ragged columns and keys made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corruption.errors import InputError
from corruption.noise import hash64
from corruption.ragged import Ragged, UInt64, offsets_of

_TOP = np.iinfo(np.int32)
_MASK64 = (1 << 64) - 1
_LISTS = "lists of whole numbers that fit into int32"

NO_WORD = -1
"""What None becomes in a column of word ids."""


def columns_of(rows: Any) -> Mapping[str, Any]:
    """Rows as columns by name.

    rows: an Arrow table, a mapping of columns, or a list of rows, each a mapping or bare ids. Raises InputError when
    a row lacks a column that the first one has.
    """
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return {name: rows[name] for name in rows.column_names}
    if isinstance(rows, Mapping):
        return rows
    rows = list(rows)
    if not rows:
        raise InputError("batch", "it has no rows", "give at least one")
    if not isinstance(rows[0], Mapping):
        return {"input_ids": rows}
    for i, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            name = sorted(set(row.keys()) ^ set(rows[0].keys()))[0]
            here, there = ("no column", "one") if name in rows[0] else ("a column", "none")
            given = f"it has {here} {name!r} and row 0 has {there}"
            raise InputError(f"row {i} of the batch", given, "give rows of equal columns")
    return {name: [row[name] for row in rows] for name in rows[0]}


def of_text(column: Any) -> bool:
    """Whether it is a column of strings, or of lists of strings."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        kind = column.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = kind.value_type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    item = next((row for row in column if row is not None), None)
    if isinstance(item, Sequence) and not isinstance(item, str):
        item = next((part for part in item if part is not None), None)
    return isinstance(item, str)


def ragged(column: Any, name: str, none: int | None = None) -> Ragged:
    """int32 rows of any column of lists. none: what a missing item becomes.

    Raises InputError naming the column when it is anything else, a row is missing, or an item is and `none` is not
    given.
    """
    try:
        if not isinstance(column, (pa.Array, pa.ChunkedArray)):
            rows = list(column)
            if any(hasattr(row, "__array__") for row in rows):
                return _stacked(rows, name)
            # Asked for int32, Arrow would cut 1.5 to 1; asked for nothing, it takes no rows to be of no type.
            column = pa.array(rows) if rows else pa.array(rows, pa.list_(pa.int32()))
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        kind = column.type
        if column.null_count:
            row = column.is_null().index(True).as_py()
            raise InputError(f"column {name}", f"row {row} of the batch is missing", "give a list, if an empty one")
        if pa.types.is_fixed_size_list(kind):
            column = column.cast(pa.list_(kind.value_type))
        elif not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise InputError(f"column {name}", f"it is of type {kind}", f"give {_LISTS}")
        if none is not None and column.flatten().null_count:
            filled = column.flatten().fill_null(none)
            lengths = column.value_lengths().to_numpy()
            column = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), filled)
        return Ragged.from_arrow(column)
    except InputError as error:
        raise InputError(f"column {name}", error.given, error.do) from None
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name}", str(error), f"give {_LISTS}") from error


def _stacked(rows: list[Any], name: str) -> Ragged:
    """From arrays or tensors, with every number checked: a wrapped id would be another token."""
    arrays = [np.asarray(row) for row in rows]
    for array in arrays:
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
            given = f"a row is an array of {array.dtype} with {array.ndim} dimensions"
            raise InputError(f"column {name}", given, f"give {_LISTS}")
    flat = np.concatenate([array.astype(np.int64) for array in arrays])
    if len(flat) and (flat.min() < _TOP.min or flat.max() > _TOP.max):
        raise InputError(f"column {name}", "a number does not fit into int32", f"give {_LISTS}")
    return Ragged.from_lengths(flat.astype(np.int32), np.array([array.size for array in arrays], np.int64))


def numbers(column: Any, name: str) -> UInt64:
    """uint64[rows] of one whole number each, a negative one modulo 2 ** 64; strings by `noise.hash64`.

    Raises InputError naming the column when a row has none, or something else.
    """
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_integer(column.type) and not column.null_count:
            whole: UInt64 = column.to_numpy().astype(np.uint64)
            return whole
        column = column.to_pylist()
    found = []
    for i, value in enumerate(column):
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise InputError(f"column {name}", f"row {i} of the batch has {value!r}", "give a whole number or a string")
        found.append(hash64(value) if isinstance(value, str) else value & _MASK64)
    return np.array(found, np.uint64)


def word_starts(word_ids: Ragged) -> Ragged:
    """1 where a word starts: at a row's first token, where the word's id changes, and at each token of no word."""
    values = word_ids.values
    starts = np.ones(len(values), np.int32)
    starts[1:] = (values[1:] != values[:-1]) | (values[1:] < 0)
    begins = word_ids.offsets[:-1]
    starts[begins[begins < len(starts)]] = 1
    return word_ids.with_values(starts)


def plain_numbers(column: Any) -> npt.NDArray[np.generic] | None:
    """A column of one number a row as int64, float32 or bool; None where it is anything else or too large."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = column.to_pylist()
    values = [value.item() if getattr(value, "ndim", None) == 0 else value for value in column]
    kinds: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float32}
    if not all(type(value) in kinds for value in values):
        return None
    present = {type(value) for value in values}
    if bool in present and len(present) > 1:
        return None
    kind = kinds[float if float in present else next(iter(present), int)]
    try:
        return np.array(values, kind)
    except OverflowError:
        return None
