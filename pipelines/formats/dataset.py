"""Data sets of the Hugging Face `datasets` library: folders it saved, and names on its hub."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from corruption.errors import InputError
from pipelines.documents import Document, Note, Reject
from pipelines.formats.columns import columns_to_documents, text_fault
from pipelines.formats.parquet import one_line
from pipelines.formats.unit import Source, Unit

HUB = "hub:"
_BATCH_ROWS = 128


def is_saved_dataset(folder: str) -> bool:
    """Whether `datasets` saved a data set, or several splits of one, in this folder."""
    has = [
        os.path.isfile(os.path.join(folder, name))
        for name in ("dataset_dict.json", "state.json", "dataset_info.json")
    ]
    return has[0] or (has[1] and has[2])


def open_dataset(spec: Source, path: str) -> Any:
    """The `datasets.Dataset` of a saved folder or, for a path "hub:<name>", of the hub (downloaded once, then
    cached).

    Raises:
        InputError: there is no such data set, configuration or split.
        ConnectionError: the hub cannot be reached.
    """
    import datasets

    if path.startswith(HUB):
        name = path.removeprefix(HUB)
        try:
            return datasets.load_dataset(name, spec.config, split=spec.split, revision=spec.revision)
        except (ValueError, FileNotFoundError) as error:
            raise InputError(
                "corpus.sources", f"{path}: {one_line(error)}", "check name, config, split, revision"
            ) from error
    loaded = datasets.load_from_disk(path)
    if isinstance(loaded, datasets.DatasetDict):
        if spec.split not in loaded:
            raise InputError(
                "corpus.sources",
                f"{path} has no split {spec.split!r}",
                f"set split to one of {sorted(loaded)}",
            )
        return loaded[spec.split]
    if "split" in spec.model_fields_set and str(loaded.split) != spec.split:
        given = f"{path} holds the split {loaded.split}, not {spec.split!r}"
        raise InputError("corpus.sources", given, "leave split out, it was saved alone")
    return loaded


def arrow_schema(dataset: Any) -> pa.Schema:
    """The data set's columns as an Arrow schema; class labels count as text."""
    return dataset.features.arrow_schema


def row_ranges(dataset: Any, unit_bytes: int) -> list[tuple[int, int]]:
    """Ranges (first row, end row) of about `unit_bytes` of Arrow data."""
    rows, size = len(dataset), dataset.data.nbytes
    step = max(1, rows * unit_bytes // max(size, 1))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def read_dataset(unit: Unit) -> Iterator[Document | Reject | Note]:
    """The documents of a data set; labels that are class numbers become their names, -1 becomes no label.

    Raises:
        ConnectionError: the hub cannot be reached; that is no fault of the data, so the task may be tried
            again.
    """
    try:
        dataset = open_dataset(unit.spec, unit.path)
        first, end = unit.part or (0, len(dataset))
        if first < end and (why := text_fault(unit.spec, arrow_schema(dataset))):
            yield Reject(unit.relative, "", *why, rows=end - first)
            return
        columns = [name for name in unit.spec.column_names() if name in dataset.column_names]
        names = getattr(dataset.features.get(unit.spec.label or ""), "names", None)
        rows = dataset.select_columns(columns).with_format("arrow")
    except ConnectionError:
        raise
    except (OSError, pa.ArrowException, InputError, ValueError) as error:
        yield Reject(unit.relative, "", "unreadable", one_line(error))
        return
    for start in range(first, end, _BATCH_ROWS):
        stop = min(start + _BATCH_ROWS, end)
        try:
            table = rows[start:stop]
        except (OSError, pa.ArrowException, MemoryError) as error:
            yield Reject(
                unit.relative, f"rows {start} to {stop - 1}", "corrupt", one_line(error), rows=stop - start
            )
            continue
        yield from columns_to_documents(_named_labels(table, unit.spec.label, names), unit, start)


def _named_labels(table: pa.Table, column: str | None, names: list[str] | None) -> pa.Table:
    if column is None or names is None:
        return table
    numbers = table.column(column).to_pylist()
    labels = [
        names[number] if number is not None and 0 <= number < len(names) else None for number in numbers
    ]
    return table.set_column(table.column_names.index(column), column, pa.array(labels, pa.string()))
