"""Cutting a MediaWiki dump into pages, by bytes, in whatever encoding its XML declares.

Text inside a page is escaped, so the bytes of `<page>` and `</page>` are always tags. A page belongs to the
unit in whose bytes its tag begins; so units meet without a gap and without an overlap, wherever the file was
cut.
"""

from __future__ import annotations

import codecs
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipelines.formats.bytestream import Fault
from pipelines.formats.wikipedia_bytes import Owned

_HEADER_LIMIT = 1 << 20
_ENCODING = re.compile(r"""encoding\s*=\s*["']([\w.:-]+)["']""")
_NAMESPACE = re.compile(r"<namespace\b([^<>]*?)(?:/>|>([^<>]*)</namespace>)")
_KEY = re.compile(r"""\bkey\s*=\s*["'](-?\d+)["']""")


@dataclass(frozen=True)
class Header:
    """What comes before a dump's first page: the XML declaration to put before each page, the encoding, the
    namespaces.

    `namespaces` are (number, name) pairs.
    """

    declaration: bytes
    encoding: str
    namespaces: tuple[tuple[int, str], ...]

    @property
    def is_utf8(self) -> bool:
        """Whether the content is UTF-8, as declared or for want of a declaration."""
        found = _ENCODING.search(self.declaration.decode("ascii", "replace"))
        return self.encoding == "ascii" and (
            found is None or found[1].lower().replace("-", "") in ("utf8", "ascii", "usascii")
        )

    def bytes_of(self, text: str) -> bytes:
        """ASCII text as it stands in the dump."""
        return text.encode(self.encoding)

    def parse(self, page: bytes) -> ET.Element:
        """The element of one page.

        Raises:
            ET.ParseError: it is not well-formed.
            LookupError, ValueError: the declared encoding is unknown.
        """
        return ET.fromstring(
            b"".join((self.declaration, self.bytes_of("<dump>"), page, self.bytes_of("</dump>")))
        )[0]


def read_header(stream: Iterator[bytes]) -> Header | None:
    """The header of a dump from its first bytes; None if no page begins in the first MiB, or nothing of a
    dump does.

    Raises:
        Fault: the file is broken before its first page.
    """
    head = bytearray()
    for piece in stream:
        head += piece
        encoding, mark = _width(bytes(head[:4]))
        at = head.find("<page>".encode(encoding))
        if at >= 0:
            return _header(bytes(head[:at]), encoding, mark)
        if len(head) > _HEADER_LIMIT:
            return None
    return None


def _width(head: bytes) -> tuple[str, bytes]:
    """How ASCII characters are stored, and the byte order mark."""
    for encoding, mark in (("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE)):
        if head.startswith(mark):
            return encoding, mark
    return "ascii", codecs.BOM_UTF8 if head.startswith(codecs.BOM_UTF8) else b""


def _header(head: bytes, encoding: str, mark: bytes) -> Header | None:
    plain = head.removeprefix(mark).decode(encoding, "replace")
    if "<mediawiki" not in plain:
        return None
    declared = re.match(r"\s*<\?xml[^>]*\?>", plain)
    declaration = declared[0].lstrip() if declared else ""
    named = plain
    if encoding == "ascii":
        found = _ENCODING.search(declaration)
        named = head.decode(found[1] if found and _known(found[1]) else "utf-8", "replace")
    names = [(_KEY.search(attributes), name) for attributes, name in _NAMESPACE.findall(named)]
    numbers = tuple((int(key[1]), name) for key, name in names if key)
    return Header(mark + declaration.encode(encoding, "replace"), encoding, numbers)


def _known(encoding: str) -> bool:
    try:
        codecs.lookup(encoding)
    except LookupError:
        return False
    return True


def cut_pages(stream: Iterator[Owned], header: Header, limit: int) -> Iterator[bytes | tuple[str, str]]:
    """The bytes of each page that begins in owned bytes, in order; (reason, detail) for one that is over
    `limit` or unended.

    Raises:
        Fault: the stream's own, or "truncated" if the content ends inside a page or without the dump's
            closing tag.
    """
    opening, closing, ending = (header.bytes_of(tag) for tag in ("<page>", "</page>", "</mediawiki"))
    buffer = bytearray()
    owned = 0  # bytes at the front of the buffer that the unit owns
    ended = False

    def more() -> bool:
        nonlocal owned
        piece, own = next(stream, (b"", False))
        buffer.extend(piece)
        owned = len(buffer) if own else owned
        return bool(piece)

    def drop(count: int) -> None:
        nonlocal owned
        del buffer[:count]
        owned -= count

    while True:
        at = buffer.find(opening)
        if at < 0:
            ended = ended or ending in buffer
            drop(max(0, len(buffer) - len(ending) + 1))
            if more():
                continue
            break
        if at >= owned:
            return
        drop(at)
        size = _find_end(buffer, closing, limit, more)
        if size is None:
            yield "too_large", f"it has more than {limit} bytes"
            while (close := buffer.find(closing)) < 0:
                drop(max(0, len(buffer) - len(closing) + 1))
                if not more():
                    raise Fault("truncated", "the dump ends inside a page")
            drop(close + len(closing))
            continue
        page = bytes(buffer[:size])
        drop(size)
        *unended, page = page.split(opening)[1:]
        yield from (("corrupt", "the page has no end") for _ in unended)
        yield opening + page
    if owned > 0 and not ended:
        raise Fault("truncated", "the dump ends without its closing tag")


def _find_end(buffer: bytearray, closing: bytes, limit: int, more: Callable[[], bool]) -> int | None:
    """The size of the page at the front of the buffer, filled as needed; None if it is over `limit`."""
    looked = 0
    while (close := buffer.find(closing, looked)) < 0:
        if len(buffer) > limit:
            return None
        looked = max(0, len(buffer) - len(closing) + 1)
        if not more():
            raise Fault("truncated", "the dump ends inside a page")
    size = close + len(closing)
    return size if size <= limit else None
