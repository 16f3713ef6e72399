"""From wikitext to plain text and links with exact offsets, in one pass.

Dropped: templates, tables, references, formulas, galleries, comments, files with their captions, categories, links to
other languages. Kept: what a reader sees as running text, a heading or a list item on a line of its own. A marker that is
never closed is dropped alone, so no text after it is lost, and counted.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from dataclasses import dataclass

from pipelines.wikitext_extents import NONE, Extents
from pipelines.wikitext_titles import Namespaces

# Letters that, right after a link, belong to its surface ("[[gland]]s"); scripts without spaces have none.
_TRAIL_LETTERS = "a-zß-öø-ÿĀ-žа-џґα-ωά-ώա-ևא-תء-يა-ჰ"
_TRAIL = re.compile(f"[{_TRAIL_LETTERS}]*+")

# Every branch starts with a plain character, not with a group or a set: only then does `re` skip over text quickly.
# Empty groups at the end of a branch say which one it was.
_TOKEN = re.compile(
    rf"""
    \[\[([^\[\]|{{}}<>\n]++)(?:\|([^\[\]|{{}}<>\n]*+))?\]\]([{_TRAIL_LETTERS}]*+)  # 1 2 3: target, label, trail
    |\{{\{{+()                                                   # 4: template
    |''+()                                                       # 5: italic, bold
    |&(\#[0-9]{{1,7}}|\#[xX][0-9a-fA-F]{{1,6}}|[a-zA-Z][a-zA-Z0-9]{{1,31}});  # 6: entity
    |<(/?)([a-zA-Z][a-zA-Z0-9]*+)((?:\s[^<>]*+)?/?)>             # 7 8 9: tag
    |\n(?:[ \t]*+[*\#:;]++(?![*\#:; \t]*\{{\|)[ \t]*+|-{{4,}})()  # 10: list item, rule
    |\[\[()                                                      # 11: link with more in it
    |<!--()                                                      # 12: comment
    |\n(={{1,6}})                                                # 13: heading
    |\n[ \t:*\#;]*+\{{\|()                                      # 14: table
    |\n[ \t]*+\|[^\n]*+()                                       # 15: line left over from a table or template
    |\[(?:(?:https?|ftp|mailto|irc|news):|//)[^\s\[\]<>]++()     # 16: external link
    |__[^\W\d_]++__()                                            # 17: switch
    |\]\]()|\}}\}}+()|\{{\|()|\|\}}()                             # 18 to 21: markers left over
    """,
    re.VERBOSE,
)
_TARGET = re.compile(r"[^\[\]|{}<>\n]*+")
_QUOTES = re.compile("'{2,}")
_TABLE_LINES = re.compile(r"[^\n]*+(?:\n[ \t]*+[|!][^\n]*+)*+")
_HEADING_END = re.compile(r"(?<!=)={1,6}[ \t]*+(?:<!--[^\n]*?-->[ \t]*+)*$")

_DROPPED = frozenset(
    "ref math ce chem gallery timeline score source syntaxhighlight imagemap hiero graph mapframe maplink inputbox "
    "categorytree templatedata templatestyles style script indicator references section".split()
)
_LITERAL = frozenset(("nowiki", "pre"))
_BREAKS = frozenset("br hr p div li ul ol dl dd dt tr table blockquote center h1 h2 h3 h4 h5 h6 poem".split())
_INLINE = frozenset(
    "span sup sub small big b i u s em strong font code tt kbd samp var cite abbr del ins strike q dfn mark bdi bdo ruby rt "
    "rp rb rtc wbr time data nobr td th caption thead tbody tfoot noinclude includeonly onlyinclude".split()
)

_DEEPEST = 20  # of links within labels; no real page comes near, and a hostile one must not exhaust the stack
_EXTERNAL_LONGEST = 4096
_TIDY = re.compile(
    r" (?: *+\((?: *+[,;])*+ *+\)| *+\n[ \n]*+| ++)"  # hollow brackets after a template went, line ends, runs of spaces
    r"|\n(?!\n?[^ \n])[ \n]*+"
    r"|\((?: *+[,;])++ *+"  # separators between what were templates
)


@dataclass(frozen=True)
class PlainText:
    """What a page says: `links` are (start, end, title) in code points of `text`; `unclosed` counts markers without an end."""

    text: str
    links: list[tuple[int, int, str]]
    unclosed: int


def plain_text(wikitext: str, namespaces: Namespaces = Namespaces()) -> PlainText:  # noqa: B008  (frozen)
    """The text and links of a page's wikitext, in time linear in its length."""
    scanner = _Scanner("\n" + wikitext, namespaces)
    scanner.run(0, len(wikitext) + 1, 0)
    text, links = _tidied("".join(scanner.out), scanner.links)
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
        text, search, put = self.text, _TOKEN.search, self.put
        while found := search(text, pos, end):
            at = found.start()
            if at > pos:
                put(text[pos:at])
            pos = found.end()
            kind = found.lastindex
            if kind == 3:
                self.simple_link(*found.groups()[:3])
            elif kind == 4:
                pos = self.skip_to(self.extents.template(at), pos, end)
            elif kind == 5:
                surplus = {4: 1}.get(pos - at, max(0, pos - at - 5))
                if surplus:
                    put("'" * surplus)
            elif kind == 6:
                put(_entity(found[0]))
            elif kind == 9:
                pos = self.tag(found, end)
            elif kind == 10 or kind == 15:
                put("\n")
            elif kind == 11:
                pos = self.nested_link(at, pos, end, depth)
            elif kind == 12:
                pos = self.skip_to(self.extents.comment(pos), pos, end)
            elif kind == 13:
                pos = self.heading(pos, end, depth, found[13])
            elif kind == 14:
                put("\n")
                close = self.extents.table(at)
                if close == NONE or close > end:  # only what looks like a table goes, never the text after it
                    self.unclosed += 1
                    close = _TABLE_LINES.match(text, pos, end).end()  # type: ignore[union-attr]
                pos = close
            elif kind == 16:
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
        shown = _shown(target) if not label else label
        if "''" in shown:
            shown = _QUOTES.sub("", shown)
        if "&" in shown:
            shown = _unescaped(shown)
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
        close = self.extents.link(at)
        if close == NONE or close > end or depth >= _DEEPEST:
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
            self.put(_unescaped(_shown(target[0])))
        trail = _TRAIL.match(text, close, end)[0]  # type: ignore[index]
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
        if name in _DROPPED or name in _LITERAL:
            if not opens:
                return pos
            start, close = self.extents.tag(name, pos)
            if close != NONE and close <= end and name in _LITERAL:
                self.put(_unescaped(self.text[pos:start]))
            return self.skip_to(close, pos, end)
        if name in _BREAKS:
            self.put("\n")
        elif name not in _INLINE:  # no tag at all: "a <b and c> d"
            self.put("<")
            return found.start() + 1
        return pos


def _shown(target: str) -> str:
    """What a link without a label shows."""
    return target.strip().removeprefix(":").replace("_", " ")


def _entity(entity: str) -> str:
    if entity == "&nbsp;" or entity == "&thinsp;":
        return " "
    if entity[1] != "#" and entity[1:] not in html.entities.html5:
        return entity  # html.unescape would decode a known name at the front of an unknown one
    return html.unescape(entity)


_ANY_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")


def _unescaped(text: str) -> str:
    return _ANY_ENTITY.sub(lambda found: _entity(found[0]), text) if "&" in text else text


def _tidied(text: str, links: list[tuple[int, int, str]]) -> tuple[str, list[tuple[int, int, str]]]:
    """The text with single spaces, at most one blank line and no hollow brackets, and the links moved along."""
    text = text.replace("\t", " ").replace("\r", " ")
    pieces: list[str] = []
    starts, ends, shifts = [-1], [-1], [0]  # of each change, and how far what follows it moves to the front
    pos = shift = 0
    for found in _TIDY.finditer(text):
        start, end = found.span()
        gap = found[0]
        if "\n" in gap:
            new = "\n\n" if gap.count("\n") > 1 else "\n"
        else:
            new = "" if gap[-1] == ")" else "(" if gap[0] == "(" else " "
        pieces += (text[pos:start], new)
        shift += end - start - len(new)
        starts.append(start)
        ends.append(end)
        shifts.append(shift)
        pos = end
    pieces.append(text[pos:])
    whole = "".join(pieces)
    text = whole.strip()
    lead = len(whole) - len(whole.lstrip())

    def moved(old: int) -> int:
        change = bisect_right(starts, old) - 1
        if change and starts[change] < old < ends[change]:  # within what changed: as if at its end
            old = ends[change]
        elif change and starts[change] == old:
            change -= 1
        return min(max(old - shifts[change] - lead, 0), len(text))

    kept = []
    for start, end, title in sorted(links):
        start, end = moved(start), moved(end)
        surface = text[start:end]
        start += len(surface) - len(surface.lstrip())
        end -= len(surface) - len(surface.rstrip())
        if start < end:
            kept.append((start, end, title))
    return text, kept
