"""Bytes of a file in pieces, decompressed on the way, in constant memory; a fault comes after good bytes."""

from __future__ import annotations

import bz2
import codecs
import os
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol, cast

from pipelines.formats.unit import Codec

PIECE = 1 << 20
_COMPRESSED_PIECE = (
    1 << 14
)  # small, so that an error deep in a file costs little of what was already decompressed
_LAST = 32  # the last bytes go in one by one: a broken check sum at the end then costs nothing of the data

MAGIC: dict[Codec, tuple[bytes, ...]] = {
    "gz": (b"\x1f\x8b\x08",),
    "bz2": tuple(
        b"BZh%d" % level + rest for level in range(1, 10) for rest in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
    ),
    "zst": (b"\x28\xb5\x2f\xfd", *(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))),
}
"""First bytes of each kind of archive: data and, where the format has them, empty streams and skippable
frames.
"""

CODEC_NAMES: dict[Codec, str] = {"gz": "gzip", "bz2": "bzip2", "zst": "zstd"}


class Fault(Exception):
    """The stream cannot go on. `whole` says that all data before it is intact, so an unended last line is
    one.
    """

    def __init__(self, reason: str, detail: str, whole: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail, self.whole = reason, detail, whole


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def codec_of_magic(head: bytes) -> Codec:
    """The kind of archive that starts with these bytes, "" if none does."""
    return next((codec for codec, starts in MAGIC.items() if head.startswith(starts)), "")


def pieces(path: str, codec: Codec) -> Iterator[bytes]:
    """The content of a file in pieces, every member, stream or frame of an archive one after the other.

    Raises:
        Fault: "unreadable", "truncated", "corrupt" or "trailing_garbage", after everything before it was
            given.
    """
    try:
        with open(path, "rb") as file:
            if codec:
                yield from _decompressed(file, codec)
            else:
                while piece := file.read(PIECE):
                    yield piece
    except OSError as error:
        raise Fault("unreadable", error.strerror or str(error)) from error


def byte_range(path: str, start: int, end: int) -> Iterator[bytes]:
    """Bytes start..end-1 of a file in pieces.

    Raises:
        Fault: "unreadable".
    """
    try:
        with open(path, "rb") as file:
            file.seek(start)
            while start < end and (piece := file.read(min(PIECE, end - start))):
                start += len(piece)
                yield piece
    except OSError as error:
        raise Fault("unreadable", error.strerror or str(error)) from error


def _decompressed(file: BinaryIO, codec: Codec) -> Iterator[bytes]:
    new, errors = _decoders(codec)
    decoder: _Decoder | None = None
    members = given = 0  # members begun; bytes that the member at hand has given
    for piece in _compressed(file):
        while piece:
            if decoder is None:
                if members and not piece.strip(b"\0"):
                    break  # padding after the last member, as tapes and block devices leave it
                decoder, given = new(), 0
                members += 1
            try:
                out = decoder.decompress(piece)
            except errors as error:
                at = f"near byte {file.tell()} of the {CODEC_NAMES[codec]} file"
                if members > 1 and not given:
                    raise Fault(
                        "trailing_garbage", f"bytes that are not {CODEC_NAMES[codec]} follow, {at}", True
                    ) from error
                raise Fault("corrupt", f"{error} {at}") from error
            given += len(out)
            piece = decoder.unused_data if decoder.eof else b""
            if decoder.eof:
                decoder = None
            if out:
                yield out
    if decoder is not None:
        raise Fault(
            "truncated", f"the {CODEC_NAMES[codec]} file ends at byte {file.tell()} in the middle of its data"
        )


def _compressed(file: BinaryIO) -> Iterator[bytes]:
    left = os.fstat(file.fileno()).st_size - _LAST
    while left > 0 and (piece := file.read(min(left, _COMPRESSED_PIECE))):
        left -= len(piece)
        yield piece
    while byte := file.read(1):
        yield byte


def _decoders(codec: Codec) -> tuple[Callable[[], _Decoder], type[Exception]]:
    if codec == "gz":
        return (lambda: zlib.decompressobj(wbits=31)), zlib.error
    if codec == "bz2":
        return (lambda: bz2.BZ2Decompressor()), OSError
    import zstandard

    window = (
        1 << 31
    )  # frames written with --long need a large window; memory is only taken as a frame asks for it
    decompressor = zstandard.ZstdDecompressor(max_window_size=window)
    return (lambda: cast(_Decoder, decompressor.decompressobj())), zstandard.ZstdError


def as_utf8(stream: Iterator[bytes]) -> Iterator[bytes]:
    """The same text as UTF-8 without a byte order mark; UTF-16 is recognised by its mark and decoded.

    Raises:
        Fault: "corrupt" for broken UTF-16, "utf32" for UTF-32.
    """
    head = b""
    for piece in stream:
        head += piece
        if len(head) >= 4:
            break
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise Fault("utf32", "it starts with a UTF-32 byte order mark; save it as UTF-8")
    if not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield head.removeprefix(codecs.BOM_UTF8)
        yield from stream
        return
    # Lone surrogates pass here and fail as UTF-8 later, where the row is known.
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    try:
        yield decoder.decode(head).encode("utf-8", "surrogatepass")
        for piece in stream:
            yield decoder.decode(piece).encode("utf-8", "surrogatepass")
        yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Fault("corrupt", f"broken UTF-16: {error.reason}") from error
