"""From wikitext to plain text and links with exact offsets, in one pass.

Dropped: templates, tables, references, formulas, galleries, comments, files with their captions, categories,
links to other languages. Kept: what a reader sees as running text, a heading or a list item on a line of its
own. A marker that is never closed is dropped alone, so no text after it is lost, and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipelines.wikitext_extents import NONE, Extents
from pipelines.wikitext_markup import (
    BREAK_TAGS,
    COMMENT,
    ENTITY,
    EXTERNAL,
    HEADING,
    INLINE_TAGS,
    ITEM,
    LEFTOVER_LINE,
    LINK,
    LITERAL_TAGS,
    NESTED_LINK,
    QUOTES,
    SILENT_TAGS,
    TABLE,
    TAG,
    TEMPLATE,
    TOKEN,
    TRAIL,
    entity,
    surplus_quotes,
    unescaped,
)
from pipelines.wikitext_tidy import tidied
from pipelines.wikitext_titles import Namespaces

_TARGET = re.compile(r"[^\[\]|{}<>\n]*+")
_QUOTES = re.compile("'{2,}")
_TABLE_LINES = re.compile(r"[^\n]*+(?:\n[ \t]*+[|!][^\n]*+)*+")
_HEADING_END = re.compile(r"(?<!=)={1,6}[ \t]*+(?:<!--[^\n]*?-->[ \t]*+)*$")

_DEEPEST = 20  # of links within labels; no real page comes near, and a hostile one must not exhaust the stack
_EXTERNAL_LONGEST = 4096
_DEFAULT = Namespaces()


@dataclass(frozen=True)
class PlainText:
    """What a page says.

    `links` are (start, end, title) in code points of `text`; `unclosed` counts markers without an end.
    """

    text: str
    links: list[tuple[int, int, str]]
    unclosed: int


def plain_text(wikitext: str, namespaces: Namespaces = _DEFAULT) -> PlainText:
    """The text and links of a page's wikitext, in time linear in its length."""
    scanner = _Scanner("\n" + wikitext, namespaces)
    scanner.run(0, len(wikitext) + 1, 0)
    text, links = tidied("".join(scanner.out), scanner.links)
    return PlainText(text, links, scanner.unclosed)


class _Scanner:
    """The output while it grows: pieces of text, their total length, and the links placed in it."""

    def __init__(self, text: str, namespaces: Namespaces) -> None:
        self.text, self.place, self.extents = text, namespaces.place, Extents(text)
        self.out: list[str] = []
        self.length = 0
        self.links: list[tuple[int, int, str]] = []
        self.unclosed = 0

    def run(self, pos: int, end: int, depth: int) -> None:
        """Append what the wikitext pos..end-1 shows."""
        text, search, put = self.text, TOKEN.search, self.put
        while found := search(text, pos, end):
            at = found.start()
            if at > pos:
                put(text[pos:at])
            pos = found.end()
            kind = found.lastindex
            if kind == LINK:
                self.simple_link(*found.groups()[:3])
            elif kind == TEMPLATE:
                pos = self.skip_to(self.extents.template(at), pos, end)
            elif kind == QUOTES:
                if surplus := surplus_quotes(pos - at):
                    put("'" * surplus)
            elif kind == ENTITY:
                put(entity(found[0]))
            elif kind == TAG:
                pos = self.tag(found, end)
            elif kind in (ITEM, LEFTOVER_LINE):
                put("\n")
            elif kind == NESTED_LINK:
                pos = self.nested_link(at, pos, end, depth)
            elif kind == COMMENT:
                pos = self.skip_to(self.extents.comment(pos), pos, end)
            elif kind == HEADING:
                pos = self.heading(pos, end, depth, found[13])
            elif kind == TABLE:
                put("\n")
                close = self.extents.table(at)
                if close == NONE or close > end:  # only what looks like a table goes, never the text after it
                    self.unclosed += 1
                    close = _TABLE_LINES.match(text, pos, end).end()  # type: ignore[union-attr]
                pos = close
            elif kind == EXTERNAL:
                pos = self.external_link(at, pos, end, depth)
        if pos < end:
            put(text[pos:end])

    def put(self, piece: str) -> None:
        self.out.append(piece)
        self.length += len(piece)

    def skip_to(self, close: int, pos: int, end: int) -> int:
        """Past a construct that shows nothing; past its opening marker only, if it has no end."""
        if close == NONE or close > end:
            self.unclosed += 1
            return pos
        return close

    def simple_link(self, target: str, label: str | None, trail: str) -> None:
        kind, title = self.place(target)
        if kind == "hidden":
            return self.put(trail)
        shown = label if label else _shown(target)
        if "''" in shown:
            shown = _QUOTES.sub("", shown)
        if "&" in shown:
            shown = unescaped(shown)
        start = self.length
        self.put(shown + trail)
        if title:
            self.links.append((start, self.length, title))

    def nested_link(self, at: int, pos: int, end: int, depth: int) -> int:
        """A link whose label holds markup, or whose target does."""
        text = self.text
        if text.startswith("[", pos):  # a bracket around a link
            self.put("[")
            return at + 1
        close = NONE if depth >= _DEEPEST else self.extents.link(at)
        if close == NONE or close > end:
            self.unclosed += 1
            return pos
        target = _TARGET.match(text, pos, close - 2)
        assert target is not None  # it also matches nothing
        kind, title = self.place(target[0])
        if kind == "hidden":
            return close
        label = target.end()
        if label < close - 2 and text[label] != "|":  # markup in the target: only the label can be shown
            title = ""
            label = text.rfind("|", label, close - 2)
            if label < 0:
                return close
        start, before = self.length, len(self.links)
        if label < close - 2:
            self.run(label + 1, close - 2, depth + 1)
        else:
            self.put(unescaped(_shown(target[0])))
        trail = TRAIL.match(text, close, end)[0]  # type: ignore[index]
        self.put(trail)
        if title and len(self.links) == before:  # a link around links is none itself
            self.links.append((start, self.length, title))
        return close + len(trail)

    def external_link(self, at: int, pos: int, end: int, depth: int) -> int:
        text = self.text
        close = text.find("]", pos, min(end, pos + _EXTERNAL_LONGEST))
        if close < 0 or depth >= _DEEPEST or text.find("\n", pos, close) >= 0:
            self.put("[")
            return at + 1
        if text.startswith("[[", at + 1) or "[[" in text[pos:close]:  # the bracket found closes a link within
            inner = text.find("]", close + 2, min(end, pos + _EXTERNAL_LONGEST))
            close = inner if inner >= 0 and text.find("\n", close, inner) < 0 else close
        self.run(pos, close, depth + 1)
        return close + 1

    def heading(self, pos: int, end: int, depth: int, marker: str) -> int:
        line_end = self.text.find("\n", pos, end)
        line_end = end if line_end < 0 else line_end
        closing = _HEADING_END.search(self.text[pos:line_end])
        self.put("\n")
        if closing is None or depth >= _DEEPEST:
            self.put(marker)
            return pos
        self.run(pos, pos + closing.start(), depth + 1)
        return line_end

    def tag(self, found: re.Match[str], end: int) -> int:
        name, pos = found[8].lower(), found.end()
        opens = not found[7] and not found[9].endswith("/")
        if name in SILENT_TAGS or name in LITERAL_TAGS:
            if not opens:
                return pos
            start, close = self.extents.tag(name, pos)
            if close != NONE and close <= end and name in LITERAL_TAGS:
                self.put(unescaped(self.text[pos:start]))
            return self.skip_to(close, pos, end)
        if name in BREAK_TAGS:
            self.put("\n")
        elif name not in INLINE_TAGS:  # no tag at all: "a <b and c> d"
            self.put("<")
            return found.start() + 1
        return pos


def _shown(target: str) -> str:
    """What a link without a label shows."""
    return target.strip().removeprefix(":").replace("_", " ")
