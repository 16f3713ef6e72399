"""Where a template, table, link or tag of a wikitext ends; every search together is linear in the text.

A search remembers the end of every construct it passed, and of those it left open that they have none; a
closing tag that was not found once is not looked for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_OPAQUE = r"nowiki|math|pre|source|syntaxhighlight|chem|ce|score|timeline"
_SKIP = rf"<(?:(?P<comment>!--)|(?P<tag>{_OPAQUE})\b[^<>]*(?<!/)>)"
_BRACES = re.compile(rf"(?P<open>\{{\{{+)|(?P<close>\}}\}}+)|{_SKIP}")
_LINKS = re.compile(rf"(?P<open>\[\[)|(?P<close>\]\](?!\](?!\])))|(?P<braces>\{{\{{+)|{_SKIP}")
_TABLES = re.compile(
    rf"(?P<open>\n[ \t:*#;]*+\{{\|)|(?P<close>\n[ \t]*+\|\}}(?!\}}))|(?P<braces>\{{\{{+)|{_SKIP}"
)
NONE = -1


class Extents:
    """The ends of the constructs of one text, by the position where each begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, int] = {}  # by position, NONE for what is never closed
        self._tags: dict[str, re.Pattern[str]] = {}
        self._missing: set[str] = set()

    def template(self, at: int) -> int:
        """The end of the template or parameter whose braces begin at `at`, NONE if it is not closed."""
        if at in self._ends:
            return self._ends[at]
        stack: list[list[int]] = []  # position and number of the braces of each open run
        pos = at
        while found := _BRACES.search(self._text, pos):
            pos = found.end()
            if found["open"]:
                stack.append([found.start(), pos - found.start()])
            elif found["close"]:
                end = self._close_braces(stack, found.start(), pos)
                if not stack:
                    return end
            else:
                pos = self._skip(found)
        self._ends.update((position, NONE) for position, _ in stack)
        return NONE

    def link(self, at: int) -> int:
        """The end of the double bracket that begins at `at`, links inside it included, NONE if it is not
        closed.
        """
        return self._nested(_LINKS, at)

    def table(self, at: int) -> int:
        """The end of the table whose line break is at `at`, tables inside it included, NONE if it is not
        closed.
        """
        return self._nested(_TABLES, at)

    def tag(self, name: str, pos: int) -> tuple[int, int]:
        """Where the next closing tag of this name starts and ends, (NONE, NONE) if there is none."""
        if name in self._missing:
            return NONE, NONE
        pattern = self._tags.get(name)
        if pattern is None:
            pattern = self._tags[name] = re.compile(rf"</{re.escape(name)}\s*>", re.IGNORECASE)
        return self._first(name, lambda: (found := pattern.search(self._text, pos)) and found.span())

    def comment(self, pos: int) -> int:
        """The end of the comment whose inside begins at `pos`, NONE if it is not closed."""
        if "!--" in self._missing:
            return NONE
        at = self._text.find("-->", pos)
        return self._first("!--", lambda: (at, at + 3) if at >= 0 else None)[1]

    def _first(self, name: str, search: Callable[[], tuple[int, int] | None]) -> tuple[int, int]:
        span = search()
        if span is None:
            self._missing.add(name)
            return NONE, NONE
        return span

    def _skip(self, found: re.Match[str]) -> int:
        """Past a comment or a tag whose inside is no wikitext; past its opening only, if not closed."""
        end = self.comment(found.end()) if found["comment"] else self.tag(found["tag"], found.end())[1]
        return found.end() if end == NONE else end

    def _nested(self, pattern: re.Pattern[str], at: int) -> int:
        if at in self._ends:
            return self._ends[at]
        stack: list[int] = []
        pos = at
        while found := pattern.search(self._text, pos):
            pos = found.end()
            if found["open"]:
                stack.append(found.start())
            elif found["close"]:
                self._ends[stack.pop()] = pos
                if not stack:
                    return pos
            elif found["braces"]:
                end = self.template(found.start())
                pos = pos if end == NONE else end
            else:
                pos = self._skip(found)
        self._ends.update((position, NONE) for position in stack)
        return NONE

    def _close_braces(self, stack: list[list[int]], start: int, end: int) -> int:
        """Let closing braces start..end-1 close what is open, three or two at a time; where they stopped."""
        while end - start >= 2 and stack:
            run = stack[-1]
            taken = min(3, run[1], end - start)
            run[1] -= taken
            start += taken
            if run[1] < 2:
                start += min(run[1], end - start)  # one brace around a parameter shows nothing worth keeping
                self._ends[run[0]] = start
                stack.pop()
        return start
