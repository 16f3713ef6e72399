"""Spacing after markup went: single spaces, at most one blank line, no hollow brackets; links move along."""

from __future__ import annotations

import re
from bisect import bisect_right

# Branches start with plain characters, see wikitext_markup.
_CHANGE = re.compile(
    r" (?: *+\((?: *+[,;])*+ *+\)"  # brackets that held only templates
    r"| *+\n[ \n]*+| *+(?=[,.][ \n])| ++)"  # line ends, gaps before a comma or stop, runs of spaces
    r"|\n(?!\n?[^ \n])[ \n]*+"
    r"|\((?: *+[,;])++ *+"  # separators between templates at the front of brackets
)
_STOPS = (", ", ". ", ",\n", ".\n")


def tidied(text: str, links: list[tuple[int, int, str]]) -> tuple[str, list[tuple[int, int, str]]]:
    """The tidied text, and the (start, end, title) links where they now are, sorted, without empty ones."""
    text = text.replace("\t", " ").replace("\r", " ")
    pieces: list[str] = []
    starts, ends, shifts = [-1], [-1], [0]  # of each change, and how far what follows it moves to the front
    pos = shift = 0
    for found in _CHANGE.finditer(text):
        start, end = found.span()
        new = _instead(found[0], text[end : end + 2])
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
        if starts[change] == old:
            change -= 1
        old = max(old, ends[change])  # within what changed: as if at its end
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


def _instead(gap: str, after: str) -> str:
    if "\n" in gap:
        return "\n\n" if gap.count("\n") > 1 else "\n"
    if gap.startswith("("):
        return "("
    return "" if gap.endswith(")") or after in _STOPS else " "
