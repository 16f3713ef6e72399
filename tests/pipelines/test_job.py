"""A run as data: its geometry, plan and feed follow from the recipe and the store, and it travels whole."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corruption.errors import InputError
from pipelines.job import Job, flat_identity
from pipelines.plan import Address
from pipelines.recipe import load_recipe
from pipelines.window import read_window
from tests.pipelines.small_run import module_of, prepare_here, small_job, small_recipe, write_corpus
from tests.pipelines.trained import news
from trainers import checkpoint
from trainers.optim import build_optimizer
from trainers.state import TrainState, weights_of


def test_geometry_follows_the_recipe_and_the_stored_lengths(small: Job) -> None:
    geometry = small.geometry(small.opened_store().train)
    train = small.recipe.train
    assert geometry.lanes == train.lanes == 2 and geometry.microbatch_tokens == train.microbatch_tokens
    # Masking keeps the length; [CLS] and [SEP] are two positions more.
    np.testing.assert_array_equal(geometry.positions, np.arange(len(geometry.positions)) + 2)
    assert geometry.positions[-1] <= small.recipe.corpus.max_tokens
    assert geometry.weights == (1.0,)


def test_weights_are_those_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus.txt", news()[:20])
    write_corpus(tmp_path / "other.txt", news()[20:40])
    sources = (
        "[{name: a, source: corpus.txt, documents: line, weight: 2.0}, {name: b, source: other.txt, documents: line}]"
    )
    small_recipe(tmp_path, "corpus.txt")
    lines = (tmp_path / "small.yaml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith("corpus:")]
    (tmp_path / "two.yaml").write_text("\n".join([*kept, f"corpus: {{sources: {sources}, max_tokens: 48}}"]))
    job = small_job(tmp_path, load_recipe(tmp_path / "two.yaml"))
    row_groups = job.opened_store().train
    assert job.geometry(row_groups).weights == (2.0, 1.0)
    rows = [int(row_groups.histogram[row_groups.source == i].sum()) for i in range(2)]
    plan = job.plan()
    seen = Counter()
    for row in plan.table(Address(0, 0, 0), 1000).to_pylist():
        if row["epoch"] == 0:
            for keys in read_window(row, job.feed(plan))["keys"].to_pylist():
                seen.update(keys)
    times = Counter(seen.values())
    assert times == {2: rows[0], 1: rows[1]}


def test_D_07_every_epoch_sees_every_passage_once(small: Job) -> None:
    """Three epochs through the plan and the windows: no epoch is empty, none leaves a passage out."""
    plan = small.plan()
    feed = small.feed(plan)
    seen: dict[int, Counter[int]] = {}
    cursor, wanted = Address(0, 0, 0), small.opened_store().train.rows
    for row in plan.table(cursor, 10_000).to_pylist():
        if row["epoch"] == 3:
            break
        for keys in read_window(row, feed)["keys"].to_pylist():
            seen.setdefault(row["epoch"], Counter()).update(keys)
    assert sorted(seen) == [0, 1, 2]
    for epoch in seen.values():
        assert len(epoch) == wanted and set(epoch.values()) == {1}
    assert seen[0].keys() == seen[1].keys() == seen[2].keys()


def test_the_job_travels(small: Job) -> None:
    again = pickle.loads(pickle.dumps(small))
    assert again.identity == small.identity and again.vocabulary.fingerprint == small.vocabulary.fingerprint
    assert again.recipe == small.recipe and again.recipe.name == small.recipe.name == "small"
    assert again.plan().address_of_step(9) == small.plan().address_of_step(9)


def test_a_vocabulary_without_what_the_frame_needs_is_refused(small: Job) -> None:
    lacking = replace(small, vocabulary=replace(small.vocabulary, sep=None, eos=None))
    with pytest.raises(InputError, match="sep"):
        lacking.feed(lacking.plan())


def test_the_resume_point_is_that_of_the_newest_whole_checkpoint(small: Job, tmp_path: Path) -> None:
    job = replace(small, folder=str(tmp_path))
    assert job.resume_point() == (0, Address(0, 0, 0))
    module = module_of(job)
    optimizer = build_optimizer(module, job.recipe.train)
    for step in (3, 5):
        state = TrainState(
            step, tuple(job.plan().address_of_step(step)), weights=weights_of(module), optimizer=optimizer.state_dict()
        )
        folder = checkpoint.save(job.checkpoints, state, job.identity)
    assert job.resume_point() == (5, job.plan().address_of_step(5))
    (folder / "model.safetensors").write_bytes(b"torn")
    assert job.resume_point() == (3, job.plan().address_of_step(3))


def test_identities_are_kept_as_text() -> None:
    assert flat_identity({"a": 1, "b": 0.5, "c": None, "d": "x"}) == {"a": "1", "b": "0.5", "c": "None", "d": "x"}


def test_a_store_that_is_found_again_gives_the_same_job(small: Job) -> None:
    report = prepare_here(small.recipe, Path(small.store))
    assert report.reused and report.store.identity == small.identity["corpus.manifest"]
