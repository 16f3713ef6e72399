"""MediaWiki XML dumps: a page of the main namespace becomes a document with its links."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from pipelines.documents import Document, Note, Reject
from pipelines.formats.bytestream import Fault, pieces
from pipelines.formats.rows import too_large
from pipelines.formats.text import rest_of_file
from pipelines.formats.unit import Unit
from pipelines.formats.wikipedia_bytes import owned_pieces
from pipelines.formats.wikipedia_pages import Header, cut_pages, read_header
from pipelines.wikitext import plain_text
from pipelines.wikitext_titles import Namespaces

# Old dumps have no <redirect/>; these are the words for it in the larger languages.
_REDIRECT = re.compile(
    r"\s*#\s*(?:redirect|weiterleitung|redirection|redirección|rinvia|redirecionamento|doorverwijzing|patrz|przekieruj|tam"
    r"|перенаправление|перенапр|перенаправлення|пренасочване|преусмери|omdirigering|ohjaus|átirányítás|přesměruj"
    r"|yönlendirme|alih|đổi|重定向|重新導向|転送|リダイレクト|넘겨주기|تحويل|تغییر_?مسیر|הפניה|ανακατευθυνση)\b[^\[\n]{0,20}\[\[([^\]\n|#]*)",
    re.IGNORECASE,
)


def read_wikipedia(unit: Unit) -> Iterator[Document | Reject | Note]:
    """The articles of a dump, by <ns> and not by title; keys are page ids. Rows are pages.

    Reasons of rejects: redirect, namespace and not_wikitext (expected), missing (no revision), empty,
    too_large, corrupt (a page's XML), invalid_utf8, and those of a broken file. Notes: unclosed_markup,
    invalid_utf8.
    """
    pages = 0
    try:
        header = read_header(pieces(unit.path, unit.codec))
        if header is None:
            yield Reject(
                unit.relative,
                "",
                "not_wikipedia",
                "no <mediawiki> dump with a <page> begins in its first MiB",
            )
            return
        namespaces = Namespaces().with_names(header.namespaces)
        for page in cut_pages(owned_pieces(unit), header, unit.spec.max_document_bytes):
            pages += 1
            if isinstance(page, tuple):
                yield Reject(unit.relative, f"page {pages} of its part", *page)
            else:
                yield from _page(page, pages, header, namespaces, unit)
    except Fault as fault:
        yield rest_of_file(unit, fault, pages)


def _page(
    page: bytes, number: int, header: Header, namespaces: Namespaces, unit: Unit
) -> Iterator[Document | Reject | Note]:
    notes: list[tuple[str, str]] = []
    try:
        element = _element(page, header, unit, notes)
    except UnicodeDecodeError:
        yield Reject(unit.relative, f"page {number} of its part", "invalid_utf8", "the page is not UTF-8")
        return
    except (ET.ParseError, LookupError, ValueError) as error:
        yield Reject(
            unit.relative, f"page {number} of its part", "corrupt", f"its XML is broken: {error}"[:200]
        )
        return
    fields = _fields(element)
    page_id, title = fields.get("id", ""), fields.get("title", "")
    position = f"page {page_id}" if page_id else f"page {number} of its part"
    why = _why_not(fields, header)
    if why is None:
        found = plain_text(fields["text"], namespaces)
        if not found.text:
            why = "empty", f"{title!r} has no running text", False
        elif too_large(found.text, unit.spec.max_document_bytes):
            why = "too_large", f"{title!r} has more than {unit.spec.max_document_bytes} bytes", False
    if why is not None:
        yield Reject(unit.relative, position, *why)
        return
    if found.unclosed:
        notes.append(("unclosed_markup", f"{found.unclosed} markers in {title!r} have no end"))
    for reason, detail in notes:
        yield Note(unit.relative, position, reason, detail)
    yield Document(unit.name + page_id, found.text, title or None, links=found.links)


def _element(page: bytes, header: Header, unit: Unit, notes: list[tuple[str, str]]) -> ET.Element:
    try:
        return header.parse(page)
    except ET.ParseError:
        if not header.is_utf8:
            raise
        # Decoding says whether bad bytes are what is wrong.
        repaired = page.decode("utf-8", "strict" if unit.spec.invalid_utf8 == "skip" else "replace").encode()
        if repaired == page:
            raise
        notes.append(("invalid_utf8", "U+FFFD stands in for bad bytes"))
        return header.parse(repaired)


def _fields(page: ET.Element) -> dict[str, str]:
    """What a page says of itself by tag; of several revisions the last, whose text is absent if there is
    none.
    """
    fields: dict[str, str] = {}
    for child in page:
        name = _local(child.tag)
        if name == "redirect":
            fields["redirect"] = child.get("title", "")
        elif name == "revision":
            fields["text"] = ""
            fields.update(
                (_local(part.tag), part.text or "") for part in child if _local(part.tag) in ("text", "model")
            )
        elif name in ("id", "ns", "title"):
            fields[name] = (child.text or "").strip()
    return fields


def _why_not(fields: dict[str, str], header: Header) -> tuple[str, str, bool] | None:
    """The (reason, detail, expected) if the page is no article with text."""
    title = fields.get("title", "")
    space = fields.get("ns")
    if space is None:  # dumps before 2012 tell namespaces by title alone
        prefix = title.partition(":")[0].casefold() if ":" in title else ""
        space = next(
            (str(number) for number, name in header.namespaces if name.casefold() == prefix and name), "0"
        )
    if "redirect" in fields:
        return "redirect", f"{title!r} leads to {fields['redirect']!r}", True
    if space != "0":
        return "namespace", f"{title!r} is in namespace {space}", True
    if not fields.get("id"):
        return "missing", f"{title!r} has no page id", False
    if "text" not in fields:
        return "missing", f"{title!r} has no revision", False
    if found := _REDIRECT.match(fields["text"]):
        return "redirect", f"{title!r} leads to {found[1]!r}", True
    if fields.get("model", "wikitext") != "wikitext":
        return "not_wikitext", f"{title!r} is {fields['model']}", True
    if not fields["text"].strip():
        return "empty", f"{title!r} has no text", False
    return None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
