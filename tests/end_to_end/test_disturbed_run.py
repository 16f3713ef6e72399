"""A run terminated, interrupted, or with a trainer killed: no process is left, and it ends as the undisturbed one."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Made
from tests.end_to_end.tiny import (
    digests,
    kill,
    losses,
    papermoth,
    started,
    steps_done,
    trainers_of,
    wait_for,
    write_recipe,
)

EVERY = 10
"""Steps between two checkpoints."""


@pytest.mark.soak
@pytest.mark.timeout(500)
def test_terminated_then_resumed_on_two_trainers_of_which_one_is_killed(undisturbed: Made) -> None:
    folder = undisturbed.folder
    # No checkpoint is due before the end: the one that is found was written because of the signal.
    recipe = write_recipe(folder / "terminated.yaml", undisturbed.corpus, checkpoint_every=1000)
    run = folder / "terminated"
    code, output, family = signalled(run, recipe, folder, signal.SIGTERM)
    assert code == 143, output
    assert "with a checkpoint" in output and "Traceback" not in output
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    (saved,) = (run / "checkpoints").iterdir()
    stopped = int(saved.name.split("_")[1])
    assert status(run) == "KILLED"

    recipe = write_recipe(folder / "terminated.yaml", undisturbed.corpus, trainers=2, checkpoint_every=EVERY)
    output = killed(run, recipe, folder, after=stopped - stopped % EVERY + EVERY)
    assert f"going on after step {stopped} with 2 trainers" in output
    assert_it_ended_as(undisturbed, run)


@pytest.mark.timeout(500)
def test_sigkill_of_one_of_two_trainers(undisturbed: Made) -> None:
    recipe = write_recipe(undisturbed.folder / "killed.yaml", undisturbed.corpus, trainers=2, checkpoint_every=EVERY)
    killed(undisturbed.folder / "killed", recipe, undisturbed.folder, after=EVERY)
    assert_it_ended_as(undisturbed, undisturbed.folder / "killed")


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_control_c_ends_with_130_and_the_same_command_goes_on(undisturbed: Made) -> None:
    folder, run = undisturbed.folder, undisturbed.folder / "interrupted"
    recipe = write_recipe(folder / "interrupted.yaml", undisturbed.corpus)
    code, output, _ = signalled(run, recipe, folder, signal.SIGINT)
    assert code == 130, output
    assert "Traceback" not in output
    again = papermoth("pretrain", recipe, "--out", run, cwd=folder)
    assert again.returncode == 0 and "going on after step" in again.stdout, again.stdout + again.stderr
    assert_it_ended_as(undisturbed, run)


def signalled(
    run: Path, recipe: Path, folder: Path, number: signal.Signals
) -> tuple[int, str, list[psutil.Process]]:
    """Send the command a signal after five steps: its exit code, what it printed, and the processes it had."""
    with started("pretrain", recipe, "--out", run, cwd=folder) as process:
        wait_for(lambda: steps_done(run) >= 5, process)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
    return process.returncode, output, family


def killed(run: Path, recipe: Path, folder: Path, after: int) -> str:
    """SIGKILL one of two trainers some steps after the checkpoint of step `after`; what the command printed.

    Fails unless the command ended well by itself and replayed no more than one interval.
    """
    with started("pretrain", recipe, "--out", run, cwd=folder) as process:
        wait_for(lambda: steps_done(run) >= after + 4, process)
        victims = trainers_of(process)
        assert len(victims) == 2
        kill(victims[:1])
        reached = steps_done(run)
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    resumed = [int(line.split("after step ")[1].split()[0]) for line in output.splitlines() if "going on after" in line]
    assert resumed and 0 <= reached - resumed[-1] <= EVERY + 1, (reached, resumed, output)
    return output


def assert_it_ended_as(undisturbed: Made, run: Path) -> None:
    """The same bytes at every step, and one tracked run with one value a step."""
    assert digests(run) == digests(undisturbed.run)
    found = losses(run)
    assert sorted(found) == list(range(1, 51))
    assert all(len(values) == 1 for values in found.values()), "a replayed step was logged twice"
    assert status(run) == "FINISHED"


def status(run: Path) -> str:
    """Of the one tracked run of a job, whatever its restarts."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(json.loads((run / "run.json").read_text())["tracking"]["uri"])
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    named = [found for found in client.search_runs(ids) if found.info.run_name == run.name]
    assert len(named) == 1, "one run per job, whatever restarts"
    return str(named[0].info.status)
