"""A small real run for the end-to-end tests: a little prose, a tiny model, the command line in its own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

RECIPE = """
seed: 3
corpus:     {{source: "{source}", format: {format}, max_tokens: 48, held_out: 0.05, row_group_tokens: 2048}}
tokenizer:  {{train: {{kind: wordpiece, vocab_size: 1000, lowercase: true}}}}
corruption: [{{kind: mask}}]
objective:  {{kind: mlm}}
model:      {{kind: bert, layers: 1, width: 32, heads: 2}}
train:      {{steps: {steps}, decay_steps: 60, tokens_per_step: 1536, microbatch_tokens: 512, learning_rate: 1.0e-3,
             warmup_steps: 5, log_every: 1, evaluate_every: 30, checkpoint_every: {checkpoint_every}}}
sampler:    {{kind: shuffled, window_row_groups: 2}}
cluster:    {{trainers: {trainers}, corruptors: {corruptors}, chunk_steps: 4}}
tracking:   {{experiment: end-to-end, digests: true}}
"""


def write_corpus(folder: Path, documents: int = 60) -> Path:
    """A folder of text files, cut from the prose that Python's own documentation ships."""
    from pydoc_data.topics import topics

    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(sorted(topics)[:documents]):
        (folder / f"{number:03d}.txt").write_text(topics[name], encoding="utf-8")
    return folder


def write_recipe(
    path: Path,
    corpus: Path,
    *,
    steps: int = 50,
    trainers: int = 1,
    corruptors: int = 1,
    checkpoint_every: int = 10,
    format: str = "text",
) -> Path:
    """The recipe of a run of `steps` steps of three lanes."""
    path.write_text(
        RECIPE.format(
            source=corpus,
            steps=steps,
            trainers=trainers,
            corruptors=corruptors,
            checkpoint_every=checkpoint_every,
            format=format,
        )
    )
    return path


def command(*arguments: str | Path) -> list[str]:
    """The command line as a user's shell would start it."""
    return [str(Path(sys.executable).parent / "papermoth"), *map(str, arguments)]


def papermoth(*arguments: str | Path, cwd: Path, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and keep what it prints."""
    return subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=timeout, env=environment(), check=False
    )


def started(*arguments: str | Path, cwd: Path) -> subprocess.Popen[str]:
    """The same, to be disturbed while it runs; what it prints comes out of `communicate`."""
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """The environment of a command: offline, and nothing of a Ray of this process."""
    return {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | {"HF_HUB_OFFLINE": "1"}


def digests(run: Path) -> list[str]:
    """The digest of each step, in order; fails when a step is missing or stands twice."""
    lines = [json.loads(line) for line in (run / "digests.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
    return [line["digest"] for line in lines]


def losses(run: Path) -> dict[int, list[float]]:
    """Every value of train/loss that MLflow holds, by step."""
    from mlflow.tracking import MlflowClient

    tracking = json.loads((run / "run.json").read_text())["tracking"]
    found: dict[int, list[float]] = {}
    for entry in MlflowClient(tracking["uri"]).get_metric_history(tracking["run_id"], "train/loss"):
        found.setdefault(entry.step, []).append(entry.value)
    return found


def runs_in(database: Path) -> list[str]:
    """The status of every run in a tracking database."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{database}")
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return [run.info.status for run in client.search_runs(ids)]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 200) -> None:
    """Wait until something is true while the process lives."""
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the command ended before it was to be disturbed"
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.05)


def steps_done(run: Path) -> int:
    """Steps whose digest is written."""
    path = run / "digests.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def trainers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The trainer processes of a running command, found among its own children."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if any("RayTrainWorker" in part for part in child.cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found


def kill(processes: Sequence[psutil.Process]) -> None:
    """SIGKILL, by pid."""
    for process in processes:
        process.send_signal(signal.SIGKILL)
