"""Bytes of a MediaWiki dump for one unit: a byte range of the file as stored, and what it may need from
beyond its end.

A bzip2 dump in several streams is cut where streams begin, so several tasks can read one file. A unit owns
the streams that begin in its range; where a range begins they are found by their first bytes and proven by
decompressing one byte.
"""

from __future__ import annotations

import bz2
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import BinaryIO

from pipelines.formats.bytestream import PIECE, Fault, byte_range, pieces
from pipelines.formats.unit import Unit

_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
_STREAM_LENGTH = 10
_FEED = 1 << 16
_FIRST_STREAMS = 8 << 20
Owned = tuple[bytes, bool]


def owned_pieces(unit: Unit) -> Iterator[Owned]:
    """The content from the unit's beginning to the file's end in pieces, each with whether the unit owns it.

    Raises:
        Fault: the file is broken.
    """
    if unit.part is None:
        for piece in pieces(unit.path, unit.codec):
            yield piece, True
        return
    start, end = unit.part
    if not unit.codec:
        for piece in byte_range(unit.path, start, end):
            yield piece, True
        for piece in byte_range(unit.path, end, 1 << 62):
            yield piece, False
        return
    try:
        with open(unit.path, "rb") as file:
            first = _stream_start(file, start, end)
            if first is not None:
                yield from _streams(file, first, end)
    except OSError as error:
        raise Fault("unreadable", error.strerror or str(error)) from error


def dump_ranges(path: str, codec: str, size: int, unit_bytes: int) -> list[tuple[int, int]]:
    """Ranges (first byte, end byte) of the stored file that can be read on their own; one range if it has one
    stream.

    Raises:
        OSError: the file cannot be read.
    """
    if codec == "bz2":
        unit_bytes = max(1, unit_bytes // 4)  # about what the text shrinks by
        with open(path, "rb") as file:
            if size <= unit_bytes or _stream_start(file, 1, min(size, _FIRST_STREAMS)) is None:
                return [(0, size)]
    elif codec:
        return [(0, size)]
    cuts = [*range(0, size, unit_bytes), size]
    return list(pairwise(cuts))


def _stream_start(file: BinaryIO, start: int, end: int) -> int | None:
    """Where the first bzip2 stream that begins in start..end-1 begins."""
    offset, held = start, b""
    file.seek(start)
    while offset - len(held) < end and (piece := file.read(PIECE)):
        window = held + piece
        base = offset - len(held)
        for found in _STREAM.finditer(window):
            at = base + found.start()
            if at >= end:
                return None
            if _is_stream(file, at):
                return at
        offset += len(piece)
        file.seek(offset)
        held = window[-(_STREAM_LENGTH - 1) :]
    return None


def _is_stream(file: BinaryIO, at: int) -> bool:
    """Whether a stream really begins there; the same bytes can turn up inside compressed data."""
    decoder = bz2.BZ2Decompressor()
    file.seek(at)
    try:
        for _ in range(2 * 900_000 // _FEED):  # the first byte comes with the first block, of at most 900 kB
            piece = file.read(_FEED)
            if decoder.decompress(piece, 1) or decoder.eof:
                return True
            if not piece:
                return False
    except OSError:
        return False
    return False


def _streams(file: BinaryIO, at: int, end: int) -> Iterator[Owned]:
    """Everything from the stream that begins at `at`; owned while streams begin before `end`."""
    size = os.fstat(file.fileno()).st_size
    file.seek(at)
    decoder = bz2.BZ2Decompressor()
    owned, given, pending = True, 0, b""
    while True:
        pending = pending or file.read(_FEED if file.tell() < size - _FEED else 1 << 10)
        if not pending:
            break
        try:
            out = decoder.decompress(pending)
        except OSError as error:
            if given or at == 0:
                raise Fault("corrupt", f"{error} near byte {file.tell()} of the bzip2 file") from error
            raise Fault(
                "trailing_garbage", f"bytes that are no bzip2 stream follow at byte {at}", True
            ) from error
        given += len(out)
        if out:
            yield out, owned
        pending = b""
        if decoder.eof:
            pending = decoder.unused_data
            at = file.tell() - len(pending)
            owned = owned and at < end
            decoder, given = bz2.BZ2Decompressor(), 0
            if not pending and not (pending := file.read(_FEED)):
                return
    raise Fault("truncated", f"the bzip2 file ends at byte {size} in the middle of its data")
