"""Trainers, corruptors and memory against what there is."""

from __future__ import annotations

import pytest

from pipelines.doctor_room import check_memory, check_resources, cpus_needed, here_findings
from pipelines.ray_session import PLUMBING
from pipelines.recipe import load_recipe


def recipe(trainers: int, gpus: str = "auto", corruptors: str = "2"):
    settings = [f"cluster.trainers={trainers}", f"cluster.gpus={gpus}", f"cluster.corruptors={corruptors}"]
    return load_recipe("demo", settings)


@pytest.mark.parametrize(
    ("asked", "cpus", "gpus", "wrong"),
    [
        (recipe(2), 4 + PLUMBING, 0, ""),
        (recipe(2), 3 + PLUMBING, 0, "add CPU nodes"),
        (recipe(2), 2 + PLUMBING, 2, ""),
        (recipe(4), 16, 2, "set cluster.trainers to 2, add GPUs"),
        (recipe(4, "true"), 16, 2, "set cluster.trainers to 2 or add GPUs"),
        (recipe(4, "true"), 16, 0, "set cluster.gpus to false or add GPUs"),
        (recipe(4, "false"), 16, 2, ""),
        (recipe(2, "false", "auto"), 3 + PLUMBING, 0, ""),
    ],
)
def test_who_needs_what(asked, cpus, gpus, wrong):
    found = [finding.do for finding in check_resources(asked, cpus, gpus, "there")]
    assert any(wrong and wrong in do for do in found) == bool(wrong)
    assert wrong or not any(found)


def test_trainers_with_gpus_need_no_cpus():
    assert cpus_needed(recipe(4), 4) == 2 + PLUMBING
    assert cpus_needed(recipe(4), 0) == 6 + PLUMBING


def test_memory_is_compared():
    assert not check_memory(5, 5, "there").do
    assert "2 trainers there need 6" in check_memory(6, 5, "there", 2).what and check_memory(6, 5, "there", 2).do


def test_this_machine_counts_all_trainers_together():
    found = list(here_findings(recipe(2, "false"), 1 << 50))
    assert [bool(finding.do) for finding in found] == [False, True] and "2 trainers there need" in found[-1].what
    assert len(list(here_findings(recipe(2, "false"), None))) == 1
