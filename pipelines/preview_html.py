"""A preview as one page that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from corruption.errors import InputError
from pipelines.preview_matrix import Matrix
from pipelines.preview_page import Page
from pipelines.preview_rows import LABELS, MEANING, ORDER, PLAIN, REMOVED, UNDER, WAS, Line, Piece, Row
from pipelines.preview_style import style
from pipelines.preview_text import CAPTION, MARKS, sample
from pipelines.store import write_atomically

GENERATOR = '<meta name="generator" content="papermoth preview">'
"""How a page of ours is known: only such a one is overwritten."""

_HEAD = 4096
MOST_TOKENS = 48
"""Rows and columns of a matrix that are drawn."""

_SAID_BELOW = {LABELS: "label", WAS: "was", ORDER: "order"}


def check_place(path: Path) -> None:
    """Raise InputError when the page cannot be written there, or something that is no page of ours would be lost."""
    if path.is_dir():
        raise InputError(f"--html {path}", "it is a folder", "give the name of a file")
    if path.exists() and not (path.is_file() and GENERATOR.encode() in _head(path)):
        raise InputError(f"--html {path}", "the file is no preview of ours", "give another name, or remove it")


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise InputError(f"--html {path}", f"it cannot be read ({error.strerror})", "give another name") from None


def write_page(page: Page, path: Path) -> None:
    """Write the page: whole or not at all. Raises InputError as `check_place` does, or when it cannot be written."""
    check_place(path)
    try:
        write_atomically(path, render(page).encode("utf-8"))
    except OSError as error:
        raise InputError(f"--html {path}", f"it cannot be written ({error.strerror})", "give another name") from None


def render(page: Page) -> str:
    """The page as HTML."""
    notes = "".join(f'<p class="note">{escape(note)}</p>\n' for note in (page.heading, *page.notes))
    passages = "\n".join(_passage(row, number, len(page.rows)) for number, row in enumerate(page.rows, 1))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{GENERATOR}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(page.recipe)}: preview</title>
<style>{style()}</style>
</head>
<body>
<a class="skip" href="#rates">To the rates</a>
<main>
<h1>What {escape(page.recipe)} does to text</h1>
{notes}{_legend(page)}{_microbatches(page)}{passages}
<section id="rates" aria-labelledby="rates-title" tabindex="-1">
<h2 id="rates-title">Rates</h2>
{_list(page.rates)}
</section>
</main>
</body>
</html>
"""


def _legend(page: Page) -> str:
    items = [
        f'<span aria-hidden="true">{_marked(Piece(sample(kind, page.mask), kind))}</span> {escape(MEANING[kind])}'
        for kind in page.kinds
    ]
    items += [f'<span class="below {name}">{name}</span> {escape(UNDER[name])}' for name in page.under]
    if any(row.matrices for row in page.rows):
        items.append(escape(CAPTION))
    if not items:
        return ""
    listed = "".join(f"<li>{item}</li>" for item in items)
    return f'<ul class="legend" aria-label="Legend">{listed}</ul>\n'


def _microbatches(page: Page) -> str:
    if not page.microbatches:
        return ""
    listed = "".join(f"<li>{escape(line)}</li>" for line in page.microbatches)
    return f'<section aria-labelledby="step"><h2 id="step">The step</h2><ul>{listed}</ul></section>\n'


def _passage(row: Row, number: int, total: int) -> str:
    title = f"passage-{number}"
    place = f'<p class="note">{escape(row.place)}</p>' if row.place else ""
    shown = "".join(
        f'<div><dt>{escape(line.name)}</dt><dd class="text" lang="" dir="auto">{_text(line)}</dd></div>'
        for line in row.lines
    )
    facts = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in row.facts)
    matrices = "".join(_figure(matrix) for matrix in row.matrices)
    return (
        f'<section aria-labelledby="{title}"><h2 id="{title}">Passage {number} of {total}, {escape(row.title)}</h2>\n'
        f"{place}<dl>{shown}{facts}</dl>{matrices}</section>"
    )


def _text(line: Line) -> str:
    return "".join(
        f"{' ' if piece.spaced and number else ''}{_piece(piece)}" for number, piece in enumerate(line.pieces)
    )


def _piece(piece: Piece) -> str:
    shown = _marked(piece)
    if not piece.under:
        return shown
    below = "".join(
        f'<span class="below {name}"><span class="unseen" lang="en"> ({_SAID_BELOW[name]} </span>'
        f'{escape(piece.under[name])}<span class="unseen">) </span></span>'
        for name in UNDER
        if name in piece.under
    )
    return f'<span class="stack"><span>{shown}</span>{below}</span>'


def _marked(piece: Piece) -> str:
    """The text in its colours and between its marks; who hears the page hears the meaning instead of the marks."""
    text = escape(piece.text)
    if piece.kind == PLAIN:
        return text
    before, after = (
        f'<span aria-hidden="true">{escape(mark)}</span>' if mark else "" for mark in MARKS.get(piece.kind, ("", ""))
    )
    tag = "del" if piece.kind == REMOVED else "span"
    meaning = escape(MEANING[piece.kind])
    return (
        f'<{tag} class="kind {piece.kind}" title="{meaning}"><span class="unseen" lang="en">{meaning}: </span>'
        f"{before}{text}{after}</{tag}>"
    )


def _list(lines: Iterable[tuple[str, str]]) -> str:
    """Names and texts; a text without a name belongs to the name above it."""
    named: list[tuple[str, list[str]]] = []
    for name, text in lines:
        if name or not named:
            named.append((name, []))
        named[-1][1].append(text)
    return "<dl>" + "".join(
        f"<div><dt>{escape(name)}</dt><dd>{'<br>'.join(map(escape, texts))}</dd></div>" for name, texts in named
    ) + "</dl>"


def _figure(matrix: Matrix) -> str:
    shown = matrix.crop(MOST_TOKENS)
    title = matrix.name
    if len(shown.tokens) < matrix.total:
        title += f", the first {len(shown.tokens)} of {matrix.total} tokens"
    listed = "".join(f"<li>{escape(line)}</li>" for line in _in_words(shown))
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>{_drawing(shown, title)}"
        f'<details><summary>Who sees whom, in words</summary><ol lang="">{listed}</ol></details></figure>'
    )


_NAMES, _CELL = 84, 14
"""Pixels that the names of the rows and a cell take, where the window is wide enough."""


def _drawing(matrix: Matrix, title: str) -> str:
    n = len(matrix.tokens)
    names = "".join(
        f'<text x="{_NAMES - 4}" y="{_CELL * row + 11}" text-anchor="end">{escape(_short(token))}</text>'
        for row, token in enumerate(matrix.tokens)
    )
    seen = "".join(
        f"M{_NAMES + _CELL * first} {_CELL * row}h{_CELL * (last - first + 1)}v{_CELL}H{_NAMES + _CELL * first}z"
        for row, places in enumerate(matrix.sees)
        for first, last in _stretches(places.nonzero()[0].tolist())
    )
    side = _CELL * n
    lines = "".join(f"M{_NAMES + at} 0v{side}M{_NAMES} {at}h{side}" for at in range(0, side + 1, _CELL))
    return (
        f'<svg role="img" aria-label="{escape(title)}, drawn; in words below" viewBox="0 0 {_NAMES + side} {side}" '
        f'width="{_NAMES + side}" height="{side}"><g aria-hidden="true">{names}</g>'
        f'<path class="seen" d="{seen}"/><path class="field" d="{lines}"/></svg>'
    )


def _short(token: str) -> str:
    return token if len(token) <= 10 else f"{token[:9]}…"


def _in_words(matrix: Matrix) -> Iterator[str]:
    """A line for each token: what it sees, by number."""
    for token, places in zip(matrix.tokens, matrix.sees):
        seen = [
            str(first + 1) if first == last else f"{first + 1} to {last + 1}"
            for first, last in _stretches(places.nonzero()[0].tolist())
        ]
        yield f"{token}: sees {', '.join(seen) if seen else 'nothing'}"


def _stretches(places: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of neighbouring places."""
    for _, run in groupby(enumerate(places), lambda item: item[1] - item[0]):
        found = [place for _, place in run]
        yield found[0], found[-1]
