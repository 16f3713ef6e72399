"""A whole preview as data: what terminal and page are both written from."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.preview_rows import MEANING, UNDER, Row


@dataclass(frozen=True)
class Page:
    """A preview.

    notes: what a reader must know of where it comes from. microbatches: the lanes of a step, a line each. rates:
    names and texts of what was asked for and what it came to. mask: how the tokenizer writes a hidden token.
    """

    recipe: str
    heading: str
    notes: tuple[str, ...]
    rows: tuple[Row, ...]
    rates: tuple[tuple[str, str], ...]
    mask: str | None = None
    microbatches: tuple[str, ...] = ()

    @property
    def kinds(self) -> list[str]:
        """The kinds of text in it that need to be told, in the legend's order."""
        found = {piece.kind for row in self.rows for line in row.lines for piece in line.pieces}
        return [kind for kind in MEANING if kind in found]

    @property
    def under(self) -> list[str]:
        """What stands under tokens in it, in order."""
        found = {name for row in self.rows for line in row.lines for piece in line.pieces for name in piece.under}
        return [name for name in UNDER if name in found]
