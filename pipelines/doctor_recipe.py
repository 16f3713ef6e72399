"""The doctor's checks of a recipe: its corpus, tokenizer and model, the places it writes to, and its tracking store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from corruption.errors import InputError
from pipelines.doctor_room import here_findings
from pipelines.finding import Finding, one_line, told
from pipelines.readable import amount
from pipelines.recipe import Recipe

if TYPE_CHECKING:
    from corruption.vocabulary import Vocabulary
    from pipelines.doctor_ray import Nodes
    from trainers.models.size import ModelSize

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def recipe_findings(recipe: Recipe, nodes: Nodes | None, *, remote: bool) -> Iterator[Finding]:
    """The checks of a recipe in order; nodes: those of the cluster that was reached.

    remote: whether it is to run on a cluster, one reached or not, or one that is not yet started.
    """
    yield check_corpus(recipe)
    yield check_tokenizer(recipe)
    size: ModelSize | None = None
    if recipe.model is not None and recipe.train is not None:
        found, size = check_model(recipe)
        yield found
    memory = None if size is None else memory_of(recipe, size)
    if nodes is not None:
        from pipelines.doctor_ray import nodes_findings

        yield from nodes_findings(nodes, recipe, memory)
    elif not remote and recipe.train is not None:
        yield from here_findings(recipe, memory)
    for name in ("stores", "runs"):
        yield check_place(name, checkpoint_bytes(recipe, size) if name == "runs" and size else 0)
    yield check_tracking(recipe, many=remote and (nodes is None or len(nodes.all) > 1))


def check_corpus(recipe: Recipe) -> Finding:
    """The corpus is there and its first usable document can be read."""
    try:
        if recipe.corpus.store is not None:
            from pipelines.store import open_store

            store = open_store(Path(recipe.corpus.store).expanduser())
            store.check_files()
            return Finding(f"corpus: store {store.folder}, {len(store.manifest['shards'])} shards")
        from pipelines.preview_passages import read_documents

        documents = read_documents(recipe, 1)
        if not documents:
            return Finding(
                "corpus: no usable document in it", "run papermoth prepare to see why each was rejected"
            )
        first = documents[0]
        return Finding(f"corpus: first document {first.title or first.key}, {len(first.text)} characters")
    except InputError as fault:
        return told(fault, "corpus")


def check_tokenizer(recipe: Recipe) -> Finding:
    """The tokenizer loads and has what objective and corruptions need; one to train is only named."""
    asked = recipe.tokenizer.train
    if asked is not None:
        return Finding(f"tokenizer: {asked.kind} of {asked.vocab_size}, to be trained on the corpus")
    try:
        from corruption.vocabulary import Vocabulary
        from pipelines.preview_passages import find_tokenizer

        tokenizer, note = find_tokenizer(recipe)
        recipe.chain().check(Vocabulary.from_tokenizer(tokenizer), recipe.content_tokens())
        return Finding(f"{note}, {len(tokenizer)} tokens")
    except InputError as fault:
        return told(fault)


def check_model(recipe: Recipe) -> tuple[Finding, ModelSize | None]:
    """The model can be made, or `model.init` loaded and fitted to the tokenizer; and how large it is."""
    from trainers.models.size import model_size

    try:
        vocabulary = _vocabulary(recipe)
    except InputError:
        return Finding("model: not checked, since the tokenizer does not load", "mend the tokenizer first"), None
    try:
        size = model_size(recipe.model, vocabulary, recipe.corpus.max_tokens)
    except InputError as fault:
        return told(fault), None
    start = f" from {recipe.model.init}" if recipe.model.init else ""
    need = amount(memory_of(recipe, size), "B")
    return (
        Finding(
            f"model: {recipe.model.kind}{start}, {amount(size.parameters)} parameters, "
            f"about {need} of memory for each trainer"
        ),
        size,
    )


def _vocabulary(recipe: Recipe) -> Vocabulary:
    """The tokenizer's, or one as large as that of the tokenizer to be trained."""
    from corruption.vocabulary import Vocabulary
    from pipelines.preview_passages import find_tokenizer

    if recipe.tokenizer.train is not None:
        return replace(recipe.tokenizer.train.promised(), size=recipe.tokenizer.train.vocab_size)
    return Vocabulary.from_tokenizer(find_tokenizer(recipe)[0])


def memory_of(recipe: Recipe, size: ModelSize) -> int:
    """Bytes that a trainer needs for the model, its optimiser and one microbatch, as `pretrain` plans them."""
    bf16 = recipe.train.precision == "bf16"
    return size.state_bytes + size.activation_bytes(recipe.train.microbatch_tokens, bf16=bf16)


def checkpoint_bytes(recipe: Recipe, size: ModelSize) -> int:
    """Bytes of the checkpoints kept, one being written, and the model: float32, with AdamW's two moments."""
    return (12 * (recipe.train.keep_checkpoints + 1) + 4) * size.parameters


def check_place(name: str, wanted: int) -> Finding:
    """The default place below the working directory can be made or written to, and has room for `wanted` bytes."""
    place = Path(name).absolute()
    nearest = next(parent for parent in (place, *place.parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(f"{place} cannot be written to", "work in another folder or give --out")
    free = shutil.disk_usage(nearest).free
    room = f"{place} can be written to, {amount(free, 'B')} free"
    if free < wanted:
        return Finding(f"{room}, and the checkpoints take {amount(wanted, 'B')}", "free some space or give --out")
    return Finding(f"{room}, checkpoints take {amount(wanted, 'B')}" if wanted else room)


def check_tracking(recipe: Recipe, *, many: bool = False) -> Finding:
    """The tracking store answers, from other nodes too where there are `many`; the default one is made by a run."""
    uri = recipe.tracking.uri
    if many and (near := _only_here(uri)):
        return Finding(
            f"tracking: {uri or 'runs/mlflow.db'} is {near}, and trainer 0 may write from another node",
            "start an MLflow server that all nodes reach and give its address as tracking.uri",
        )
    if uri is None:
        return Finding("tracking: runs/mlflow.db, made by the first run")
    wanted = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
    kept = {name: os.environ.get(name) for name in wanted}
    try:
        from mlflow import MlflowClient

        os.environ.update(wanted)
        MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
        return Finding(f"tracking: {uri} answers")
    except Exception as fault:
        return Finding(
            f"tracking: {uri} does not answer ({one_line(fault)})", "mend tracking.uri or start the server"
        )
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _only_here(uri: str | None) -> str:
    """Why another node cannot reach a tracking URI; empty if it may."""
    if uri is None:
        return "a file on this machine"
    parts = urlsplit(uri)
    if parts.scheme in ("sqlite", "file", ""):
        return "a file on this machine"
    return "this machine's own address" if parts.hostname in LOOPBACK else ""
