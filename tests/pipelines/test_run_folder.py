"""A run's folder is claimed once, under one identity, and found again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines.job import Job
from pipelines.run_folder import RUN, claim, refuse_foreign, reopen
from pipelines.store import MANIFEST, json_bytes


def other_identity(job: Job, **changed: str) -> Job:
    return replace(job, identity={**job.identity, **{key.replace("__", "."): v for key, v in changed.items()}})


def test_claimed_and_claimed_again(small: Job, tmp_path: Path) -> None:
    made = claim(tmp_path / "run", small)
    assert made == claim(tmp_path / "run", small)
    assert made["identity"] == small.identity and made["name"] == "small" and made["store"] == small.store
    assert made["recipe"] == small.recipe.plain()
    assert [path.name for path in (tmp_path / "run").iterdir()] == [RUN]


def test_an_empty_folder_may_be_claimed(small: Job, tmp_path: Path) -> None:
    claim(tmp_path, small)
    assert (tmp_path / RUN).exists()


def test_another_identity_is_refused_by_the_keys_that_differ(small: Job, tmp_path: Path) -> None:
    claim(tmp_path, small)
    before = (tmp_path / RUN).read_bytes()
    with pytest.raises(InputError) as refused:
        claim(tmp_path, other_identity(small, train__learning_rate="0.5", seed="8"))
    assert str(refused.value).startswith(f"run {tmp_path}: it was begun with another ")
    assert "seed (3 there, 8 now), train.learning_rate (0.001 there, 0.5 now);" in str(refused.value)
    assert "--fresh" in refused.value.do
    assert (tmp_path / RUN).read_bytes() == before


def test_what_may_change_changes_no_identity(small: Job, tmp_path: Path) -> None:
    claim(tmp_path, small)
    longer = small.recipe.model_copy(update={"train": small.recipe.train.model_copy(update={"steps": 9})})
    assert claim(tmp_path, replace(small, recipe=longer))["identity"] == small.identity


@pytest.mark.parametrize("name", ["letter.txt", ".hidden"])
def test_a_foreign_folder_is_refused(small: Job, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run; give an empty or new folder"):
        claim(tmp_path, small)
    with pytest.raises(InputError, match="holds no run of ours"):
        refuse_foreign(tmp_path)
    with pytest.raises(InputError, match="it is a file"):
        claim(tmp_path / name, small)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_fresh_may_remove_a_run_and_an_empty_folder(small: Job, tmp_path: Path) -> None:
    refuse_foreign(tmp_path)
    record = claim(tmp_path, small)
    refuse_foreign(tmp_path)
    assert claim(tmp_path, small) == record, "looking removes nothing"


def test_a_run_is_bound_again_as_it_was(small: Job) -> None:
    job, record = reopen(Path(small.folder))
    assert job.recipe == small.recipe and job.recipe.name == "small"
    assert dict(job.identity) == dict(small.identity) and job.store == small.store and job.folder == small.folder
    assert job.vocabulary.fingerprint == small.vocabulary.fingerprint
    assert record["name"] == "small"
    assert job.plan().address_of_step(5) == small.plan().address_of_step(5)


def test_no_run_no_store_or_another_store_is_one_line(small: Job, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"it holds no {RUN}; give the folder that pretrain printed"):
        reopen(tmp_path)
    shutil.copytree(small.store, tmp_path / "store")
    claim(tmp_path / "run", replace(small, store=str(tmp_path / "store")))
    reopen(tmp_path / "run")
    shard = next((tmp_path / "store").glob("train-*.parquet"))
    shard.write_bytes(shard.read_bytes() + b"x")
    with pytest.raises(InputError, match=f"shard {shard.name} is"):
        reopen(tmp_path / "run")
    manifest = json.loads((tmp_path / "store" / MANIFEST).read_text())
    (tmp_path / "store" / MANIFEST).write_bytes(json_bytes({**manifest, "identity": "0" * 16}))
    with pytest.raises(InputError, match="it is not the one the run was trained on; prepare that one again"):
        reopen(tmp_path / "run")
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(InputError, match="the folder is not there; run papermoth prepare"):
        reopen(tmp_path / "run")


def test_a_recipe_that_this_version_does_not_know_is_one_line(small: Job, tmp_path: Path) -> None:
    made = claim(tmp_path / "run", small)
    made["recipe"]["train"]["a_key_of_another_version"] = 1
    (tmp_path / "run" / RUN).write_bytes(json_bytes(made))
    with pytest.raises(InputError, match=r"no longer one \(train\.a_key_of_another_version: .*--fresh"):
        reopen(tmp_path / "run")
