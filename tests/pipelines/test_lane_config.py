"""Each start of the trainers gets the stream from the newest checkpoint on, dealt to as many as there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines import lane_config
from pipelines.job import Job
from pipelines.lane_config import DATASET, LaneConfig, WindowSource
from pipelines.plan import Address
from tests.pipelines.small_run import module_of
from trainers import checkpoint
from trainers.optim import build_optimizer
from trainers.state import TrainState, weights_of


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How the stream was asked for, instead of a stream."""
    calls: list[dict[str, Any]] = []

    def windows(plan, feed, cursor, steps, *, corruptors, options):
        calls.append({"cursor": cursor, "steps": steps, "corruptors": corruptors, "options": options})
        return "a dataset"

    monkeypatch.setattr(lane_config, "windows", windows)
    return calls


def with_corruptors(job: Job, folder: Path, corruptors: int | str, **train: int) -> Job:
    recipe = job.recipe.model_copy(
        update={
            "cluster": job.recipe.cluster.model_copy(update={"corruptors": corruptors, "chunk_steps": 7}),
            "train": job.recipe.train.model_copy(update=train),
        }
    )
    return replace(job, recipe=recipe, folder=str(folder))


def test_a_new_run_starts_at_the_beginning(small: Job, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    for given, wanted in (("auto", None), (3, 3)):
        assert WindowSource(with_corruptors(small, tmp_path, given), {"num_cpus": 1})() == "a dataset"
        assert asked[-1] == {
            "cursor": Address(0, 0, 0), "steps": 4, "corruptors": wanted, "options": {"num_cpus": 1}
        }  # fmt: skip


def test_a_restart_reads_from_the_newest_checkpoint_on(small: Job, tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    job = with_corruptors(small, tmp_path, "auto", steps=10)
    source = WindowSource(job, {})
    source()
    module = module_of(job)
    cursor = job.plan().address_of_step(6)
    optimizer = build_optimizer(module, job.recipe.train).state_dict()
    state = TrainState(6, tuple(cursor), weights=weights_of(module), optimizer=optimizer)
    checkpoint.save(job.checkpoints, state, job.identity)
    source()
    assert [(call["cursor"], call["steps"]) for call in asked] == [(Address(0, 0, 0), 10), (cursor, 4)]
    # A run that only lost its export still needs a dataset that is not empty.
    WindowSource(with_corruptors(small, tmp_path, "auto", steps=6), {})()
    assert asked[-1]["steps"] == 1


@pytest.mark.parametrize("trainers", [1, 2])
def test_each_trainer_gets_one_iterator_of_its_lanes(
    small: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainers: int
) -> None:
    job = with_corruptors(small, tmp_path, "auto")
    calls: list[tuple[Any, ...]] = []

    def split(dataset, feed, size, chunk, options):
        calls.append((dataset, size, chunk, options))
        assert feed.store == job.store and feed.geometry.lanes == 2
        return [f"part {rank}" for rank in range(size)]

    class Data(SimpleNamespace):
        def copy(self, other: Any) -> Any:
            return Data(context=SimpleNamespace(execution_options=None), original=other)

    monkeypatch.setattr(lane_config, "split", split)
    given = Data()
    parts = LaneConfig(job, {"num_cpus": 1}).configure({DATASET: given}, trainers, None, None)
    assert parts == [{DATASET: f"part {rank}"} for rank in range(trainers)]
    (dataset, size, chunk, options) = calls[0]
    assert dataset.original is given and dataset.context.execution_options is not None
    assert (size, chunk, options) == (trainers, 7, {"num_cpus": 1})
