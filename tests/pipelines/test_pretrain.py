"""Pretrain up to its launch: the plan it tells, what it refuses, and what it does with a run that is there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corruption.errors import InputError
from pipelines import pretrain as pretrain_module
from pipelines.job import MODEL, Job
from pipelines.pretrain import bind, pretrain, say_plan
from pipelines.recipe import Recipe
from pipelines.run_folder import RUN
from tests.pipelines.small_run import Heard, module_of, prepare_here, small_recipe, write_corpus
from trainers import checkpoint
from trainers.optim import build_optimizer
from trainers.state import TrainState, weights_of


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, int]]:
    """(folder, steps done) of each launch, in place of a training; prepare runs without Ray."""
    calls: list[tuple[Path, int]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretrain_module, "launch", lambda job, folder, run, done, *_: calls.append((folder, done)))

    def prepare(recipe: Recipe, *, console: Any, **options: Any):
        options.pop("session"), options.pop("address")
        return prepare_here(recipe, **options)

    monkeypatch.setattr(pretrain_module, "prepare", prepare)
    return calls


def recipe_in(folder: Path, *overrides: str) -> Recipe:
    if not (folder / "corpus.txt").exists():
        write_corpus(folder / "corpus.txt")
    return small_recipe(folder, folder / "corpus.txt", overrides)


def finish(job: Job, folder: Path, steps: int) -> None:
    """Leave what a training of so many steps leaves."""
    job = replace(job, folder=str(folder))
    module = module_of(job)
    optimizer = build_optimizer(module, job.recipe.train).state_dict()
    cursor = tuple(job.plan().address_of_step(steps))
    checkpoint.save(
        job.checkpoints, TrainState(steps, cursor, weights=weights_of(module), optimizer=optimizer), job.identity
    )
    (folder / MODEL).mkdir(exist_ok=True)


def test_H_07_the_plan_says_steps_and_the_epochs_they_make(small: Job) -> None:
    heard = Heard()
    seven = small.recipe.model_copy(update={"train": small.recipe.train.model_copy(update={"steps": 7})})
    say_plan(replace(small, recipe=seven), Path(small.folder), heard.console)
    epochs = small.plan().epochs_of(7)
    assert f"plan: 7 steps ({epochs:.2f} epochs) of 2 microbatches of at most 512 positions; padding " in heard.out
    assert 0 < epochs < 3 and "model: bert, " in heard.out


def test_a_dry_run_tells_the_plan_and_makes_no_run(launched: list[tuple[Path, int]], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not prepared yet"):
        pretrain(recipe_in(tmp_path), dry_run=True, console=Heard().console)
    prepare_here(recipe_in(tmp_path))
    heard = Heard()
    folder = pretrain(recipe_in(tmp_path), dry_run=True, console=heard.console)
    assert folder.parent == tmp_path / "runs" and folder.name.startswith("small-")
    assert "plan: 4 steps" in heard.out and not folder.exists() and not launched


def test_a_run_is_claimed_and_launched_and_gone_on_with(launched: list[tuple[Path, int]], tmp_path: Path) -> None:
    folder = pretrain(recipe_in(tmp_path), console=Heard().console)
    assert launched == [(folder, 0)] and (folder / RUN).exists()
    job, _ = bind(recipe_in(tmp_path), prepare_here(recipe_in(tmp_path)), folder)
    finish(job, folder, 2)
    pretrain(recipe_in(tmp_path), console=Heard().console)
    assert launched[-1] == (folder, 2)


def test_H_03_a_finished_run_does_nothing_more(launched: list[tuple[Path, int]], tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    job, folder = bind(recipe, prepare_here(recipe))
    pretrain(recipe, console=Heard().console)
    finish(job, folder, 4)
    before = sorted(tmp_path.rglob("*"))
    for overrides in ((), ("train.steps=3",)):
        heard = Heard()
        assert pretrain(recipe_in(tmp_path, *overrides), console=heard.console) == folder
        assert "nothing to do. The model is in runs/" in heard.out
    assert len(launched) == 1 and sorted(tmp_path.rglob("*")) == before
    pretrain(recipe_in(tmp_path, "train.steps=6"), console=Heard().console)
    assert launched[-1] == (folder, 4), "more steps are gone on to"
    shutil.rmtree(folder / MODEL)
    pretrain(recipe, console=Heard().console)
    assert len(launched) == 3, "a run whose model is missing is finished"


def test_fresh_starts_anew_but_touches_nothing_foreign(launched: list[tuple[Path, int]], tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path)
    job, _ = bind(recipe, prepare_here(recipe))
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    pretrain(recipe, out=Path("link"), console=Heard().console)
    finish(job, tmp_path / "disk", 2)
    pretrain(recipe, out=Path("link"), fresh=True, console=Heard().console)
    assert launched == [(tmp_path / "disk", 0)] * 2 and (tmp_path / "link").is_symlink()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    for fresh in (False, True):
        with pytest.raises(InputError, match="--out"):
            pretrain(recipe, out=Path("mine"), fresh=fresh, console=Heard().console)
        with pytest.raises(InputError, match="it is a file"):
            pretrain(recipe, out=Path("corpus.txt"), fresh=fresh, console=Heard().console)
    assert (tmp_path / "mine" / "letter.txt").exists() and len(launched) == 2


def test_another_identity_in_the_same_folder_is_refused(launched: list[tuple[Path, int]], tmp_path: Path) -> None:
    pretrain(recipe_in(tmp_path), out=Path("run"), console=Heard().console)
    with pytest.raises(InputError, match=r"another seed \(3 there, 8 now\)"):
        pretrain(recipe_in(tmp_path, "seed=8"), out=Path("run"), console=Heard().console)
    assert len(launched) == 1
