"""A small corpus, its store and a run of it, all made in this process: for tests of the jobs that need no Ray."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch

from pipelines import prepare as prepare_module
from pipelines.console import Console
from pipelines.job import MODEL, Job
from pipelines.prepare import PrepareReport, grouped, prepare
from pipelines.pretrain import bind
from pipelines.recipe import Recipe, load_recipe
from pipelines.run_folder import claim
from pipelines.shard_task import make_shards, part_name, read_group
from tests.pipelines.trained import news, trained
from trainers.objectives import objective

RECIPE = """
seed: 3
corpus:     {{source: "{source}", max_tokens: 48, held_out: 0.2, row_group_tokens: 2048{more}}}
tokenizer:  {tokenizer}
corruption: [{{kind: mask}}]
objective:  {{kind: mlm}}
model:      {{kind: {kind}, layers: 1, width: 32, heads: 2}}
train:      {{steps: 4, decay_steps: 10, tokens_per_step: 1024, microbatch_tokens: 512, learning_rate: 1.0e-3}}
tracking:   {{experiment: small}}
"""


class Heard:
    """A console that keeps what it was told: `out` and `err`."""

    def __init__(self) -> None:
        self._out, self._err = io.StringIO(), io.StringIO()
        self.console = Console(out=self._out, err=self._err)

    @property
    def out(self) -> str:
        return self._out.getvalue()

    @property
    def err(self) -> str:
        return self._err.getvalue()


class NoRay:
    """Stands in for a RaySession."""

    def start(self) -> None:
        """There is nothing to start."""


def write_corpus(path: Path, lines: Sequence[str] | None = None) -> Path:
    """News texts, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(news()[:60] if lines is None else lines) + "\n", encoding="utf-8")
    return path


def small_recipe(
    folder: Path,
    source: Path | str,
    overrides: Sequence[str] = (),
    *,
    kind: str = "bert",
    tokenizer: str | None = None,
    more: str = ", documents: line",
) -> Recipe:
    """A recipe of a run of four steps of two lanes; a trained tokenizer is saved beside it if none is named."""
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer is None:
        trained("bpe" if kind == "roberta" else "wordpiece").save_pretrained(folder / "tokenizer")
        tokenizer = f'{{path: "{folder / "tokenizer"}"}}'
    path = folder / "small.yaml"
    path.write_text(RECIPE.format(source=source, kind=kind, tokenizer=tokenizer, more=more), encoding="utf-8")
    return load_recipe(path, overrides)


def one_after_another(units, settings, workers, console, *, part_bytes: int = 30_000) -> list[str]:
    """What prepare's Ray job does, in a loop; small parts, so that a small corpus has several."""
    names = []
    for number, group in enumerate(grouped(units)):
        for part in read_group(group, number, part_bytes):
            make_shards(part, settings)
            names.append(part_name(number, part["part"]))
    return names


def prepare_here(recipe: Recipe, out: Path | None = None, *, heard: Heard | None = None, **options) -> PrepareReport:
    """`prepare` without Ray."""
    with mock.patch.object(prepare_module, "_run", one_after_another):
        return prepare(recipe, out=out, session=NoRay(), console=(heard or Heard()).console, **options)


def small_job(folder: Path, recipe: Recipe) -> Job:
    """The recipe with its store below the folder, and the run folder `run`, claimed."""
    job, run = bind(recipe, prepare_here(recipe, folder / "store"), folder / "run")
    claim(run, job)
    return job


def module_of(job: Job):
    """The module as drawn from the seed. One thread: several only wait for each other in a model this small."""
    torch.set_num_threads(1)
    task = objective(**job.recipe.objective.model_dump())
    return task.build(job.recipe.model, job.vocabulary, max_tokens=job.recipe.corpus.max_tokens, seed=job.recipe.seed)


def finish(job: Job) -> Path:
    """The run's folder with a model in it, as training leaves it, though nothing was learnt."""
    from pipelines.tokenizers import load_tokenizer
    from trainers.export import export

    tokenizer = load_tokenizer(str(Path(job.store) / "tokenizer"))
    export(module_of(job), Path(job.folder) / MODEL, tokenizer, "a card")
    return Path(job.folder)
