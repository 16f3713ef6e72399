"""What the end-to-end tests share and make once, whichever process of the test run asks first: a prepared store, and
the undisturbed run that the disturbed ones are compared with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from tests.end_to_end.tiny import papermoth, write_corpus, write_recipe


@dataclass(frozen=True)
class Prepared:
    """A working folder with a corpus, a recipe, and the store that this and every other recipe of the corpus finds."""

    folder: Path
    corpus: Path
    recipe: Path


@dataclass(frozen=True)
class Made(Prepared):
    """And the run of the recipe, with one trainer and one corruptor, and what it printed."""

    run: Path
    output: str


def _once(folder: Path, *arguments: str | Path) -> str:
    """What the command prints; it runs only if no process of this test run has run it before in the folder."""
    told = folder / f"{arguments[0]}.txt"
    with FileLock(folder / f"{arguments[0]}.lock"):
        if not told.exists():
            done = papermoth(*arguments, cwd=folder)
            assert done.returncode == 0, done.stdout + done.stderr
            told.write_text(done.stdout, "utf-8")
    return told.read_text("utf-8")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "shared"
    recipe, corpus = folder / "one.yaml", folder / "corpus"
    with FileLock(folder.with_suffix(".lock")):
        if not recipe.exists():
            write_recipe(recipe, write_corpus(corpus))
    _once(folder, "prepare", recipe)
    return Prepared(folder, corpus, recipe)


@pytest.fixture(scope="session")
def undisturbed(prepared: Prepared) -> Made:
    output = _once(prepared.folder, "pretrain", prepared.recipe, "--out", "one")
    return Made(**vars(prepared), run=prepared.folder / "one", output=output)
