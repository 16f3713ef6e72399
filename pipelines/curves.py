"""A loss curve drawn with characters, for a terminal or a text log."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from pipelines.readable import short

Point = tuple[float, float]
_BITS = (
    (0x01, 0x08),
    (0x02, 0x10),
    (0x04, 0x20),
    (0x40, 0x80),
)  # of a braille cell, by row and column of its dots
_HELD_OUT = "●"
_MARKS = "╌┄═"
_LARGEST = 1e300  # beyond it differences overflow: as good as infinite


def loss_curve(
    points: Sequence[Point],
    held_out: Sequence[Point] = (),
    width: int = 72,
    height: int = 14,
    marks: Mapping[str, float] | None = None,
) -> str:
    """Draw (step, loss) points as a line, held-out points as dots on it, and marks as level lines.

    The whole is `width` columns wide: `height` rows of drawing, two of axis, and a legend. Points may come in
    any order. Values that are not finite leave a gap and are counted in the legend. A pure function.
    """
    line, dots = _sorted(points), _sorted(held_out)
    levels = {name: value for name, value in (marks or {}).items() if abs(value) < _LARGEST}
    finite = [point for point in [*line, *dots] if math.isfinite(point[1])]
    missing = len(points) + len(held_out) - len(finite)
    if not finite:
        return "no loss to draw" + (f": {missing} values, none of them finite" if missing else "")
    height = max(height, 2)
    low, high = _range([y for _, y in finite] + list(levels.values()))
    left, right = min(x for x, _ in finite), max(x for x, _ in finite)
    labels = _labels(low, high, height)
    margin = max(len(label) for label in labels.values())
    columns = max(width - margin - 2, 16)

    def across(x: float) -> int:
        return _place(x - left, right - left, 2 * columns)

    def down(y: float) -> int:
        return _place(high - y, high - low, 4 * height)

    grid = _braille([(across(x), down(y)) if math.isfinite(y) else None for x, y in line], columns, height)
    for sign, value in zip(_cycle(len(levels)), levels.values()):
        row = grid[down(value) // 4]
        row[:] = [sign if cell == " " else cell for cell in row]
    for x, y in dots:
        if math.isfinite(y):
            grid[down(y) // 4][across(x) // 2] = _HELD_OUT
    ticks = sorted({left, (left + right) / 2 if right - left < 10 else round((left + right) / 2), right})
    places = [across(tick) // 2 for tick in ticks]
    rows = [
        f"{labels.get(i, ''):>{margin}} {'┤' if i in labels else '│'}{''.join(row).rstrip()}"
        for i, row in enumerate(grid)
    ]
    axis = "".join("┬" if i in places else "─" for i in range(columns))
    indent = " " * (margin + 2)
    legend = _legend(line, dots, levels, missing)
    rows += [f"{indent[1:]}└{axis}", indent + _ticks(ticks, places)]
    rows += textwrap.wrap(legend, max(width, 24), initial_indent=indent, subsequent_indent=indent)
    return "\n".join(rows)


def _sorted(points: Sequence[Point]) -> list[Point]:
    placed = [(float(x), float(y) if abs(y) < _LARGEST else math.nan) for x, y in points if abs(x) < _LARGEST]
    return sorted(placed, key=lambda point: point[0])


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    # A level line belongs in the middle, at a readable scale.
    if high - low <= max(1e-9 * max(abs(low), abs(high)), 1e-300):
        pad = 0.05 * abs(high) or 1.0
        return low - pad, high + pad
    return low, high


def _place(part: float, whole: float, cells: int) -> int:
    return round(part / whole * (cells - 1)) if whole > 0 else (cells - 1) // 2


def _labels(low: float, high: float, height: int) -> dict[int, str]:
    """Round numbers for the axis, each on the row nearest to it; at least two rows apart."""
    wanted = max(2, min(5, height // 3))
    rough = (high - low) / wanted
    scale = 10 ** math.floor(math.log10(rough))
    step = next(scale * nice for nice in (1, 2, 2.5, 5, 10) if scale * nice >= rough * 0.999)
    decimals = max(0, math.ceil(-math.log10(step) + (0.4 if round(step / scale, 6) == 2.5 else 0)))
    labels: dict[int, str] = {}
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        row = _place(high - i * step, high - low, 4 * height) // 4
        value = i * step
        labels[row] = f"{value:.{decimals}f}" if abs(value) < 1e4 and decimals < 7 else short(value)
    return labels or {0: f"{high:.4g}", height - 1: f"{low:.4g}"}


def _braille(path: Sequence[tuple[int, int] | None], columns: int, height: int) -> list[list[str]]:
    bits = [[0] * columns for _ in range(height)]
    alone = []
    for before, here, after in zip([None, *path], path, [*path[1:], None]):
        if here is None:
            continue
        for x, y in _segment(before or here, here):
            bits[y // 4][x // 2] |= _BITS[y % 4][x % 2]
        if before is None and after is None:
            alone.append(here)
    cells = [[chr(0x2800 + cell) if cell else " " for cell in row] for row in bits]
    for x, y in alone:  # one dot of a line is hardly seen
        cells[y // 4][x // 2] = "•"
    return cells


def _segment(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    run, rise = end[0] - start[0], end[1] - start[1]
    steps = max(abs(run), abs(rise), 1)
    return [(start[0] + round(i * run / steps), start[1] + round(i * rise / steps)) for i in range(steps + 1)]


def _ticks(ticks: Sequence[float], places: Sequence[int]) -> str:
    row = ""
    for tick, place in zip(ticks, places):
        text = f"step {short(tick)}" if tick == ticks[-1] else short(tick)
        # The last label ends at its tick, so that nothing stands outside the drawing.
        start = (
            place + 1 - len(text)
            if place > 0 and tick == ticks[-1] and len(ticks) > 1
            else place - len(text) // 2
        )
        row = row.ljust(max(start, 0)) + text
    return row


def _legend(line: Sequence[Point], dots: Sequence[Point], levels: Mapping[str, float], missing: int) -> str:
    parts = [
        f"{sign} {name}, last {series[-1][1]:.4g}"
        for sign, name, series in (("⠤⠤", "train", line), (_HELD_OUT, "held out", dots))
        if series
    ]
    parts += [
        f"{sign}{sign} {name} {value:.4g}" for sign, (name, value) in zip(_cycle(len(levels)), levels.items())
    ]
    if missing:
        parts.append(f"({missing} not finite)")
    return "   ".join(parts)


def _cycle(count: int) -> str:
    return (_MARKS * (count // len(_MARKS) + 1))[:count]
