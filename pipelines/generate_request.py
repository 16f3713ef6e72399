"""What a data set is asked to be: the request that its identity stands for, and what every task must know of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pipelines.data_set import FORMAT, KIND, partial_of
from pipelines.data_set_texts import Texts
from pipelines.generate_plan import Piece, plan_shards, shard_tokens
from pipelines.generate_task import Work
from pipelines.prepare import PrepareReport, vocabulary_of
from pipelines.recipe import Recipe
from pipelines.recipe_text import name_only
from pipelines.store import json_bytes
from trainers.objectives.columns import OBJECTIVE_COLUMNS

SECTIONS = ("seed", "corpus", "tokenizer", "corruption", "objective", "evaluation")
"""The sections of a recipe that a data set keeps: the others do not change it."""


def of_recipe(recipe: Recipe) -> dict[str, Any]:
    """What of the recipe, beside its seed and store, the bytes of a data set follow from."""
    data = OBJECTIVE_COLUMNS[recipe.objective.kind]
    return {
        "evaluation_seed": recipe.evaluation.seed,
        "corruption": list(recipe.corruption),
        "frame": {"name": data.frame, "columns": list(recipe.frame().columns)},
    }


def bind(
    recipe: Recipe, report: PrepareReport, folder: Path, wanted: dict[str, Any], tokens: int | None
) -> tuple[Work, list[Piece], dict[str, Any]]:
    """What the tasks must know, the shards, and the manifest's first lines. Raises InputError when they do not fit."""
    from pipelines.tokenizers import check_tokenizer, tokenizer_fingerprint

    store, vocabulary, chain, frame = report.store, vocabulary_of(report.tokenizer), recipe.chain(), recipe.frame()
    needs = OBJECTIVE_COLUMNS[recipe.objective.kind].needs_tokens
    check_tokenizer(report.tokenizer, needs, recipe.objective.kind, None)
    chain.check(vocabulary, max(part.histogram.shape[1] for part in (store.train, store.held_out)) - 1)
    frame.check(vocabulary)
    files, copies, epochs = wanted["files"], wanted["copies"], wanted["epochs"]
    tokens = tokens or shard_tokens(store, copies)
    request = {
        "format": FORMAT,
        **wanted,
        "store": store.identity,
        "tokenizer": tokenizer_fingerprint(report.tokenizer),
        "shard_tokens": tokens,
    }
    texts = None
    if files == "jsonl":
        text = report.tokenizer.backend_tokenizer.to_str()
        texts = Texts(text, Texts.columns_of(frame, chain.provides()))
    work = Work(
        hashlib.blake2b(json_bytes(request), digest_size=16).hexdigest(),
        str(store.folder),
        str(partial_of(folder)),
        recipe.seed,
        recipe.evaluation.seed,
        copies,
        chain,
        frame,
        vocabulary,
        texts,
    )
    about = {
        **{key: request[key] for key in request if key not in ("corruption", "shard_tokens")},
        "kind": KIND,
        "identity": work.identity,
        "name": recipe.name,
        "recipe": named(sections(recipe)),
        "columns": list(frame.columns if texts is None else texts.columns),
    }
    return work, plan_shards(store, copies=copies, epochs=epochs, tokens=tokens, files=files), about


def sections(recipe: Recipe) -> dict[str, Any]:
    """What the recipe says of the data, defaults written out; of a source only what differs from them.

    Some keys of a source are refused beside others, even when they say no more than the default does.
    """
    plain = recipe.plain()
    sources = [source.model_dump(mode="json", exclude_defaults=True) for source in recipe.corpus.sources]
    return {name: plain[name] for name in SECTIONS} | {"corpus": {**plain["corpus"], "sources": sources}}


def named(plain: dict[str, Any]) -> dict[str, Any]:
    """The sections with whole paths cut to names: a manifest holds nothing of the machine that made it."""
    corpus = {**plain["corpus"], "store": name_only(plain["corpus"]["store"])}
    corpus["sources"] = [{**source, "source": name_only(source["source"])} for source in corpus["sources"]]
    tokenizer = {**plain["tokenizer"], "path": name_only(plain["tokenizer"]["path"])}
    return {**plain, "corpus": corpus, "tokenizer": tokenizer}
