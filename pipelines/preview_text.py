"""A preview in the terminal: coloured, and readable without colour, with labels under the tokens they belong to."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.preview_aligned import aligned, wrapped
from pipelines.preview_matrix import Matrix
from pipelines.preview_page import Page
from pipelines.preview_rows import (
    FOREIGN_TEXT,
    HIDDEN,
    INSERTED,
    KEPT,
    MEANING,
    MOVED,
    PLAIN,
    RANDOM,
    REMOVED,
    SPECIAL,
    UNDER,
    Piece,
    Row,
)

CAPTION = "sees: a block where the token of the row sees the token of the column"
NAME_WIDTH = 9
MOST_TOKENS = 24
"""Rows and columns of a matrix that are drawn."""

STYLES = {
    PLAIN: "",
    HIDDEN: "bold white on red",
    RANDOM: "bold black on yellow",
    KEPT: "bold black on green",
    INSERTED: "bold black on cyan",
    SPECIAL: "bold white on blue",
    MOVED: "bold magenta",
    FOREIGN_TEXT: "bold blue",
    REMOVED: "strike red",
}
MARKS = {
    RANDOM: ("~", "~"),
    KEPT: ("=", "="),
    INSERTED: ("{+", "+}"),
    MOVED: (">", "<"),
    FOREIGN_TEXT: ("{", "}"),
    REMOVED: ("[-", "-]"),
}
"""What stands around text of each kind, to tell it without colour; hidden and special tokens show themselves."""


def print_page(page: Page, *, width: int | None = None, file: IO[str] | None = None) -> None:
    """Print a preview. width: columns; the terminal's own if not given."""
    console = _Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    unicode = (console.encoding or "").lower().startswith("utf")
    for text in (page.heading, *page.notes):
        console.print(Text(text, style="dim"))
    for line in legend(page, console.width):
        console.print(line)
    if page.microbatches:
        console.print()
        console.print(_grid([("step" if not i else "", Text(line)) for i, line in enumerate(page.microbatches)]))
    for number, row in enumerate(page.rows):
        console.print(Text(f"\npassage {number + 1} of {len(page.rows)}, {row.title}", style="bold"))
        if row.place:
            for line in wrapped([Text(part, "dim") for part in row.place.split("; ")], console.width, "; "):
                console.print(line)
        console.print(_grid(row_lines(row, console.width - NAME_WIDTH - 1, unicode=unicode)))
    console.print()
    console.print(_grid((name, Text(text)) for name, text in page.rates))


class _Console(Console):
    """Says that the reader has gone (`| head`) instead of ending the process on its own."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "the reader has gone")


def _grid(lines: Iterable[tuple[str, Text]]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", width=NAME_WIDTH)
    grid.add_column()
    for name, text in lines:
        grid.add_row(name, text)
    return grid


def legend(page: Page, width: int) -> list[Text]:
    """What the marks on this page mean, and what stands under tokens."""
    items = []
    for kind in page.kinds:
        shown = marked(Piece(sample(kind, page.mask), kind))
        items.append(Text.assemble((shown, STYLES[kind]), f" {MEANING[kind]}"))
    items += [Text(f"{name}: {UNDER[name]}") for name in page.under]
    if any(row.matrices for row in page.rows):
        items.append(Text(CAPTION))
    return wrapped(items, width, "   ")


def sample(kind: str, mask: str | None) -> str:
    """What the legend shows of a kind."""
    return (mask or "hidden") if kind == HIDDEN else "special" if kind == SPECIAL else "word"


def marked(piece: Piece) -> str:
    """The piece's text between the marks of its kind."""
    before, after = MARKS.get(piece.kind, ("", ""))
    return f"{before}{piece.text}{after}"


def row_lines(row: Row, width: int, *, unicode: bool = True) -> Iterator[tuple[str, Text]]:
    """Names and texts of a passage's lines, each at most `width` columns wide where words allow."""
    facts = dict(row.facts)
    if "dropped" in facts:
        yield "dropped", Text(facts.pop("dropped"), "bold red")
    for line in row.lines:
        cells = [(marked(piece), STYLES[piece.kind], piece) for piece in line.pieces]
        for number, (shown, under) in enumerate(aligned(cells, width)):
            yield line.name if not number else "", shown
            for name in UNDER:
                if name in under:
                    yield name, under[name]
    for name, text in facts.items():
        yield name, Text(text)
    for matrix in row.matrices:
        yield from _matrix_lines(matrix, width, unicode)


def _matrix_lines(matrix: Matrix, width: int, unicode: bool) -> Iterator[tuple[str, Text]]:
    shown = matrix.crop(min(MOST_TOKENS, width))
    title = matrix.name
    if len(shown.tokens) < matrix.total:
        title += f", the first {len(shown.tokens)} of {matrix.total} tokens"
    yield "sees", Text(title)
    for line in blocks(shown.sees, unicode=unicode):
        yield "", Text(line)


_HALVES = {(False, False): "·", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def blocks(sees: npt.NDArray[np.bool_], *, unicode: bool = True) -> Iterator[str]:
    """Lines of text: two rows of the matrix in a line, or one where only ASCII can be written."""
    if not unicode:
        for row in sees.tolist():
            yield "".join("#" if seen else "." for seen in row)
        return
    even = np.vstack([sees, np.zeros((len(sees) % 2, sees.shape[1]), np.bool_)]).tolist()
    for upper, lower in zip(even[::2], even[1::2]):
        yield "".join(_HALVES[pair] for pair in zip(upper, lower))
