"""What a file is: its format by suffix, its packing by first bytes, its fingerprint, and what is wrong with
it at sight.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import PurePath

from pipelines.formats.bytestream import CODEC_NAMES, Fault, codec_of_magic, pieces
from pipelines.formats.unit import Codec, Format

_ENDS = 64 << 10
_PACKED: dict[str, Codec] = {".gz": "gz", ".gzip": "gz", ".bz2": "bz2", ".zst": "zst", ".zstd": "zst"}
_FORMATS: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xml": "wikipedia",
}
KNOWN = "{}, each also {}".format(", ".join(_FORMATS), ", ".join(_PACKED))
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class FileFacts:
    """What a look at a file's name and ends tells; `fault` is a (reason, detail) if it cannot be used."""

    format: Format
    codec: Codec = ""
    size: int = 0
    fingerprint: str = ""
    fault: tuple[str, str] | None = None


def look_at(path: str, wanted: str) -> FileFacts:
    """The facts of a file; `wanted` is a source's `format`. The fingerprint is of its size and its first and
    last 64 KiB.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_ENDS)
            file.seek(max(0, size - _ENDS))
            tail = file.read(_ENDS)
    except OSError as error:
        return FileFacts("unknown", fault=("unreadable", error.strerror or str(error)))
    fingerprint = hashlib.blake2b(b"%d:" % size + head + tail, digest_size=8).hexdigest()
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    packed = _PACKED.get(suffixes[-1], "") if suffixes else ""
    named = suffixes[-2 if packed else -1 :][:1]
    format_: Format = (
        _FORMATS.get(named[0], "unknown") if named and (not packed or len(suffixes) > 1) else "unknown"
    )
    codec = codec_of_magic(head)
    if not size:
        return FileFacts(format_, packed, 0, fingerprint, ("empty_file", "it has 0 bytes"))
    if packed and codec != packed:
        other = f", it is {CODEC_NAMES[codec]}" if codec else ""
        fault = f"not_{CODEC_NAMES[packed]}", f"not {CODEC_NAMES[packed]} although it is named so{other}"
        return FileFacts(format_, codec, size, fingerprint, fault)
    if wanted != "auto":
        format_ = wanted  # type: ignore[assignment]
    start = _start(path, codec, head)
    if format_ == "unknown":
        format_ = _format_of_content(start)
    return FileFacts(format_, codec, size, fingerprint, _mismatch(format_, start))


def _start(path: str, codec: Codec, head: bytes) -> bytes:
    if not codec:
        return head
    try:
        start = b""
        for piece in pieces(path, codec):
            start += piece
            if len(start) >= 512:
                break
    except Fault:
        pass  # reading will meet it again and say so
    return start


def _format_of_content(start: bytes) -> Format:
    """The format of a file whose name says nothing; plain text is never guessed."""
    plain = start[:512].removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"").lstrip()
    if start.startswith(_PARQUET):
        return "parquet"
    if re.match(
        rb"(?:\xff\xfe|\xfe\xff)?(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<mediawiki\b", plain, re.DOTALL
    ):
        return "wikipedia"
    return "jsonl" if plain.startswith((b'{"', b"{ ", b"{}")) else "unknown"


def _mismatch(format_: Format, start: bytes) -> tuple[str, str] | None:
    is_parquet = start.startswith(_PARQUET)
    if format_ == "unknown":
        return "unknown_format", "its name does not tell the format"
    if format_ == "parquet" and not is_parquet and start:
        return "not_parquet", "not Parquet although it is named so"
    if format_ in ("text", "jsonl", "wikipedia") and is_parquet:
        return f"not_{format_}", f"it is Parquet, not {format_}"
    return None
