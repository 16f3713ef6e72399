"""Launch: the stream, the trainers and the tracker of one run, started, watched and closed."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pipelines.console import Console
from pipelines.identity import identity
from pipelines.job import MODEL, OUTCOME, Job, read_outcome
from pipelines.outcome import JobFailed
from pipelines.ray_session import PLUMBING, RaySession
from pipelines.readable import counted, shown
from pipelines.recipe import Recipe
from pipelines.run_folder import RUN
from pipelines.stopping import Stopped, StopRequest
from pipelines.store import damage_in, json_bytes, write_atomically


def launch(job: Job, folder: Path, run: dict[str, Any], done: int, session: RaySession, console: Console) -> None:
    """Open the tracked run, train to the end, and close it as it ended.

    Raises JobFailed when training broke, SystemExit with 130 or 143 after a signal; a trainer's own error is a bug and
    raised as it is.
    """
    from pipelines.tracking import SystemMetrics, finish_run, log_dataset, log_model_folder, open_run

    recipe = job.recipe
    parts = identity(job.identity)
    uri = recipe.tracking.uri or f"sqlite:///{Path('runs/mlflow.db').absolute()}"
    store = job.opened_store()
    handle = open_run(
        uri,
        recipe.tracking.experiment,
        folder.name,
        params=recipe.flat(),
        tags={
            "papermoth.identity": parts,
            "papermoth.corpus": store.identity,
            "papermoth.tokenizer": str(job.identity.get("tokenizer.fingerprint", "")),
            "papermoth.recipe": recipe.name,
            "papermoth.objective": recipe.objective.kind,
            "papermoth.folder": str(folder),
        },
        run_id=run.get("tracking", {}).get("run_id"),
        warn=console.warn,
    )
    tracking = {"uri": handle.uri, "run_id": handle.run_id}
    run = {**run, "tracking": tracking, "recipe": recipe.plain(), "store": job.store}
    write_atomically(folder / RUN, json_bytes(run))
    if not done:
        log_dataset(
            handle,
            name=store.folder.name,
            digest=store.identity,
            source=str(store.folder),
            profile={"passages": store.manifest["passages"], "tokens": store.manifest["tokens"]},
        )
    (folder / OUTCOME).unlink(missing_ok=True)
    status: Literal["FINISHED", "FAILED", "KILLED"] = "FAILED"
    try:
        session.start()
        with SystemMetrics(handle):
            signalled = _fit(replace(job, tracking=handle), folder, console)
        outcome = read_outcome(folder)
        if outcome["status"] == "stopped":
            console.say(f"{outcome['message']}; the same command goes on from there")
            raise SystemExit(signalled or 1)
        if outcome["status"] != "finished":
            saved, _ = job.resume_point()
            where = f"; the checkpoint of step {saved} is in {shown(job.checkpoints)}" if saved else ""
            raise JobFailed(outcome["message"] + where)
        log_model_folder(handle, folder / MODEL, f"{recipe.name}-{parts[:8]}", _last_held_out(handle))
        status = "FINISHED"
    except Exception as error:
        if fault := damage_in(error):
            raise JobFailed(fault) from None
        raise
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        raise
    finally:
        finish_run(handle, status)
    console.done("pretrain", steps=outcome["step"], tokens=outcome["tokens"])
    console.say(f"finished {outcome['message']}. The model is in {shown(folder / MODEL)}")


def local_cpus(recipe: Recipe) -> int:
    """CPUs that our own local Ray counts: one per trainer and corruptor, and those of the plumbing."""
    corruptors = recipe.cluster.corruptors
    return recipe.cluster.trainers + (_cores() if corruptors == "auto" else int(corruptors)) + PLUMBING


def _cores() -> int:
    return os.cpu_count() or 1


def _fit(job: Job, folder: Path, console: Console) -> int | None:
    """Run the TorchTrainer to its end; returns the exit code of a signal that was heard meanwhile.

    Raises SystemExit with it when the trainers did not stop in time.
    """
    # A short interval: a dead trainer is noticed soon.
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    from pipelines.lane_config import DATASET, LaneConfig, WindowSource
    from pipelines.progress_board import Board, Watcher
    from pipelines.trainer_task import work

    recipe = job.recipe
    gpus = recipe.cluster.gpus
    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    use_gpu = found.get("GPU", 0) >= recipe.cluster.trainers if gpus == "auto" else bool(gpus)
    board: Any = ray.remote(num_cpus=0)(Board).remote()
    options: dict[str, Any] = {"num_cpus": 1}
    trainer = TorchTrainer(
        work,
        train_loop_config={"job": job, "board": board},
        scaling_config=ScalingConfig(
            num_workers=recipe.cluster.trainers, use_gpu=use_gpu, resources_per_worker=None if use_gpu else {"CPU": 1}
        ),
        torch_config=TorchConfig(backend="nccl" if use_gpu else "gloo"),
        datasets={DATASET: WindowSource(job, options)},
        dataset_config=LaneConfig(job, options),
        run_config=RunConfig(
            # Our own checkpoints are what a run resumes from; a name used once keeps Ray from looking for its own.
            name=f"{folder.name}-{time.time_ns()}",
            storage_path=str(folder / "ray"),
            failure_config=FailureConfig(max_failures=recipe.cluster.max_failures),
        ),
    )
    console.say(f"starting {counted(recipe.cluster.trainers, 'trainer')}")
    watcher = Watcher(board, Shown(recipe.train.steps, console))

    def ask() -> None:
        console.say("stopping after this step, with a checkpoint; the same command goes on from there")
        ray.get(board.stop.remote())

    try:
        with StopRequest(ask) as request:
            try:
                request.run(trainer.fit)
            except Stopped:
                console.warn("the trainers did not stop in time; the next start goes on from the newest checkpoint")
                raise SystemExit(request.exit_code()) from None
            return None if request.signal is None else request.exit_code()
    finally:
        watcher.close()
        shutil.rmtree(folder / "ray", ignore_errors=True)


class Shown:
    """Turns what is on the board into lines: its messages, and progress once a step."""

    def __init__(self, steps: int, console: Console) -> None:
        self._steps, self._console = steps, console
        self._step = -1

    def __call__(self, numbers: dict[str, Any], messages: list[str]) -> None:
        for message in messages:
            self._console.say(message)
        step = numbers.get("step", 0)
        # The first report of a start has no rate yet, only the time that starting took.
        if "train/loss" in numbers and step != self._step:
            self._step = step
            fields = {"loss": "train/loss", "tokens": "train/tokens", "wait": "train/data_wait"}
            shown = {name: numbers[key] for name, key in fields.items() if key in numbers}
            self._console.progress("pretrain", step, self._steps, **shown)


def _last_held_out(handle: Any) -> dict[str, float]:
    from pipelines.tracking import metric_history

    found = {}
    for name in ("held_out/loss", "held_out/perplexity", "held_out/accuracy"):
        history = metric_history(handle, name)
        if history:
            found[name] = history[-1][1]
    return found
