"""One digest for each corruption and chain, through whatever door, batch, order, process or accident.

Every setting runs all registered kinds and shipped chains in one job over the same real passages; all columns of all
examples, unpadded int32, sorted by key, must come out byte for byte alike. Doors that Python calls row by row take a
part of the passages in an ordinary run and all of them in `make soak`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames import Frame, suited
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS, IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.console import Console
from pipelines.foreign import attach, stored_columns
from pipelines.generate_plan import plan_shards
from pipelines.generate_task import Work, make_shard
from pipelines.job import positions_of
from pipelines.plan import Address, Geometry, Plan
from pipelines.prepare import prepare
from pipelines.recipe import load_recipe
from pipelines.shipped import shipped_recipes
from pipelines.store import Store
from pipelines.window import Feed, read_window
from tests.corruption import block

RECIPE = """
corpus: {source: "package:gensim/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2",
         format: wikipedia, max_tokens: 128, row_group_tokens: 16_384, held_out: 0.45}
tokenizer: {train: {kind: wordpiece, vocab_size: 4_000, lowercase: true, sentinels: 100, modes: ["[R]", "[S]", "[X]"]}}
corruption: []
objective: {kind: seq2seq}
"""
PASSAGES = 2000
SEED, EPOCH = 5, 1
Rows = dict[int, tuple[np.ndarray, ...]]


def chains() -> dict[str, Chain]:
    """The first variant of each registered kind, and each different chain of the shipped recipes."""
    found: dict[str, Chain] = {}
    for name, step in block.cases().items():
        if not any(known.startswith(f"kind {step.kind}") for known in found):
            found[f"kind {step.kind} ({name})"] = Chain((step,))
    seen = set(found.values())
    for name in shipped_recipes():
        chain = load_recipe(name).chain()
        if chain.steps and chain not in seen:
            seen.add(chain)
            found[f"recipe {name}"] = chain
    return found


CHAINS = chains()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Any]]:
    """A store of real passages and its tokenizer."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "grid.yaml").write_text(RECIPE, "utf-8")
    before = Path.cwd()
    os.chdir(folder)
    try:
        report = prepare(load_recipe(folder / "grid.yaml"), workers=2, console=Console("text"))
        assert report.store.train.rows >= PASSAGES
        yield report.store, report.tokenizer
    finally:
        os.chdir(before)


def digest(rows: Rows, keys: set[int] | None = None) -> str:
    """Of every column of every example, or of those with these keys, in the order of the keys."""
    h = hashlib.blake2b(digest_size=16)
    chosen = sorted(rows if keys is None else keys & rows.keys())
    for key in chosen:
        h.update(key.to_bytes(8, "little"))
        for column in rows[key]:
            assert column.dtype == np.int32
            h.update(len(column).to_bytes(8, "little") + column.astype("<i4").tobytes())
    return f"{len(chosen)} {h.hexdigest()}"


def by_key(keys: np.ndarray, columns: Mapping[str, Ragged], into: Rows) -> None:
    """Add the rows of framed columns to `into`, columns in the order of their names."""
    for i, key in enumerate(keys.tolist()):
        assert key not in into
        into[key] = tuple(columns[name].row(i) for name in sorted(columns))


def reference(store: Store, vocabulary: Vocabulary) -> dict[str, Rows]:
    """Row group by row group in this process, by chain and frame alone."""
    found: dict[str, Rows] = {}
    for name, chain in CHAINS.items():
        frame = suited(chain.provides())
        rows = found[name] = {}
        for group in range(len(store.train)):
            batch = read(store, chain, group)
            out = chain.apply(batch, seed=SEED, epoch=EPOCH, vocabulary=vocabulary)
            out = out.take(np.flatnonzero(out.usable))
            by_key(out.keys, frame.apply(out, vocabulary), rows)
    return found


def read(store: Store, chain: Chain, group: int) -> Batch:
    """One row group as the chain needs it."""
    names = ("key", *stored_columns(chain.columns()))
    table = store.read(store.train.shard[group], [int(store.train.number[group])], names)
    if chain.foreign:
        table = attach(store, store.train, group, table, seed=SEED, epoch=EPOCH, copy=0)
    return Batch.from_arrow(table, chain.columns())


@pytest.fixture(scope="module")
def expected(prepared: tuple[Store, Any]) -> dict[str, Rows]:
    store, tokenizer = prepared
    return reference(store, Vocabulary.from_tokenizer(tokenizer))


def test_there_is_a_digest_for_every_kind_and_every_shipped_chain(expected):
    assert len({digest(rows) for rows in expected.values()}) == len(expected) >= 25
    assert all(len(rows) > 0.6 * PASSAGES for rows in expected.values())


class Once:
    """Kills one worker in its work: each task leaves a file `<number>-<process>` in the folder as it begins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def kill(self) -> None:
        """SIGKILL the process of a task that has begun; the files then show it begun twice."""
        for _ in range(600):
            marks = sorted(self.folder.glob("*-*"))
            if marks:
                (self.folder / "killed").write_text(marks[-1].name)
                os.kill(int(marks[-1].name.partition("-")[2]), signal.SIGKILL)
                return
            time.sleep(0.1)
        raise AssertionError("no task began")

    def retried(self) -> bool:
        """Whether the killed task began again in another process."""
        number, pid = (self.folder / "killed").read_text().split("-")
        return any(mark.name != f"{number}-{pid}" for mark in self.folder.glob(f"{number}-*"))


def job(rows: int, task: Any, corruptors: int, kill: Once | None) -> list[Any]:
    """Run `task(number)` for each number in one Ray Data job; with `kill` a worker dies on the way."""
    import cloudpickle
    import ray.data

    marks = None if kill is None else kill.folder

    def work(table: pa.Table) -> pa.Table:
        made = []
        for number in table["number"].to_pylist():
            if marks is not None:
                (marks / f"{number}-{os.getpid()}").touch()
                if not (marks / "killed").exists():
                    time.sleep(0.5)
            made.append(cloudpickle.dumps(task(number)))
        return pa.table({"made": pa.array(made, pa.large_binary())})

    data = (
        ray.data.from_arrow(pa.table({"number": np.arange(rows)}))
        .repartition(target_num_rows_per_block=1, strict=True)
        .map_batches(work, batch_size=1, batch_format="pyarrow", concurrency=corruptors)
    )
    with ThreadPoolExecutor(1) as killer:
        dying = None if kill is None else killer.submit(kill.kill)
        made = [cloudpickle.loads(row["made"]) for row in data.iter_rows()]
        if dying is not None:
            dying.result()
            assert kill is not None and kill.retried()
    return made


SETTINGS = [(2, True), *(pytest.param(*case, marks=pytest.mark.soak) for case in ((1, False), (1, True), (2, False)))]
"""(workers, whether one is killed)"""

STREAMS = [
    pytest.param(*setting, tokens, marks=() if setting == (2, True) and tokens == 1024 else pytest.mark.soak)
    for setting in ((1, False), (1, True), (2, False), (2, True))
    for tokens in (1024, 4096)
]
"""The same, each with two sizes of microbatches."""

PART, ALL = 150, pytest.param(None, marks=pytest.mark.soak)
"""How many passages the doors take that Python calls row by row."""

SAMPLE = [name for name in CHAINS if name.endswith(("(rotate)", "bart", "t5"))]
"""Chains that an ordinary run gives to two processes of a door, which take seconds to start for each; soak has all."""


@pytest.mark.parametrize(("corruptors", "killed"), SETTINGS)
def test_generate(prepared, expected, local_ray, tmp_path, corruptors, killed):
    store, tokenizer = prepared
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    pieces = [
        piece
        for piece in plan_shards(store, copies=1, epochs=EPOCH + 1, tokens=1 << 17, files="parquet")
        if piece.split == "train" and piece.epoch == EPOCH
    ]
    works = [
        Work("grid", str(store.folder), str(tmp_path / str(i)), SEED, 0, 1, chain, suited(chain.provides()), vocabulary)
        for i, chain in enumerate(CHAINS.values())
    ]
    tasks = [(work, piece) for work in works for piece in pieces]
    kill = Once(tmp_path / "kill") if killed else None
    job(len(tasks), lambda number: make_shard(tasks[number][1], tasks[number][0])["rows"], corruptors, kill)
    import pyarrow.parquet as pq

    for name, work in zip(CHAINS, works):
        rows: Rows = {}
        for path in sorted(Path(work.partial).rglob("*.parquet")):
            table = pq.read_table(path)
            assert table["epoch"].unique().to_pylist() == [EPOCH]
            columns = {column: column_of(table[column], column) for column in work.frame.columns}
            by_key(table["key"].to_numpy(), columns, rows)
        assert digest(rows) == digest(expected[name]), name


def column_of(column: pa.ChunkedArray, name: str) -> Ragged:
    """A framed column back from a table."""
    if COLUMNS[name].per == "token":
        return Ragged.from_arrow(column)
    return Ragged.of(column.to_numpy(), np.arange(len(column) + 1))


@pytest.mark.parametrize(("corruptors", "killed", "microbatch_tokens"), STREAMS)
def test_stream(prepared, expected, local_ray, tmp_path, corruptors, killed, microbatch_tokens):
    """The windows of one epoch, as the stream's tasks read them."""
    store, tokenizer = prepared
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    tasks: list[tuple[str, dict[str, Any], Feed]] = []
    for name, chain in CHAINS.items():
        frame = suited(chain.provides())
        positions = positions_of(chain, frame, store.train.histogram.shape[1])
        plan = Plan(store.train, SEED, Geometry(positions, microbatch_tokens, 1, 40))
        feed = Feed(str(store.folder), SEED, plan.geometry, chain, frame, vocabulary, {})
        rows = plan.table(Address(EPOCH, 0, 0), 1).to_pylist()
        tasks += [(name, row, feed) for row in rows if row["epoch"] == EPOCH]
    kill = Once(tmp_path / "kill") if killed else None
    tables = job(len(tasks), lambda number: read_window(tasks[number][1], tasks[number][2]), corruptors, kill)
    found: dict[str, Rows] = {name: {} for name in CHAINS}
    for (name, _, feed), table in zip(tasks, tables):
        for row in table.to_pylist():
            unpacked(row, feed, found[name])
    for name, rows in found.items():
        assert digest(rows) == digest(expected[name]), name


def unpacked(row: dict[str, Any], feed: Feed, into: Rows) -> None:
    """A microbatch's examples by key."""
    columns = {}
    for name in feed.frame.columns:
        sequence = feed.frame.sequences.get(name)
        lengths = row["lengths" if sequence is None else f"lengths_{sequence}"]
        if COLUMNS[name].per == "row":
            lengths = [1] * len(row["keys"])
        columns[name] = Ragged.from_lengths(np.array(row[f"column_{name}"], np.int32), np.array(lengths, np.int64))
    by_key(np.array(row["keys"], np.uint64), columns, into)


def plain_rows(store: Store, chain: Chain, count: int | None) -> pa.Table:
    """The first training passages as a user would hand them in, without the store."""
    names = ("key", *(name for name in stored_columns(chain.columns()) if name != "doc"))
    part = store.train
    tables = (store.read(shard, [int(n)], names) for shard, n in zip(part.shard, part.number))
    return pa.concat_tables(tables).slice(0, count).combine_chunks()


def usable(table: pa.Table, rows: Rows) -> pa.Table:
    """Those that the chain can use: a batch of one that it cannot is refused."""
    return table.filter(pa.array([key in rows for key in table["key"].to_pylist()]))


@pytest.mark.parametrize("count", [PART, ALL])
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("processes", [1, 2])
def test_datasets_map(prepared, expected, processes, size, count):
    import datasets

    datasets.disable_progress_bars()
    datasets.disable_caching()
    store, tokenizer = prepared
    for name, chain in CHAINS.items():
        table = plain_rows(store, chain, count)
        if chain.foreign:
            with pytest.raises(InputError, match="this door sees one row at a time"):
                chain.batched(tokenizer, seed=SEED, epoch=EPOCH)(table.slice(0, 2).to_pydict())
            continue
        if processes == 2 and count is not None and name not in SAMPLE:
            continue
        out = datasets.Dataset(table).map(
            chain.batched(tokenizer, seed=SEED, epoch=EPOCH),
            batched=True,
            batch_size=size,
            num_proc=processes if processes > 1 else None,
            remove_columns=[column for column in table.column_names if column != "key"],
        )
        found: Rows = {}
        made = out.data.table
        columns = {c: column_of(made[c], c) for c in suited(chain.provides()).columns}
        by_key(made["key"].to_numpy(), columns, found)
        assert digest(found) == digest(expected[name], set(table["key"].to_pylist())), name


@pytest.mark.parametrize("count", [PART, ALL])
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("processes", [1, 2])
def test_collator(prepared, expected, processes, size, count):
    from torch.utils.data import DataLoader

    from trainers.collator import Collator

    store, tokenizer = prepared
    for name, chain in CHAINS.items():
        collator = Collator(chain, tokenizer, seed=SEED, epoch=EPOCH)
        table = plain_rows(store, chain, count)
        if chain.foreign:
            with pytest.raises(InputError, match="this door sees one row at a time"):
                collator(table.slice(0, 2).to_pylist())
            continue
        if processes == 2 and count is not None and name not in SAMPLE:
            continue
        table = usable(table, expected[name])
        workers = {1: 0, 2: 2}[processes]
        loader = DataLoader(table.to_pylist(), batch_size=size, num_workers=workers, collate_fn=collator)
        frame = suited(chain.provides())
        found: Rows = {}
        for number, batch in enumerate(loader):
            keys = table["key"].slice(number * size, size).to_numpy()
            by_key(keys, unpadded({name: tensor.numpy() for name, tensor in batch.items()}, frame), found)
        assert digest(found) == digest(expected[name], set(table["key"].to_pylist())), name


def unpadded(batch: Mapping[str, np.ndarray], frame: Frame) -> dict[str, Ragged]:
    """Padded int64 back to ragged int32: by the attention masks; of a decoder's labels every one is asked for."""
    found = {}
    for name in frame.columns:
        values = batch[name].astype(np.int32)
        if COLUMNS[name].per == "row":
            found[name] = Ragged.of(values, np.arange(len(values) + 1))
            continue
        real = batch["attention_mask"] == 1
        if frame.sequences.get(name) == "decoder":
            real = values != IGNORE
        elif frame.sequences.get(name) == "positive":
            real = batch["positive_attention_mask"] == 1
        found[name] = Ragged.from_lengths(values[real], real.sum(axis=1))
    return found
