"""Plain text: a document is a file, a line, or a block of lines between blank lines."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.documents import Document, Note, Reject
from pipelines.formats.bytestream import Fault, as_utf8, byte_range, pieces
from pipelines.formats.lines import lines
from pipelines.formats.rows import decode
from pipelines.formats.unit import Unit

_BOM = "\ufeff"
_Items = Iterator[Document | Reject | Note]


def read_text(unit: Unit) -> _Items:
    """The documents of a plain text file, as the source's `documents` says.

    U+FEFF at the start of the file or of a line (of concatenated files) is dropped; CR LF becomes LF in texts
    of several lines. Nothing else changes.
    """
    return {"file": _whole, "line": _each_line, "block": _blocks}[unit.spec.documents](unit)


def unit_lines(unit: Unit) -> Iterator[bytes | int]:
    """The lines of a unit, whole file or part; see `lines`.

    Raises:
        Fault: the file is broken; after every line before that.
    """
    limit = unit.spec.max_document_bytes
    if unit.part is None:
        return lines(as_utf8(pieces(unit.path, unit.codec)), limit)
    start, end, _ = unit.part
    stream = byte_range(unit.path, start, end)
    return lines(stream if start else as_utf8(stream), limit)


def rest_of_file(unit: Unit, fault: Fault, rows: int) -> Reject:
    """The Reject for what follows a fault in a file of which `rows` rows were read."""
    return Reject(
        unit.relative, "", fault.reason, f"{fault.detail}; {rows} rows were read before, the rest is lost"
    )


def _each_line(unit: Unit) -> _Items:
    first = unit.part[2] if unit.part else 0
    row = first
    try:
        for line in unit_lines(unit):
            yield from _document(unit, row, f"line {row + 1}", line, blank="blank")
            row += 1
    except Fault as fault:
        yield rest_of_file(unit, fault, row - first)


def _blocks(unit: Unit) -> _Items:
    block: list[bytes] = []
    number, size, begin, row = 0, 0, 0, 0
    fault = None
    stream = unit_lines(unit)
    while True:
        try:
            line: bytes | int | None = next(stream, None)
        except Fault as found:
            line, fault = None, found
        if line is None or line == b"" or (isinstance(line, bytes) and _is_blank(line)):
            # A fault inside a block takes the block with it, unless all before the fault is intact.
            if size and (fault is None or fault.whole):
                text: bytes | int = size - 1 if size - 1 > unit.spec.max_document_bytes else b"\n".join(block)
                yield from _document(unit, row, f"line {begin + 1}", text, blank="empty")
                row += 1
            block, size = [], 0
            if line is None:
                break
        else:
            begin = begin if size else number
            size += (line if isinstance(line, int) else len(line)) + 1
            if isinstance(line, bytes) and size - 1 <= unit.spec.max_document_bytes:
                block.append(line)
        number += 1
    if fault is not None:
        yield rest_of_file(unit, fault, row)


def _whole(unit: Unit) -> _Items:
    limit = unit.spec.max_document_bytes
    held: list[bytes] = []
    size = 0
    try:
        for piece in as_utf8(pieces(unit.path, unit.codec)):
            size += len(piece)
            if size <= limit:
                held.append(piece)
    except Fault as fault:
        if fault.whole and size <= limit:
            yield from _document(unit, 0, "", b"".join(held).replace(b"\r\n", b"\n"), blank="empty")
            yield rest_of_file(unit, fault, 1)
        else:
            yield Reject(
                unit.relative, "", fault.reason, f"{fault.detail}; it is one document, so all of it is lost"
            )
        return
    yield from _document(
        unit, 0, "", b"".join(held).replace(b"\r\n", b"\n") if size <= limit else size, blank="empty"
    )


def _is_blank(line: bytes) -> bool:
    try:
        return line.decode().lstrip(_BOM).isspace()
    except UnicodeDecodeError:
        return False


def _document(unit: Unit, row: int, position: str, raw: bytes | int, blank: str) -> _Items:
    file = unit.relative
    if isinstance(raw, int):
        detail = f"it has {raw} bytes, more than {unit.spec.max_document_bytes}"
        yield Reject(file, position, "too_large", detail)
        return
    notes: list[tuple[str, str]] = []
    text = decode(raw, unit.spec, notes)
    if text is None:
        yield Reject(file, position, "invalid_utf8", "it is not UTF-8")
        return
    text = text.removeprefix(_BOM).replace(f"\n{_BOM}", "\n")
    if not text or text.isspace():
        expected = blank == "blank"
        yield Reject(
            file, position, blank, "there is nothing in it" if expected else "the file is blank", expected
        )
        return
    for reason, detail in notes:
        yield Note(file, position, reason, detail)
    yield Document(unit.row_key(row), text)
