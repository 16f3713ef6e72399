"""Text wrapped to a width together with what stands under it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells
from rich.text import Text

from pipelines.preview_rows import LABELS, ORDER, PLAIN, WAS, Piece

_COLOURS = {LABELS: "cyan", WAS: "red", ORDER: "cyan"}


@dataclass(frozen=True)
class _Cell:
    """Text that is not broken, how many columns it takes with what stands under it, and that."""

    text: str
    style: str
    spaced: bool
    under: dict[str, str]
    columns: int


def aligned(
    pieces: Iterable[tuple[str, str, Piece]], width: int
) -> Iterator[tuple[Text, dict[str, Text]]]:
    """Lines of at most `width` columns, each with the lines that stand under it, by name.

    pieces: what is written, its style, and the piece. A line is broken at spaces, and inside a word only where the
    word is wider than the line.
    """
    line: list[_Cell] = []
    used = 0
    for word in _words(_cells(pieces, width)):
        columns = sum(cell.columns for cell in word)
        gap = 1 if line and word[0].spaced else 0
        if line and used + gap + columns > width:
            yield _joined(line)
            line, used, gap = [], 0, 0
        for cell in word:
            if line and used + gap + cell.columns > width:
                yield _joined(line)
                line, used, gap = [], 0, 0
            line.append(cell)
            used += gap + cell.columns
            gap = 0
    yield _joined(line)


def wrapped(items: Sequence[Text], width: int, between: str) -> list[Text]:
    """The items on lines of at most `width` columns; none is broken that fits on a line of its own."""
    lines: list[Text] = []
    for item in items:
        if lines and lines[-1].cell_len + len(between) + item.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], between, item)
        else:
            lines.append(item)
    return lines


def _cells(pieces: Iterable[tuple[str, str, Piece]], width: int) -> list[_Cell]:
    cells: list[_Cell] = []
    for text, style, piece in pieces:
        below = dict(piece.under)
        # Plain text may be broken at its spaces. A styled run stays one stretch of colour as long as it fits.
        parts = text.split(" ") if piece.kind == PLAIN or cell_len(text) > width // 2 else [text]
        if below:
            parts = [text]
        for number, part in enumerate(parts):
            spaced = piece.spaced if not number else True
            room = max(1, width - 1)
            chopped = {name: chop_cells(shown, room) for name, shown in below.items()}
            chunks = chop_cells(part, room) or [""]
            for place in range(max([len(chunks), *map(len, chopped.values())])):
                under = {name: found[place] for name, found in chopped.items() if place < len(found)}
                chunk = chunks[place] if place < len(chunks) else ""
                most = max([cell_len(chunk), *map(cell_len, under.values())])
                cells.append(_Cell(chunk, style, spaced and not place, under, most))
    return [_apart(cell, after) for cell, after in zip(cells, [*cells[1:], None])]


def _apart(cell: _Cell, after: _Cell | None) -> _Cell:
    """With a column more where the next cell follows without a space and what is under the two would touch."""
    if after is None or after.spaced or not (cell.under and after.under):
        return cell
    most = max(cell_len(shown) for shown in cell.under.values())
    return _Cell(cell.text, cell.style, cell.spaced, cell.under, max(cell.columns, most + 1))


def _words(cells: Sequence[_Cell]) -> Iterator[list[_Cell]]:
    """Cells between spaces."""
    word: list[_Cell] = []
    for cell in cells:
        if word and cell.spaced:
            yield word
            word = []
        word.append(cell)
    if word:
        yield word


def _joined(cells: Sequence[_Cell]) -> tuple[Text, dict[str, Text]]:
    line = Text()
    under: dict[str, Text] = {}
    column = 0
    for number, cell in enumerate(cells):
        if number and cell.spaced:
            column += 1
        _put(line, column, cell.text, cell.style)
        for name, shown in cell.under.items():
            _put(under.setdefault(name, Text()), column, shown, _COLOURS.get(name, ""))
        column += cell.columns
    return line, under


def _put(line: Text, column: int, text: str, style: str) -> None:
    line.append(" " * (column - line.cell_len))
    line.append(text, style)
