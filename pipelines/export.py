"""Export: a run's model as a Hugging Face folder, from its last checkpoint or the finished model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from corruption.errors import InputError
from pipelines.card import model_card
from pipelines.console import Console
from pipelines.job import Job
from pipelines.out_folder import is_empty, located
from pipelines.readable import shown
from pipelines.run_folder import reopen

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def export(run: Path, out: Path, *, console: Console) -> Path:
    """Write the run's model to `out`: config.json, model.safetensors, tokenizer files and a model card.

    Raises InputError when the run has nothing to export, or `out` exists and is not empty.
    """
    from pipelines.evaluate import load_module
    from pipelines.quiet import quiet_transformers
    from trainers.export import export as write
    from trainers.objectives import objective as make_objective

    folder = run.expanduser().absolute()
    target = located(out)
    job, _ = reopen(folder)
    if not is_empty(target):
        raise InputError(f"--out {out}", "the folder is not empty", "give an empty or new folder")
    quiet_transformers()
    loaded = load_module(job, make_objective(**job.recipe.objective.model_dump()))
    if target.exists():
        shutil.rmtree(target)
    write(loaded.module, target, tokenizer_of(job), model_card(job, loaded.step))
    console.say(f"exported {loaded.what} to {shown(target)}")
    return target


def tokenizer_of(job: Job) -> PreTrainedTokenizerFast:
    """The run's tokenizer, told the longest example that the model has seen, so that truncation fits its positions."""
    from pipelines.tokenizers import load_tokenizer

    tokenizer = load_tokenizer(str(Path(job.store) / "tokenizer"))
    tokenizer.model_max_length = job.recipe.corpus.max_tokens
    return tokenizer
