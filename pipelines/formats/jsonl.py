"""JSON lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pipelines.documents import Document, Note, Reject
from pipelines.formats.bytestream import Fault
from pipelines.formats.rows import decode, rows_to_documents
from pipelines.formats.text import rest_of_file, unit_lines
from pipelines.formats.unit import Unit

ARRAY = "this is a JSON array, expected one object per line"
PRETTY = "this is one JSON object over several lines, expected one object per line"


def read_jsonl(unit: Unit) -> Iterator[Document | Reject | Note]:
    """The documents of a JSON lines file; rows are its lines, from 0, blank ones included.

    Reasons of rejects: blank (expected), invalid_utf8, invalid_json, not_object, too_large and those of
    `rows_to_documents`; json_array and json_pretty for a file of another kind.
    """
    first = unit.part[2] if unit.part else 0
    row, started = first, first > 0
    try:
        for line in unit_lines(unit):
            if not started and isinstance(line, bytes) and line.strip():
                started = True
                if other := not_lines(line):
                    yield Reject(unit.relative, "", *other)
                    return
            yield from _row(line, unit, row)
            row += 1
    except Fault as fault:
        yield rest_of_file(unit, fault, row - first)


def not_lines(line: bytes) -> tuple[str, str] | None:
    """The (reason, detail) if a file whose first line with anything in it is this one is not JSON lines."""
    line = line.strip()
    if line.startswith(b"["):
        return "json_array", ARRAY
    if line.startswith(b"{") and line.endswith((b"{", b"[")):
        return "json_pretty", PRETTY
    return None


def _row(line: bytes | int, unit: Unit, row: int) -> Iterator[Document | Reject | Note]:
    file, position = unit.relative, f"line {row + 1}"
    if isinstance(line, int):
        detail = f"it has {line} bytes, more than {unit.spec.max_document_bytes}"
        yield Reject(file, position, "too_large", detail)
        return
    notes: list[tuple[str, str]] = []
    text = decode(line, unit.spec, notes)
    if text is None:
        yield Reject(file, position, "invalid_utf8", "it is not UTF-8")
        return
    text = text.removeprefix("\ufeff")  # files that were put together bring theirs along
    if not text or text.isspace():
        yield Reject(file, position, "blank", "there is nothing in it", expected=True)
        return
    try:
        value = json.loads(text)
    except RecursionError:
        yield Reject(file, position, "invalid_json", "it is nested too deeply")
        return
    except ValueError as error:  # also of numbers with too many digits
        yield Reject(file, position, "invalid_json", str(error)[:200])
        return
    if not isinstance(value, dict):
        yield Reject(file, position, "not_object", "it is JSON, but not an object")
        return
    for item in rows_to_documents(value, unit, row, position):
        if isinstance(item, Document):
            yield from (Note(file, position, reason, detail) for reason, detail in notes)
        yield item
