"""Parquet files, read a row group at a time with the check sums of their pages verified."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import pyarrow as pa

from pipelines.documents import Document, Note, Reject
from pipelines.formats.bytestream import PIECE, Fault, pieces
from pipelines.formats.columns import columns_to_documents, text_fault
from pipelines.formats.unit import Unit

_BATCH_ROWS = 128  # few, because documents may be long
_ERRORS = (OSError, pa.ArrowException, MemoryError)  # a damaged length asks for absurd amounts of memory


def read_parquet(unit: Unit) -> Iterator[Document | Reject | Note]:
    """The documents of a Parquet file; a row group that cannot be read is rejected and the others are used.

    Reasons of rejects: those of `rows_to_documents`, `corrupt` for a file or the rest of a row group, and
    those of an archive around it.
    """
    try:
        with _file(unit) as file:
            yield from _read(unit, file)
    except Fault as fault:
        yield Reject(unit.relative, "", fault.reason, f"{fault.detail}; Parquet cannot be read in part")
    except OSError as error:
        yield Reject(unit.relative, "", "unreadable", error.strerror or str(error))


def _file(unit: Unit) -> BinaryIO:
    if not unit.codec:
        return open(unit.path, "rb")
    # Parquet starts at its end, so an archive of one has to be unpacked first.
    file = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    try:
        for piece in pieces(unit.path, unit.codec):
            file.write(piece)
    except BaseException:
        file.close()
        raise
    return cast(BinaryIO, file)


def open_parquet(file: BinaryIO) -> Any:
    """A pyarrow ParquetFile that verifies page check sums and reads columns piece by piece."""
    from pyarrow.parquet import ParquetFile

    return ParquetFile(file, page_checksum_verification=True, buffer_size=PIECE)


def _read(unit: Unit, file: BinaryIO) -> Iterator[Document | Reject | Note]:
    try:
        parquet = open_parquet(file)
    except _ERRORS as error:
        yield Reject(unit.relative, "", "corrupt", f"its footer cannot be read: {one_line(error)}")
        return
    first, end, row = unit.part or (0, parquet.metadata.num_row_groups, 0)
    sizes = [parquet.metadata.row_group(number).num_rows for number in range(first, end)]
    if sum(sizes) and (why := text_fault(unit.spec, parquet.schema_arrow)):
        yield Reject(unit.relative, "", *why, rows=sum(sizes))
        return
    columns = [name for name in unit.spec.column_names() if name in parquet.schema_arrow.names]
    for number, size in zip(range(first, end), sizes):
        done = 0
        try:
            for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[number], columns=columns):
                yield from columns_to_documents(batch, unit, row + done)
                done += batch.num_rows
        except _ERRORS as error:
            place = f"row group {number}, from row {row + done}"
            yield Reject(unit.relative, place, "corrupt", one_line(error), rows=max(1, size - done))
        row += size


def row_group_ranges(parquet: Any, unit_bytes: int) -> list[tuple[int, int, int]]:
    """Ranges (first row group, end row group, first row) of about `unit_bytes` of uncompressed data."""
    ranges = []
    first = row = start_row = held = 0
    count = parquet.metadata.num_row_groups
    for number in range(count):
        group = parquet.metadata.row_group(number)
        row, held = row + group.num_rows, held + group.total_byte_size
        if held >= unit_bytes or number == count - 1:
            ranges.append((first, number + 1, start_row))
            first, start_row, held = number + 1, row, 0
    return ranges


def one_line(error: BaseException) -> str:
    """The error's message on one line of at most 200 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
