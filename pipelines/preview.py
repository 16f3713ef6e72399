"""What a recipe does to real text, in the terminal: the passages and the noise of training, without Ray."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from corruption.errors import InputError
from corruption.noise import hash64
from corruption.ragged import Batch
from corruption.schema import PASSAGES
from corruption.vocabulary import Vocabulary
from pipelines.documents import Document
from pipelines.formats.unit import Unit
from pipelines.preview_text import Tally, legend, passage_lines, rates
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


def preview(
    recipe: Recipe,
    *,
    rows: int = 5,
    text: str | None = None,
    epoch: int = 0,
    width: int | None = None,
    file: IO[str] | None = None,
) -> None:
    """Print `rows` passages of the recipe's corpus (or of `text`) before and after corruption, and the rates.

    Random: the noise of (recipe.seed, epoch); with the same tokenizer, training sees these very bytes.
    Raises InputError as corpus, tokenizer and chain do, or when there is no text to show.
    """
    tokenizer, note = find_tokenizer(recipe)
    names: dict[int, str] = {}
    if text is None and recipe.corpus.store is not None:
        passages = stored_passages(open_store(Path(recipe.corpus.store).expanduser()), rows)
    else:
        documents = read_documents(recipe, rows) if text is None else [Document(key="text", text=text)]
        names = {hash64(document.key): document.title or document.key for document in documents}
        passages = first_passages(build_passages(recipe, tokenizer, documents), rows)
    if not len(passages):
        raise InputError(
            "preview", "no passage came out of the text", "give more text, or see the quarantine of prepare"
        )
    vocabulary, chain = Vocabulary.from_tokenizer(tokenizer), recipe.chain()
    chain.check(vocabulary, recipe.content_tokens())
    batch = Batch.from_arrow(passages, chain.columns())
    corrupted = chain.apply(batch, seed=recipe.seed, epoch=epoch, vocabulary=vocabulary)

    console = _Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    total = Tally()
    console.print(Text(f"recipe {recipe.name}, seed {recipe.seed}, epoch {epoch}; {note}", style="dim"))
    console.print(legend(tokenizer.mask_token))
    for row, doc in enumerate(passages["doc"].to_pylist()):
        console.print(
            Text(f"\npassage {row + 1} of {len(passages)}, document {names.get(doc, doc)}", style="bold")
        )
        console.print(_grid(passage_lines(tokenizer, vocabulary, batch, corrupted, row, total)))
    console.print()
    console.print(_grid(rates(recipe.corruption, total)))


def _grid(lines: Iterable[tuple[str, Text]]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(style="dim", width=9)
    grid.add_column()
    for name, text in lines:
        grid.add_row(name, text)
    return grid


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


class _Console(Console):
    """Says that the reader has gone (`| head`) instead of ending the process on its own."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "the reader has gone")


def build_passages(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, documents: Sequence[Document]
) -> pa.Table:
    """The passages of the documents, cut as prepare cuts them."""
    from pipelines.passages import PassageBuilder, PassageSettings

    settings = PassageSettings(budget=recipe.content_tokens())
    table, _ = PassageBuilder(tokenizer.backend_tokenizer.to_str(), settings).build(documents)
    return table


def stored_passages(store: Store, count: int) -> pa.Table:
    """The first passages of a store's training part, in the order they lie there."""
    found: list[pa.Table] = []
    for shard, number in zip(store.train.shard, store.train.number.tolist()):
        found.append(store.read(shard, [number], PASSAGES.names))
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
