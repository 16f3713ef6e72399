"""The recipes that come with Papermoth, by name."""

from __future__ import annotations

from pathlib import Path

from corruption.errors import InputError

FOLDER = Path(__file__).parent / "recipes"


def shipped_recipes() -> list[str]:
    """Their names, sorted."""
    return sorted(item.name.removesuffix(".yaml") for item in FOLDER.iterdir() if item.name.endswith(".yaml"))


def shipped_text(name: str) -> str:
    """The YAML of one. Raises InputError with the nearest name when there is none such."""
    from corruption.registry import nearest

    if name not in shipped_recipes():
        raise InputError(
            f"recipe {name!r}", "no recipe of that name is shipped", nearest(name, shipped_recipes())
        )
    return (FOLDER / f"{name}.yaml").read_text("utf-8")


def describe(name: str) -> str:
    """What a recipe is: its first comment."""
    return shipped_text(name).partition("\n")[0].removeprefix("#").strip()
