"""Pretrain: a recipe bound to its store and its run's folder, told as a plan, and run to its last step."""

from __future__ import annotations

import shutil
from pathlib import Path

from pipelines.console import Console
from pipelines.identity import identity, identity_parts
from pipelines.job import MODEL, Job, flat_identity
from pipelines.launch import launch, local_cpus
from pipelines.out_folder import alone, located
from pipelines.prepare import PrepareReport, prepare, vocabulary_of
from pipelines.ray_session import RaySession
from pipelines.readable import amount, shown
from pipelines.recipe import Recipe
from pipelines.run_folder import claim, refuse_foreign

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
    recipe.for_training()
    with RaySession(address, cpus=local_cpus(recipe)) as session:
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
    with alone(folder):
        if fresh and folder.exists():
            refuse_foreign(folder)
            shutil.rmtree(folder)
        run = claim(folder, job)
        done, _ = job.resume_point()
        if done >= recipe.train.steps and (folder / MODEL).exists():
            model = shown(folder / MODEL)
            console.say(f"already at step {done} of {recipe.train.steps}: nothing to do. The model is in {model}")
        else:
            launch(job, folder, run, done, session, console)
    return folder


def bind(recipe: Recipe, report: PrepareReport, out: Path | None = None) -> tuple[Job, Path]:
    """The recipe with its store, vocabulary, identity and run folder. Raises InputError when they do not fit."""
    from pipelines.tokenizers import check_tokenizer, tokenizer_fingerprint

    vocabulary = vocabulary_of(report.tokenizer)
    kind = recipe.objective.kind
    parts = identity_parts(recipe, corpus=report.store.identity, tokenizer=tokenizer_fingerprint(report.tokenizer))
    folder = located(out or RUNS / f"{recipe.name}-{identity(parts)[:8]}")
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
    console.say(
        f"model: {recipe.model.kind}, {amount(size.parameters)} parameters; about {amount(memory, 'B')} of memory "
        f"for each trainer ({recipe.cluster.trainers} of them); {flops:.1e} floating-point operations in all"
    )
