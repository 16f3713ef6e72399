"""The passages that a preview shows: a text's, the first of a corpus, or the first of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise import hash64
from corruption.ragged import Batch, Ragged
from corruption.schema import PASSAGES
from corruption.vocabulary import Vocabulary
from pipelines.documents import Document
from pipelines.foreign import attach, attach_among
from pipelines.formats.unit import Unit
from pipelines.preview_spelling import clean
from pipelines.readable import shown
from pipelines.recipe import Recipe
from pipelines.recipe_sections import TrainTokenizer
from pipelines.store import Store, open_store
from trainers.objectives.columns import OBJECTIVE_COLUMNS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SAMPLE_MB = 4
"""How much text a tokenizer is trained on here when the recipe's own does not exist yet."""

LONGEST = 100_000
"""Characters of a document that are looked at; passages before the cut are the ones that training has."""

FEWEST_DOCUMENTS = 8
"""Documents that are looked at where passages are paired, so that there is something to pair them with."""


@dataclass(frozen=True)
class Passages:
    """Passages before and after corruption, as many titles as are to be shown, and what a reader must know."""

    before: Batch
    after: Batch
    sentence_start: Ragged
    titles: tuple[str, ...]
    places: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def passages_of(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, text: str | None, rows: int, epoch: int
) -> Passages:
    """Corrupted passages of `text`, or else the first of the recipe's corpus or store.

    Random: the noise of (recipe.seed, epoch). Raises InputError as corpus, tokenizer and chain do, when there is no
    text to show, or too few documents to pair passages.
    """
    chain, vocabulary = recipe.chain(), Vocabulary.from_tokenizer(tokenizer)
    chain.check(vocabulary, recipe.content_tokens())
    names: dict[int, str] = {}
    notes: tuple[str, ...] = ()
    if text is None and recipe.corpus.store is not None:
        store = open_store(Path(recipe.corpus.store).expanduser())
        table = stored_passages(store, rows, chain, recipe.seed, epoch)
    else:
        if text is not None and chain.foreign:
            raise InputError(
                "--text",
                "it is one document, and this chain pairs passages of two",
                "leave it out to see the recipe's corpus",
            )
        least = max(rows, FEWEST_DOCUMENTS) if chain.foreign else rows
        documents = read_documents(recipe, least) if text is None else [Document(key="text", text=text)]
        names = {hash64(document.key): clean(document.title or document.key) for document in documents}
        table = build_passages(recipe, tokenizer, documents)
        if chain.foreign and len(table):
            table, notes = _paired(table, recipe.seed, epoch)
        table = first_passages(table, rows)
    if not len(table):
        raise InputError(
            "preview", "no passage came out of the text", "give more text, or see the quarantine of prepare"
        )
    before = Batch.from_arrow(table, chain.columns())
    after = chain.apply(before, seed=recipe.seed, epoch=epoch, vocabulary=vocabulary)
    titles = tuple(titled(table, names))
    return Passages(before, after, Ragged.from_arrow(table["sentence_start"]), titles, notes=notes)


def titled(table: pa.Table, names: Mapping[int, str]) -> list[str]:
    """Which document each passage is of: its name, or the hash of its key where the name is not kept."""
    return [f"document {names.get(doc, doc)}" for doc in table["doc"].to_pylist()]


def _paired(table: pa.Table, seed: int, epoch: int) -> tuple[pa.Table, tuple[str, ...]]:
    paired = attach_among(table, seed=seed, epoch=epoch)
    if paired is None:
        raise InputError(
            "preview", "its passages are of one document, and this chain pairs two", "give a corpus of several"
        )
    note = "passages are paired with others of the documents looked at here; a run pairs them within its store"
    return paired, (note,)


def read_documents(recipe: Recipe, count: int) -> list[Document]:
    """The first documents of the corpus, as many from each of its sources; unusable rows are passed over."""
    from pipelines.sources import list_units, read_unit

    by_source: dict[int, list[Unit]] = {}
    for unit in list_units(recipe.corpus.located(), Path.cwd()):
        by_source.setdefault(unit.source, []).append(unit)
    share = -(-count // len(by_source))
    return [
        _shortened(document)
        for own in by_source.values()
        for document in islice(
            (item for unit in own for item in read_unit(unit) if isinstance(item, Document)), share
        )
    ]


def _shortened(document: Document) -> Document:
    if len(document.text) <= LONGEST:
        return document
    links = [link for link in document.links if link[1] <= LONGEST]
    return replace(document, text=document.text[:LONGEST], links=links, words=None)


def find_tokenizer(recipe: Recipe) -> tuple[PreTrainedTokenizerFast, str]:
    """The recipe's tokenizer and where it came from; one that is still to train is trained on a sample."""
    from pipelines.tokenizers import check_tokenizer, load_tokenizer

    if recipe.tokenizer.train is not None:
        tokenizer, note = _trained(recipe, recipe.tokenizer.train)
    else:
        store, path = recipe.corpus.store, recipe.tokenizer.located()
        path = path if store is None else str(Path(store).expanduser() / "tokenizer")
        tokenizer, note = load_tokenizer(str(path)), f"tokenizer {path}"
    objective = recipe.objective.kind
    check_tokenizer(tokenizer, OBJECTIVE_COLUMNS[objective].needs_tokens, objective, None)
    return tokenizer, note


def _trained(recipe: Recipe, asked: TrainTokenizer) -> tuple[PreTrainedTokenizerFast, str]:
    from pipelines.sources import list_files
    from pipelines.tokenizer_job import sample_texts, trained_folder
    from pipelines.tokenizers import load_tokenizer, train_tokenizer

    files = list_files(recipe.corpus.located(), Path.cwd())
    folder = trained_folder(recipe, files)
    if (folder / "tokenizer.json").exists():
        return load_tokenizer(str(folder)), f"tokenizer {shown(folder)}"
    megabytes = min(SAMPLE_MB, asked.sample_mb)
    texts = sample_texts(files, megabytes)
    tokenizer = train_tokenizer(texts, asked.kind, asked.vocab_size, **asked.options())
    return tokenizer, f"tokenizer trained just now on the first {megabytes} MB, the run's own may differ"


def build_passages(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, documents: Sequence[Document]
) -> pa.Table:
    """The passages of the documents, cut as prepare cuts them."""
    from pipelines.passages import PassageBuilder, PassageSettings

    settings = PassageSettings(budget=recipe.content_tokens())
    table, _ = PassageBuilder(tokenizer.backend_tokenizer.to_str(), settings).build(documents)
    return table


def stored_passages(store: Store, count: int, chain: Chain, seed: int, epoch: int) -> pa.Table:
    """The first passages of a store's training part, in the order they lie there, paired as training pairs them."""
    found: list[pa.Table] = []
    for group, (shard, number) in enumerate(zip(store.train.shard, store.train.number.tolist())):
        table = store.read(shard, [number], PASSAGES.names)
        if chain.foreign:
            table = attach(store, store.train, group, table, seed=seed, epoch=epoch, copy=0)
        found.append(table)
        if sum(map(len, found)) >= count:
            break
    return pa.concat_tables(found).slice(0, count) if found else PASSAGES.empty_table()


def first_passages(table: pa.Table, count: int) -> pa.Table:
    """`count` rows in corpus order, chosen so that first passages of documents come before second ones."""
    doc = table["doc"].to_numpy()
    starts = np.flatnonzero(np.r_[True, doc[1:] != doc[:-1]]) if len(doc) else np.zeros(0, np.int64)
    place = np.arange(len(doc)) - np.repeat(starts, np.diff(np.r_[starts, len(doc)]))
    chosen = np.argsort(place, kind="stable")[:count]
    return table.take(pa.array(np.sort(chosen)))
