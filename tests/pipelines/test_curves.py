"""The drawing: its size, where things are, and that no input breaks it."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.curves import loss_curve

numbers = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, 5e-324, 1e308, -1e308, math.nan, math.inf]))
points = st.lists(st.tuples(numbers, numbers), max_size=30)


def rows(drawing: str) -> list[str]:
    """The rows of the drawing proper, right of the axis."""
    return [
        line.split("│", 1)[-1].split("┤", 1)[-1]
        for line in drawing.splitlines()
        if "│" in line or "┤" in line
    ]


def braille(text: str) -> bool:
    return any("\u2800" < letter <= "\u28ff" for letter in text)


def test_a_falling_line_falls() -> None:
    drawing = loss_curve([(step, 10 - step / 100) for step in range(601)], width=60, height=10)
    lines = rows(drawing)
    assert len(lines) == 10
    assert all(braille(line) for line in lines)
    starts = [len(line) - len(line.lstrip()) for line in lines]
    assert starts == sorted(starts) and starts[0] == 0 and len(lines[-1]) > 45
    assert max(map(len, drawing.splitlines())) <= 60


def test_axes_name_round_values_and_the_last_step() -> None:
    drawing = loss_curve([(0, 10.2), (600, 4.6)])
    labels = [line.split("┤")[0].strip() for line in drawing.splitlines() if "┤" in line]
    assert labels == ["10", "8", "6"]
    ticks = drawing.splitlines()[15]
    assert ticks.split() == ["0", "300", "step", "600"]
    assert ticks.endswith("step 600") and drawing.splitlines()[14].endswith("┬")


def test_marks_and_held_out_stand_at_their_level() -> None:
    drawing = loss_curve([(0, 10.0), (100, 0.0)], held_out=[(50, 10.0)], height=11, marks={"unigram": 5.0})
    lines = rows(drawing)
    assert lines[5].count("╌") > 50 and not any("╌" in line for i, line in enumerate(lines) if i != 5)
    assert lines[0].index("●") == pytest.approx(len(lines[5]) / 2, abs=1)
    assert "train, last 0" in drawing and "● held out, last 10" in drawing and "╌╌ unigram 5" in drawing


def test_a_level_line_is_in_the_middle() -> None:
    lines = rows(loss_curve([(step, 2.5) for step in range(10)], height=6))
    assert [i for i, line in enumerate(lines) if braille(line)] in ([2], [3])


def test_one_point_is_visible() -> None:
    drawing = loss_curve([(7, 3.0)])
    assert drawing.count("•") == 1 and "step 7" in drawing


def test_no_points() -> None:
    assert loss_curve([]) == "no loss to draw"
    assert loss_curve([(1, math.nan)], [(2, math.inf)]) == "no loss to draw: 2 values, none of them finite"


def test_values_that_are_not_finite_leave_a_gap_and_are_counted() -> None:
    whole = loss_curve([(step, 1.0) for step in range(101)])
    holed = loss_curve([(step, math.nan if 40 < step < 60 else 1.0) for step in range(101)])
    middle = next(line for line in rows(holed) if braille(line))
    assert "          " in middle and middle.strip() == middle.rstrip() and len(middle) > 60
    assert "(19 not finite)" in holed and "not finite" not in whole


def test_order_of_points_does_not_matter() -> None:
    series = [(step, 10 / (step + 1)) for step in range(50)]
    assert loss_curve(series[::-1]) == loss_curve(series)


def test_held_out_alone_is_drawn() -> None:
    assert loss_curve([], [(0, 1.0), (5, 0.5)]).count("●") == 3  # two dots and the legend


def test_many_points_are_fast_and_stay_inside() -> None:
    drawing = loss_curve([(step, 5 + math.sin(step)) for step in range(100_000)])
    assert len(rows(drawing)) == 14 and max(map(len, drawing.splitlines())) <= 72


@given(points, points, st.dictionaries(st.text("abc", max_size=3), numbers, max_size=5))
@example([(0.0, 0.0), (1.0, 5e-324)], [], {})
@example([(0.0, -9e299), (1.0, 9e299)], [], {})
@example([(0.0, 1.0), (5e-324, 2.0)], [], {})
def test_any_numbers_give_a_drawing_of_the_right_size(
    line: list[tuple[float, float]], dots: list[tuple[float, float]], marks: dict[str, float]
) -> None:
    drawing = loss_curve(line, dots, marks=marks, width=72, height=9)
    if drawing.startswith("no loss"):
        return
    assert len(rows(drawing)) == 9
    assert all(len(row) <= 71 for row in rows(drawing))
    assert max(map(len, drawing.splitlines()[:10])) <= 72
