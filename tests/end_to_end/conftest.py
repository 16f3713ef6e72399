"""The undisturbed run that the disturbed ones are compared with: made once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.tiny import papermoth, write_corpus, write_recipe


@dataclass(frozen=True)
class Made:
    """A working folder with a corpus, and the run of its recipe with one trainer and one corruptor."""

    folder: Path
    corpus: Path
    run: Path
    output: str


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("undisturbed")
    corpus = write_corpus(folder / "corpus")
    recipe = write_recipe(folder / "tiny.yaml", corpus)
    done = papermoth("pretrain", recipe, "--out", "one", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return Made(folder, corpus, folder / "one", done.stdout)
