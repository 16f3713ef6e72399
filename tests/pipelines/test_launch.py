"""What a person sees of a run, and how many CPUs our own Ray counts for it."""

from __future__ import annotations

import io

from pipelines.console import Console
from pipelines.launch import Shown, local_cpus
from pipelines.ray_session import PLUMBING
from pipelines.recipe import load_recipe


def shown(*reports: tuple[dict, list[str]]) -> list[str]:  # type: ignore[type-arg]
    out = io.StringIO()
    show = Shown(100, Console("text", out=out, err=out, every=0.0))
    for numbers, messages in reports:
        show(numbers, messages)
    return out.getvalue().splitlines()


def test_progress_stands_once_a_step() -> None:
    step = {"step": 10, "train/loss": 6.5, "train/tokens": 1000.0, "train/data_wait": 0.02}
    lines = shown(({"step": 0}, []), (step, []), ({**step, "checkpoint": 10}, ["hello"]))
    assert len([line for line in lines if line.startswith("pretrain")]) == 1
    assert lines[-1] == "hello"


def test_nothing_is_said_of_a_rate_before_there_is_one() -> None:
    assert shown(({"step": 0, "trainers": 2}, [])) == []


def test_a_local_ray_counts_trainers_corruptors_and_plumbing() -> None:
    recipe = load_recipe("demo", ["cluster.trainers=3", "cluster.corruptors=2"])
    assert local_cpus(recipe) == 3 + 2 + PLUMBING
