"""The registry: one name, one corruption; messages that name the nearest; entry points of third parties."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from corruption import registry
from corruption.errors import InputError
from corruption.noise_kinds import Mask


@pytest.fixture
def names(monkeypatch):
    """A registry that forgets what a test puts into it."""
    known = dict(registry.kinds())
    monkeypatch.setattr(registry, "_KINDS", known)
    return known


def test_ours_are_there():
    assert registry.kinds()["mask"] is Mask


def test_a_taken_name_is_refused_and_registering_again_is_not(names):
    registry.register(Mask)

    class Other:
        kind: ClassVar[str] = "mask"

    with pytest.raises(ValueError, match="two corruptions are called 'mask'"):
        registry.register(Other)
    assert names["mask"] is Mask


@dataclass(frozen=True)
class Reverse:
    """A third party's corruption."""

    kind: ClassVar[str] = "reverse"
    provides: ClassVar[tuple[str, ...]] = ()
    times: int = 1
    quietly: bool = False


def test_third_parties_come_through_entry_points(names, monkeypatch):
    class Point(EntryPoint):
        def load(self):
            registry.register(Reverse)

    point = Point("reverse", "somewhere", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
    registry._load_entry_points.cache_clear()
    assert registry.kinds()["reverse"] is Reverse
    made = registry.parse_step({"kind": "reverse", "times": 3, "quietly": True})
    assert made == Reverse(3, True)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({}, "corruption: unknown kind None; choose one of attention_pattern, crop, "),
        ({"kind": "msk"}, "corruption: unknown kind 'msk'; did you mean 'mask'?"),
        ({"kind": ["mask"]}, "corruption: unknown kind ['mask']"),
        ({"kind": "mask", "ratio": 0.1}, "corruption mask.ratio: unknown field; did you mean 'rate'?"),
        ({"kind": "mask", "rate": "0.1"}, "corruption mask.rate: '0.1' is not of type float"),
        ({"kind": "mask", "rate": True}, "corruption mask.rate: True is not of type float"),
        ({"kind": "mask", "rate": None}, "corruption mask.rate: None is not of type float"),
        (
            {"kind": "mask", "unit": "words"},
            "corruption mask.unit: unknown value 'words'; did you mean 'word'?",
        ),
        ({"kind": "mask", "unit": 3}, "corruption mask.unit: unknown value 3; choose one of span, token, word"),
        ({"kind": "mask", "rate": 2}, "mask.rate: 2.0 is outside 0 to 1"),
    ],
)
def test_faults_of_a_step_are_told_with_the_nearest_name(step, says):
    with pytest.raises(InputError) as raised:
        registry.parse_step(step)
    assert str(raised.value).startswith(says)


def test_integers_stand_for_floats_but_not_booleans_for_integers(names):
    names["reverse"] = Reverse
    assert registry.parse_step({"kind": "mask", "rate": 1, "name": "anything"}) == Mask(rate=1.0)
    assert isinstance(registry.parse_step({"kind": "mask", "rate": 1}).rate, float)
    for bad in ({"times": True}, {"times": 1.0}, {"quietly": 1}):
        with pytest.raises(InputError, match="is not of type"):
            registry.parse_step({"kind": "reverse", **bad})
