"""Evaluate a run: held-out loss and perplexity under fixed masks, beside two yardsticks that cost nothing to beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corruption.errors import InputError
from pipelines.console import Console
from pipelines.held_out_batches import HeldOutBatches
from pipelines.job import MODEL, Job, read_outcome
from pipelines.readable import shown
from pipelines.run_folder import reopen
from pipelines.store import json_bytes, write_atomically
from pipelines.threads import share_cores
from pipelines.unigram import unigram_counts, unigram_loss

if TYPE_CHECKING:
    from torch import nn

    from trainers.objectives.protocol import Objective

EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class Evaluation:
    """Nats per labelled position: the model's, the same with shuffled context, and the unigram model's."""

    labels: int
    loss: float
    accuracy: float
    shuffled_loss: float
    unigram_loss: float

    def below_unigram(self) -> float:
        """By which share the model's perplexity lies below the unigram model's."""
        return 1.0 - math.exp(min(self.loss - self.unigram_loss, 700))


def evaluate(run: Path, *, console: Console) -> Evaluation:
    """Score the run's model, or its newest checkpoint while it has none; prints a table and writes evaluation.json.

    Raises InputError when there is nothing to score.
    """
    found, what = scored(run)
    console.say(f"scored {what} on the held-out passages")
    for line in table(found):
        console.say(line)
    return found


def scored(run: Path) -> tuple[Evaluation, str]:
    """The scores of a run, also written to its evaluation.json, and which model or checkpoint they are of."""
    from pipelines.quiet import quiet_transformers
    from trainers.objectives import objective as make_objective

    quiet_transformers()
    share_cores()
    folder = run.expanduser().absolute()
    job, _ = reopen(folder)
    if job.data.perplexity is None:
        raise InputError(
            f"run {run}", f"the objective {job.recipe.objective.kind} has no perplexity", "give another run"
        )
    objective = make_objective(**job.recipe.objective.model_dump())
    loaded = load_module(job, objective)
    found = score(job, objective, loaded.module)
    record = {"what": loaded.what, "step": loaded.step, **found.__dict__}
    write_atomically(folder / EVALUATION, json_bytes(record))
    return found, f"{loaded.what}, after {loaded.step:,} steps,"


@dataclass(frozen=True)
class Loaded:
    """A run's module, after how many steps, and where it came from."""

    module: nn.Module
    step: int
    what: str


def load_module(job: Job, objective: Objective) -> Loaded:
    """A run's newest checkpoint, or its exported model when the checkpoints were removed.

    Raises InputError when it has neither.
    """
    from trainers import checkpoint
    from trainers.models.spec import ModelSpec
    from trainers.optim import build_optimizer
    from trainers.state import restore

    recipe, folder = job.recipe, Path(job.folder)
    found, _ = checkpoint.latest(job.checkpoints)
    if found is not None:
        state = checkpoint.load(found, job.identity)
        module = objective.build(recipe.model, job.vocabulary, max_tokens=recipe.corpus.max_tokens, seed=recipe.seed)
        restore(state, module, build_optimizer(module, recipe.train))
        return Loaded(module, state.step, f"the checkpoint {shown(found)}")
    if not (folder / MODEL).exists():
        raise InputError(f"run {folder}", "it has neither a model nor a checkpoint yet", "let pretrain go on")
    spec = ModelSpec(kind=recipe.model.kind, init=str(folder / MODEL))
    module = objective.build(spec, job.vocabulary, max_tokens=recipe.corpus.max_tokens, seed=recipe.seed)
    return Loaded(module, read_outcome(folder)["step"], f"the model {shown(folder / MODEL)}")


def score(job: Job, objective: Objective, module: nn.Module) -> Evaluation:
    """The three numbers, at the same labelled positions."""
    from trainers.collectives import World
    from trainers.evaluation import evaluate as run_evaluation

    batches = HeldOutBatches(job)
    own = run_evaluation(module, objective, batches, World())
    shuffled = run_evaluation(module, objective, HeldOutBatches(job, shuffled=True), World())
    counts = unigram_counts(job.opened_store(), job.vocabulary.size)
    floor, labels = unigram_loss(counts, (framed["labels"].values for framed in batches.framed()))
    if not labels:
        raise InputError("evaluation", "the held-out passages carry no label", "raise the corruption's rate")
    term = job.data.perplexity
    return Evaluation(labels, own[f"loss/{term}"], own.get("accuracy", math.nan), shuffled[f"loss/{term}"], floor)


def table(found: Evaluation) -> list[str]:
    """The scores as lines for a person."""
    rows = [
        ("model", found.loss),
        ("model, context tokens shuffled", found.shuffled_loss),
        ("unigram (token frequencies only)", found.unigram_loss),
    ]
    lines = [f"{'':34}{'loss':>9}{'perplexity':>13}"]
    lines += [f"{name:34}{loss:>9.4f}{math.exp(min(loss, 700)):>13.2f}" for name, loss in rows]
    share = found.below_unigram()
    lines.append(
        f"perplexity {abs(100 * share):.1f}% {'below' if share >= 0 else 'above'} the unigram model's at the same "
        f"{found.labels:,} labelled positions; accuracy {100 * found.accuracy:.1f}%"
    )
    return lines
