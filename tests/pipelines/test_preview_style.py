from __future__ import annotations

import re

import pytest

from pipelines.preview_rows import MEANING
from pipelines.preview_style import DARK, GROUND, LIGHT, style


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """From 1 (the same) to 21 (black on white)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_can_be_read_on_its_ground(colours):
    assert set(MEANING) < set(colours)
    assert {name: contrast(*pair) for name, pair in colours.items() if contrast(*pair) < 4.5} == {}
    assert all(colours[name][1] == colours[GROUND][1] for name in ("dim", "under"))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_no_two_kinds_have_one_ground(colours):
    assert len({colours[kind][1] for kind in MEANING}) == len(MEANING)


def test_the_sheet_is_whole():
    sheet = style()
    assert sheet.count("{") == sheet.count("}")
    assert "prefers-color-scheme: dark" in sheet and "max-width: 36rem" in sheet
    used, defined = set(re.findall(r"var\(--([\w-]+)\)", sheet)), set(re.findall(r"--([\w-]+):", sheet))
    assert used <= defined and contrast("#000000", "#ffffff") == pytest.approx(21)
    assert all(f".{kind} {{" in sheet for kind in MEANING)
