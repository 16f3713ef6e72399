"""Lines of a byte stream, and byte ranges of a file that hold whole lines.

Only LF and CR LF end a line. A lone CR, U+2028, U+0085 or a form feed is text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipelines.formats.bytestream import PIECE, Fault


def lines(stream: Iterator[bytes], limit: int) -> Iterator[bytes | int]:
    """The stream's lines without their ends; a line of more than `limit` bytes gives its size instead, in
    time linear in it.

    Raises:
        Fault: the stream's own, after every line that came whole.
    """
    held: list[bytes] = []
    size = 0
    try:
        for piece in stream:
            first, *others = piece.split(b"\n")
            size += len(first)
            if size <= limit + 1:  # one more, for a CR that is no part of the line
                held.append(first)
            if not others:
                continue
            yield _line(held, size, limit)
            *complete, last = others
            for line in complete:
                yield _line([line], len(line), limit)
            held, size = [last], len(last)
    except Fault as fault:
        if fault.whole and size:
            yield _line(held, size, limit)
        raise
    if size:
        yield _line(held, size, limit)


def _line(held: list[bytes], size: int, limit: int) -> bytes | int:
    if size > limit + 1:
        return size
    line = held[0] if len(held) == 1 else b"".join(held)
    line = line[:-1] if line.endswith(b"\r") else line
    return line if len(line) <= limit else len(line)


def line_ranges(path: str, size: int, unit_bytes: int) -> list[tuple[int, int, int]]:
    """Ranges (first byte, end byte, first line from 0) of about `unit_bytes` that begin where lines do and
    cover the file.

    The file is read once to count its lines, so that a line's number does not depend on where the file was
    cut.

    Raises:
        OSError: the file cannot be read.
    """
    starts, rows = [0], [0]
    offset = seen = 0
    wanted = unit_bytes
    with open(path, "rb") as file:
        while offset < size and (piece := file.read(min(8 * PIECE, size - offset))):
            counted = 0
            while wanted <= offset + len(piece):
                # The line that covers byte wanted - 1 belongs to the range before; the next one starts this.
                at = piece.find(b"\n", max(0, wanted - 1 - offset)) + 1
                if not at:
                    break
                seen += _newlines(piece[counted:at])
                counted = at
                if offset + at < size:
                    starts.append(offset + at)
                    rows.append(seen)
                wanted = (offset + at) // unit_bytes * unit_bytes + unit_bytes
            seen += _newlines(piece[counted:])
            offset += len(piece)
    return [(start, end, row) for start, end, row in zip(starts, [*starts[1:], size], rows)]


def _newlines(piece: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(piece, np.uint8) == 10))
