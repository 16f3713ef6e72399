"""A trainer killed between two checkpoints: the job ends by itself with the bytes of an undisturbed run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Made
from tests.end_to_end.tiny import digests, kill, losses, started, steps_done, trainers_of, wait_for, write_recipe

EVERY = 10


@pytest.mark.timeout(500)
def test_sigkill_of_one_of_two_trainers(undisturbed: Made) -> None:
    folder = undisturbed.folder
    recipe = write_recipe(folder / "killed.yaml", undisturbed.corpus, trainers=2, checkpoint_every=EVERY)
    run = folder / "killed"
    with started("pretrain", recipe, "--out", run, cwd=folder) as process:
        # After the first checkpoint and some steps into the next interval.
        wait_for(lambda: steps_done(run) >= EVERY + 4, process)
        victims = trainers_of(process)
        assert len(victims) == 2
        kill(victims[:1])
        reached = steps_done(run)
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    resumed = [int(line.split("after step ")[1].split()[0]) for line in output.splitlines() if "going on after" in line]
    assert resumed, output
    # The steps between the checkpoint and the kill are replayed, and no more than that.
    assert 0 <= reached - resumed[0] <= EVERY + 1, (reached, resumed)
    assert digests(run) == digests(undisturbed.run)
    found = losses(run)
    assert sorted(found) == list(range(1, 51))
    assert all(len(values) == 1 for values in found.values()), "a replayed step was logged twice"
    assert _status(run) == "FINISHED"


def _status(run: Path) -> str:
    from mlflow.tracking import MlflowClient

    tracking = json.loads((run / "run.json").read_text())["tracking"]
    client = MlflowClient(tracking["uri"])
    named = [
        r
        for e in client.search_experiments()
        for r in client.search_runs([e.experiment_id])
        if r.info.run_name == run.name
    ]
    assert len(named) == 1, "one run per job, whatever restarts"
    return str(named[0].info.status)
