"""Pretrain: the stream, the trainers and the tracker of one run, launched, watched and finished."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Literal

from pipelines.console import Console
from pipelines.identity import identity, identity_parts
from pipelines.job import MODEL, OUTCOME, Job, flat_identity
from pipelines.outcome import JobFailed
from pipelines.prepare import PrepareReport, prepare, vocabulary_of
from pipelines.ray_session import PLUMBING, RaySession
from pipelines.readable import shown
from pipelines.recipe import Recipe
from pipelines.run_folder import RUN, claim, refuse_foreign
from pipelines.store import json_bytes, write_atomically

RUNS = Path("runs")


def pretrain(
    recipe: Recipe,
    *,
    out: Path | None = None,
    fresh: bool = False,
    dry_run: bool = False,
    strict: bool = False,
    address: str | None = None,
    console: Console,
) -> Path:
    """Run the recipe to its last step, or go on where it was; returns the run's folder.

    The store is prepared first where it is missing. Raises InputError for what the user can correct, JobFailed when
    training broke or there was nothing to learn.
    """
    with RaySession(address, cpus=_local_cpus(recipe)) as session:
        report = prepare(
            recipe, strict=strict, address=address, session=session, only_look=dry_run, console=console
        )
        return _pretrain(recipe, report, out, fresh, dry_run, session, console)


def _pretrain(
    recipe: Recipe,
    report: PrepareReport,
    out: Path | None,
    fresh: bool,
    dry_run: bool,
    session: RaySession,
    console: Console,
) -> Path:
    job, folder = bind(recipe, report, out)
    say_plan(job, folder, console)
    if dry_run:
        return folder
    if fresh and folder.exists():
        refuse_foreign(folder)
        shutil.rmtree(folder)
    run = claim(folder, job)
    done, _ = job.resume_point()
    if done >= recipe.train.steps and (folder / MODEL).exists():
        console.say(
            f"already at step {done} of {recipe.train.steps}: nothing to do. The model is in {shown(folder / MODEL)}"
        )
        return folder
    _launch(job, folder, run, done, session, console)
    return folder


def bind(recipe: Recipe, report: PrepareReport, out: Path | None = None) -> tuple[Job, Path]:
    """The recipe with its store, vocabulary, identity and run folder. Raises InputError when they do not fit."""
    from pipelines.tokenizers import check_tokenizer, tokenizer_fingerprint

    vocabulary = vocabulary_of(report.tokenizer)
    kind = recipe.objective.kind
    parts = identity_parts(recipe, corpus=report.store.identity, tokenizer=tokenizer_fingerprint(report.tokenizer))
    folder = (out or RUNS / f"{recipe.name}-{identity(parts)[:8]}").expanduser().absolute()
    job = Job(recipe, str(report.store.folder), str(folder), vocabulary, flat_identity(parts))
    check_tokenizer(report.tokenizer, job.data.needs_tokens, kind, None)
    job.feed(job.plan())
    return job, folder


def say_plan(job: Job, folder: Path, console: Console) -> None:
    """What the run will be: steps and epochs, passages, padding, the model's size and memory."""
    from trainers.models.size import model_size

    recipe, plan = job.recipe, job.plan()
    size = model_size(recipe.model, job.vocabulary, recipe.corpus.max_tokens)
    console.say(f"run {recipe.name} in {shown(folder)}")
    console.say(
        f"plan: {recipe.train.steps:,} steps ({plan.epochs_of(recipe.train.steps):.2f} epochs) of "
        f"{recipe.train.lanes} microbatches of at most {recipe.train.microbatch_tokens:,} positions; "
        f"padding {100 * plan.padding():.1f}%"
    )
    bf16 = recipe.train.precision == "bf16"
    memory = size.state_bytes + size.activation_bytes(recipe.train.microbatch_tokens, bf16=bf16)
    flops = size.flops_per_token() * recipe.train.tokens_per_step * recipe.train.steps
    trainers = recipe.cluster.trainers
    console.say(
        f"model: {recipe.model.kind}, {size.parameters / 1e6:.1f} M parameters; about {memory / 2**30:.2f} GiB in each "
        f"of {trainers} {'trainer' if trainers == 1 else 'trainers'}; {flops:.1e} floating-point operations in all"
    )


def _launch(job: Job, folder: Path, run: dict[str, Any], done: int, session: RaySession, console: Console) -> None:
    from dataclasses import replace

    from pipelines.tracking import SystemMetrics, finish_run, log_dataset, log_model_folder, open_run

    recipe = job.recipe
    parts = identity(job.identity)
    uri = recipe.tracking.uri or f"sqlite:///{(RUNS / 'mlflow.db').absolute()}"
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
    run = {**run, "tracking": {"uri": handle.uri, "run_id": handle.run_id}, "recipe": recipe.plain()}
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
            _fit(replace(job, tracking=handle), folder, done, console)
        outcome = json.loads((folder / OUTCOME).read_text("utf-8"))
        if outcome["status"] in ("nothing to learn from", "not finite"):
            raise JobFailed(f"{outcome['message']}; the last checkpoint is in {shown(job.checkpoints)}")
        log_model_folder(handle, folder / MODEL, f"{recipe.name}-{parts[:8]}", _last_held_out(handle))
        status = "FINISHED"
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        raise
    finally:
        finish_run(handle, status)
    console.say(f"finished {outcome['message']}. The model is in {shown(folder / MODEL)}")


def _local_cpus(recipe: Recipe) -> int:
    """CPUs that our own local Ray counts: one per trainer and corruptor, and those of the plumbing."""
    corruptors = recipe.cluster.corruptors
    return recipe.cluster.trainers + (_cores() if corruptors == "auto" else int(corruptors)) + PLUMBING


def _cores() -> int:
    return os.cpu_count() or 1


def _fit(job: Job, folder: Path, done: int, console: Console) -> None:
    """Run the TorchTrainer to its end; a trainer's own traceback is what a bug shows."""
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
    board = ray.remote(num_cpus=0)(Board).remote()
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
    watcher = Watcher(board, lambda numbers, messages: _show(numbers, messages, recipe, done, console))
    try:
        trainer.fit()
    finally:
        watcher.close()
        shutil.rmtree(folder / "ray", ignore_errors=True)


def _show(numbers: dict[str, Any], messages: list[str], recipe: Recipe, done: int, console: Console) -> None:
    for message in messages:
        console.say(message)
    if "step" in numbers:
        shown = {
            "loss": numbers.get("train/loss"),
            "tokens": numbers.get("train/tokens"),
            "wait": numbers.get("train/data_wait"),
            "held_out": numbers.get("held_out/loss"),
        }
        console.progress(
            "pretrain", numbers["step"], recipe.train.steps, **{k: v for k, v in shown.items() if v is not None}
        )


def _last_held_out(handle: Any) -> dict[str, float]:
    from pipelines.tracking import metric_history

    found = {}
    for name in ("held_out/loss", "held_out/perplexity", "held_out/accuracy"):
        history = metric_history(handle, name)
        if history:
            found[name] = history[-1][1]
    return found
