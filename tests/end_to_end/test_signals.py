"""SIGTERM and Ctrl-C in the middle of a run: a checkpoint, the right exit code, no process left, the same end."""

from __future__ import annotations

import json
import signal
import time

import psutil
import pytest

from tests.end_to_end.conftest import Made
from tests.end_to_end.tiny import digests, papermoth, started, steps_done, wait_for, write_recipe


@pytest.mark.timeout(400)
def test_sigterm_saves_and_the_same_command_goes_on(undisturbed: Made) -> None:
    folder = undisturbed.folder
    # No checkpoint is due before the end: the one that is found was written because of the signal.
    recipe = write_recipe(folder / "term.yaml", undisturbed.corpus, checkpoint_every=1000)
    run = folder / "terminated"
    code, output, family = _disturb(run, recipe, folder, signal.SIGTERM)
    assert code == 143, output
    assert "with a checkpoint" in output and "Traceback" not in output
    until = time.monotonic() + 20
    while any(process.is_running() for process in family) and time.monotonic() < until:
        time.sleep(0.2)
    assert not [process for process in family if process.is_running()]
    (saved,) = (run / "checkpoints").iterdir()
    assert _status(run) == "KILLED"

    again = papermoth("pretrain", recipe, "--out", run, cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"going on after step {int(saved.name.split('_')[1])} " in again.stdout
    assert digests(run) == digests(undisturbed.run)
    assert _status(run) == "FINISHED"


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_control_c_ends_with_130(undisturbed: Made) -> None:
    folder = undisturbed.folder
    recipe = write_recipe(folder / "int.yaml", undisturbed.corpus)
    code, output, _ = _disturb(folder / "interrupted", recipe, folder, signal.SIGINT)
    assert code == 130, output
    assert "Traceback" not in output


def _disturb(run, recipe, folder, number):  # type: ignore[no-untyped-def]
    with started("pretrain", recipe, "--out", run, cwd=folder) as process:
        wait_for(lambda: steps_done(run) >= 5, process)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
    return process.returncode, output, family


def _status(run) -> str:  # type: ignore[no-untyped-def]
    from mlflow.tracking import MlflowClient

    tracking = json.loads((run / "run.json").read_text())["tracking"]
    return str(MlflowClient(tracking["uri"]).get_run(tracking["run_id"]).info.status)
