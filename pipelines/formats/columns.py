"""Arrow columns as rows, and the columns a source names checked against the schemas of its files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from corruption.errors import InputError
from pipelines.documents import Document, Note, Reject
from pipelines.formats.rows import rows_to_documents
from pipelines.formats.unit import Source, Unit


def columns_to_documents(
    batch: pa.RecordBatch | pa.Table, unit: Unit, row: int
) -> Iterator[Document | Reject | Note]:
    """The documents of a batch of rows, the first of which is row `row` of its file."""
    names = batch.column_names
    for values in zip(*(_values(column) for column in batch.columns)):
        yield from rows_to_documents(dict(zip(names, values)), unit, row, f"row {row}")
        row += 1


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # Arrow checks nothing on reading; each row is judged by itself
        return list(column.cast(_as_bytes(column.type)).to_pylist())


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_as_bytes(kind.value_type))
    if pa.types.is_dictionary(kind):
        return _as_bytes(kind.value_type)
    return pa.large_binary()


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column of this type may hold text; a column without any value may."""
    if pa.types.is_dictionary(kind):
        return holds_text(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
    return any(
        test(kind) for test in (*tests, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_null)
    )


def text_fault(spec: Source, schema: pa.Schema) -> tuple[str, str] | None:
    """The (reason, detail) if no row of a file with this schema can give a document."""
    if schema.get_field_index(spec.text) < 0:
        return "missing", f"there is no one column {spec.text!r}; there are {_listed(schema.names)}"
    if not holds_text(kind := schema.field(spec.text).type):
        return "not_text", f"column {spec.text!r} is {kind}, not text"
    return None


def check_columns(spec: Source, schemas: Sequence[pa.Schema]) -> None:
    """Refuse a source whose named columns are in none of its files.

    Raises:
        InputError: a column is in no schema (with the nearest name), or the text column holds text in none.
    """
    present = dict.fromkeys(name for schema in schemas for name in schema.names)
    for option in ("text", "id", "title", "label", "words"):
        name = getattr(spec, option)
        if name is not None and name not in present:
            near = difflib.get_close_matches(name, present, 1, 0.5)
            guess = (
                f"did you mean {near[0]!r}?" if near else f"set {option} to one of {_listed(list(present))}"
            )
            raise InputError("corpus.sources", f"{option}: no file has a column {name!r}", guess)
    kinds = [schema.field(spec.text).type for schema in schemas if schema.get_field_index(spec.text) >= 0]
    if kinds and not any(map(holds_text, kinds)):
        given = f"text: column {spec.text!r} is {kinds[0]}, not text"
        texts = [name for name in present if any(_is_text(schema, name) for schema in schemas)]
        raise InputError("corpus.sources", given, f"name a column of strings ({_listed(texts)})")


def _is_text(schema: pa.Schema, name: str) -> bool:
    return schema.get_field_index(name) >= 0 and holds_text(schema.field(name).type)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return (shown or "none") + (", ..." if len(names) > 12 else "")
