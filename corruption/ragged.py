"""Ragged columns: flat values plus offsets, zero-copy over Arrow list columns, and the batch made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from corruption.errors import InputError
from corruption.schema import FOREIGN, REASONS

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]


def frozen(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A read-only view: kernels then see one array type, whether Arrow or NumPy owns the memory."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True)
def copy_rows(values: Int32, starts: Int64, lengths: Int64, places: Int64, out: Int32) -> None:
    """Copy `lengths[i]` values from `starts[i]` on to `places[i]` of `out`, for each i."""
    for row in range(len(starts)):
        source = values[starts[row] : starts[row] + lengths[row]]
        target = out[places[row] : places[row] + lengths[row]]
        # This loop becomes vector instructions; assigning a slice does not.
        for i in range(len(source)):
            target[i] = source[i]


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: row i is `values[offsets[i]:offsets[i + 1]]`.

    `values` is int32[T], `offsets` int64[rows + 1], never decreasing, from 0 to T. Both are read-only.
    """

    values: Int32
    offsets: Int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64:
        """int64[rows]."""
        return np.diff(self.offsets)

    def row(self, i: int) -> Int32:
        """int32[length of row i], a view."""
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def with_values(self, values: Int32) -> Ragged:
        """Other values under the same offsets."""
        return Ragged(frozen(values), self.offsets)  # type: ignore[arg-type]

    @staticmethod
    def of(values: Int32, offsets: Int64) -> Ragged:
        """From two arrays that nobody will write to again; dtypes are converted where they differ."""
        return Ragged(
            frozen(np.ascontiguousarray(values, dtype=np.int32)),  # type: ignore[arg-type]
            frozen(np.ascontiguousarray(offsets, dtype=np.int64)),  # type: ignore[arg-type]
        )

    @staticmethod
    def from_lengths(values: Int32, lengths: npt.NDArray[np.integer]) -> Ragged:
        """From flat values and the length of each row."""
        return Ragged.of(values, offsets_of(lengths))

    @staticmethod
    def from_rows(rows: list[list[int]] | list[Int32]) -> Ragged:
        """From Python lists or arrays; for tests, previews and doors that see few rows."""
        lengths = np.array([len(row) for row in rows], np.int64)
        values = (
            np.concatenate([np.asarray(row, np.int32) for row in rows]) if rows else np.empty(0, np.int32)
        )
        return Ragged.from_lengths(values.astype(np.int32), lengths)

    @staticmethod
    def from_arrow(column: pa.Array | pa.ChunkedArray) -> Ragged:
        """From an Arrow list or large_list of integers; one chunk of int32 without null rows is not copied.

        A sliced array is read through its offsets, so only its own rows are seen; a null row reads as empty.
        Raises InputError when an item is null, is not an integer, or does not fit into int32.
        """
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if column.null_count:
            lengths = column.value_lengths().fill_null(0).to_numpy()
            return Ragged.from_lengths(_int32(column.flatten()), lengths)
        offsets = column.offsets.to_numpy().astype(np.int64)
        values = _int32(column.values.slice(offsets[0], offsets[-1] - offsets[0]))
        if offsets[0]:
            offsets = offsets - offsets[0]
        return Ragged.of(values, offsets)

    def to_arrow(self) -> pa.Array:
        """list<int32>, or large_list<int32> where the offsets need 64 bits."""
        values = pa.array(self.values, pa.int32())
        if self.offsets[-1] >= 2**31:
            return pa.LargeListArray.from_arrays(pa.array(self.offsets, pa.int64()), values)
        return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32), pa.int32()), values)

    def take(self, rows: npt.NDArray[np.integer]) -> Ragged:
        """The rows named, in that order."""
        lengths = self.lengths[rows]
        offsets = offsets_of(lengths)
        values = np.empty(offsets[-1], np.int32)
        copy_rows(self.values, self.offsets[rows], lengths, offsets[:-1], values)
        return Ragged.of(values, offsets)


def _int32(values: pa.Array) -> Int32:
    """The items as they are, or converted with every one checked: a wrapped id would be another token."""
    if values.null_count:
        raise InputError("list column", f"{values.null_count} of its items are null", "give integers only")
    if values.type != pa.int32():
        try:
            values = values.cast(pa.int32())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError("list column", str(error), "give integers that fit into int32") from error
    items: Int32 = values.to_numpy()
    return items


def offsets_of(lengths: npt.NDArray[np.integer]) -> Int64:
    """int64[rows + 1]: where each row starts, and the total."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def per_row(values: npt.NDArray[np.integer]) -> Ragged:
    """A column of one number for each row."""
    return Ragged.of(values.astype(np.int32), np.arange(len(values) + 1))


@dataclass(frozen=True)
class Batch:
    """Rows on their way through a chain: a key for each, and ragged columns.

    `columns["tokens"]` is the input so far. Columns whose offsets are the same object as its offsets are
    aligned with it and stay so through `edit`. Without a column "origin" the tokens still stand where they
    stood in the passage. copies: uint64[rows], zeros unless given. original: the tokens as they came, never
    changed. unusable: int8[rows], 0 or 1 + the place in `schema.REASONS` of why the row cannot be used; such
    a row is left as it is and dropped, counted, when examples are framed.
    """

    keys: UInt64
    columns: Mapping[str, Ragged]
    copies: UInt64 = field(default_factory=lambda: np.zeros(0, np.uint64))
    original: Ragged = field(default=None)  # type: ignore[assignment]
    unusable: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))

    def __post_init__(self) -> None:
        if len(self.copies) == 0 and len(self.keys):
            object.__setattr__(self, "copies", np.zeros(len(self.keys), np.uint64))
        if self.original is None:
            object.__setattr__(self, "original", self.tokens)
        if len(self.unusable) == 0 and len(self.keys):
            object.__setattr__(self, "unusable", np.zeros(len(self.keys), np.int8))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def tokens(self) -> Ragged:
        """The corrupted input so far."""
        return self.columns["tokens"]

    def aligned(self, name: str) -> bool:
        """Whether the column moves with the tokens."""
        return self.columns[name].offsets is self.tokens.offsets

    def put(self, **columns: Ragged) -> Batch:
        """The same rows with these columns added or replaced."""
        return replace(self, columns={**self.columns, **columns})

    def take(self, rows: npt.NDArray[np.integer]) -> Batch:
        """The rows named, in that order, every column; what was aligned still is."""
        taken: dict[int, Ragged] = {}
        columns = {}
        for name, column in self.columns.items():
            chosen = column.take(rows)
            first = taken.setdefault(id(column.offsets), chosen)
            columns[name] = first.with_values(chosen.values)
        original = columns["tokens"] if self.original is self.tokens else self.original.take(rows)
        return Batch(self.keys[rows], columns, self.copies[rows], original, self.unusable[rows])

    def mark(self, rows: npt.NDArray[np.bool_], reason: str) -> Batch:
        """The rows where `rows` is true marked as unusable; a row keeps its first reason."""
        code = 1 + REASONS.index(reason)
        return replace(self, unusable=np.where(rows & (self.unusable == 0), np.int8(code), self.unusable))

    @property
    def usable(self) -> npt.NDArray[np.bool_]:
        """bool[rows]: which rows no step has marked."""
        found: npt.NDArray[np.bool_] = self.unusable == 0
        return found

    def origin(self) -> Ragged:
        """int32, aligned: the place of each token in the original passage, -1 if it was invented."""
        if "origin" in self.columns:
            return self.columns["origin"]
        tokens = self.tokens
        places = np.arange(len(tokens.values)) - np.repeat(tokens.offsets[:-1], tokens.lengths)
        return tokens.with_values(places.astype(np.int32))

    @staticmethod
    def from_arrow(table: pa.Table, names: tuple[str, ...], copies: UInt64 | None = None) -> Batch:
        """The passages of a table as a batch: `key` and the named list columns.

        All are aligned with `tokens` but those of `schema.FOREIGN`, which are aligned with each other.
        Raises ValueError when a column that should be aligned is not.
        """
        columns = {"tokens": Ragged.from_arrow(table["tokens"])}
        for name in names:
            if name == "tokens":
                continue
            column = Ragged.from_arrow(table[name])
            lead = FOREIGN[0] if name in FOREIGN else "tokens"
            if name == lead:
                columns[name] = column
                continue
            offsets = columns[lead].offsets
            if not np.array_equal(column.offsets, offsets):
                raise ValueError(f"column {name} is not aligned with {lead}")
            columns[name] = Ragged(column.values, offsets)
        keys = table["key"].combine_chunks() if table["key"].num_chunks != 1 else table["key"].chunk(0)
        return Batch(
            keys.to_numpy(zero_copy_only=False), columns, np.zeros(0, np.uint64) if copies is None else copies
        )
