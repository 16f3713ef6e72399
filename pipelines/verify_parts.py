"""The parts of a data set that others made: Parquet files, or the files of what `datasets` saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.errors import InputError
from corruption.ragged import Int64, Ragged
from pipelines.formats.dataset import is_saved_dataset
from pipelines.readable import shown

INPUT, LABELS, ATTENTION = "input_ids", "labels", "attention_mask"
ORIGINALS = ("original_ids", "original_input_ids", "original")
"""Columns that hold the rows before they were corrupted, where there is one of them."""

_BATCH = 4096


class PartDamaged(RuntimeError):
    """A part that cannot be read to its end; the message says why."""


@dataclass(frozen=True)
class Part:
    """One file, or split, and how to read its rows a few thousand at a time."""

    name: str
    read: Callable[[], Iterator[pa.Table]]


@dataclass(frozen=True)
class Rows:
    """Some rows as they lie there, padding included. real: int64[rows], how many positions are no padding by the
    attention mask; None without one. original: the rows before corruption, where the set has them.
    """

    tokens: Ragged
    labels: Ragged
    real: Int64 | None
    original: Ragged | None

    def __len__(self) -> int:
        return len(self.tokens)


def parts_of(path: Path) -> list[Part]:
    """The parts, by name. Raises InputError when there is nothing to read."""
    where = f"data set {shown(path)}"
    if path.is_file():
        return [Part(path.name, lambda: _parquet(path))]
    if not path.is_dir():
        raise InputError(where, "the folder is not there", "give a folder of Parquet files, or one that datasets saved")
    if is_saved_dataset(str(path)):
        folders = [path]
        if (path / "dataset_dict.json").is_file():
            folders = [path / name for name in json.loads((path / "dataset_dict.json").read_text("utf-8"))["splits"]]
        return [part for folder in folders for part in _saved(folder, path)]
    files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith("."))
    if not files:
        given = "it holds neither Parquet files nor what datasets saved"
        raise InputError(where, given, "give a data set with the columns input_ids and labels")
    return [Part(str(file.relative_to(path)), lambda file=file: _parquet(file)) for file in files]  # type: ignore[misc]


def rows_of(table: pa.Table, where: str) -> Rows:
    """The columns an audit reads. Raises InputError when one is missing or holds no lists of integers."""
    for name in (INPUT, LABELS):
        if name not in table.column_names:
            given = f"it has the columns {', '.join(table.column_names)}"
            raise InputError(where, given, f"give a data set with {INPUT} and {LABELS}")
        if not _is_list(table[name].type):
            raise InputError(where, f"{name} is {table[name].type}", "give lists of token ids")
    tokens = _ragged(table[INPUT])
    real = None
    if ATTENTION in table.column_names:
        mask = _ragged(table[ATTENTION])
        if not np.array_equal(mask.lengths, tokens.lengths):
            raise InputError(where, f"{ATTENTION} is not as long as {INPUT}", "give one number for each token")
        ends = np.append(0, np.cumsum(mask.values == 1))
        real = ends[mask.offsets[1:]] - ends[mask.offsets[:-1]]
    original = next((_ragged(table[name]) for name in ORIGINALS if name in table.column_names), None)
    if original is not None and not np.array_equal(original.lengths, tokens.lengths):
        original = None
    labels = _ragged(table[LABELS])
    if np.array_equal(labels.offsets, tokens.offsets):
        labels = tokens.with_values(labels.values)
    return Rows(tokens, labels, real, original)


def largest(parts: list[Part]) -> int:
    """The largest id in the input or the labels of any part, as far as they can be read."""
    found = 0
    for part in parts:
        try:
            for table in part.read():
                for name in (INPUT, LABELS):
                    if name in table.column_names and _is_list(table[name].type):
                        found = max(found, int(_ragged(table[name]).values.max(initial=0)))
        except PartDamaged:
            continue
    return found


def _ragged(column: pa.ChunkedArray) -> Ragged:
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    return Ragged.from_arrow(column)


def _is_list(kind: pa.DataType) -> bool:
    some = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(some and pa.types.is_integer(kind.value_type))


def _parquet(path: Path) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH, use_threads=False):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise PartDamaged(f"it cannot be read ({_line(error)})") from error


def _saved(folder: Path, top: Path) -> Iterator[Part]:
    """The files of one split; the split as a whole where it is a choice of their rows."""
    state = json.loads((folder / "state.json").read_text("utf-8"))
    if state.get("_indices_files") or state.get("_indices_data_files"):
        yield Part(folder.name, lambda: _chosen(folder))
        return
    for file in state["_data_files"]:
        path = folder / file["filename"]
        yield Part(str(path.relative_to(top)), lambda path=path: _arrow(path))  # type: ignore[misc]


def _arrow(path: Path) -> Iterator[pa.Table]:
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise PartDamaged(f"it cannot be read ({_line(error)})") from error


def _chosen(folder: Path) -> Iterator[pa.Table]:
    import datasets

    rows = datasets.load_from_disk(str(folder)).with_format("arrow")
    for start in range(0, len(rows), _BATCH):
        yield rows[start : start + _BATCH]


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
