"""One idea per file: no module above 400 lines, half of them at most 130, no name that says nothing."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("corruption", "trainers", "pipelines")
MOST, MEDIAN, TRIVIAL = 400, 130, 15
NAMELESS = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc", "core"}


def sizes(root: Path) -> dict[str, int]:
    """Lines of each module, by path."""
    return {
        str(path.relative_to(root)): len(path.read_text("utf-8").splitlines())
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }


def too_long(found: dict[str, int]) -> list[str]:
    """Modules above the cap."""
    return [f"{path} has {lines} lines" for path, lines in found.items() if lines > MOST]


def nameless(found: dict[str, int]) -> list[str]:
    """Modules and folders whose name says nothing."""
    return [path for path in found if NAMELESS & {part.removesuffix(".py") for part in Path(path).parts}]


def median(found: dict[str, int]) -> float:
    """Median length of the modules that hold more than a few lines."""
    return statistics.median(lines for lines in found.values() if lines > TRIVIAL)


def test_no_module_is_too_long():
    assert too_long(sizes(ROOT)) == []


def test_the_median_module_is_short():
    assert median(sizes(ROOT)) <= MEDIAN


def test_names_say_something():
    assert nameless(sizes(ROOT)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_begins_with_a_docstring(package):
    bare = [
        str(path)
        for path in sorted((ROOT / package).rglob("*.py"))
        if (text := path.read_text("utf-8")).strip() and not text.lstrip().startswith('"""')
    ]
    assert bare == []


def test_the_checks_can_fail(tmp_path):
    for package in PACKAGES:
        (tmp_path / package / "deep").mkdir(parents=True)
    (tmp_path / "trainers" / "deep" / "utils.py").write_text("x = 1\n" * 401)
    (tmp_path / "pipelines" / "database.py").write_text("x = 1\n" * 20)
    found = sizes(tmp_path)
    assert too_long(found) == ["trainers/deep/utils.py has 401 lines"]
    assert nameless(found) == ["trainers/deep/utils.py"]
    assert median(found) == 210.5
