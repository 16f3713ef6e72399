"""The task of `generate`: read a piece's row groups, corrupt and frame each copy, and write one shard and its record.

The record is written after the shard, and both atomically, so a killed task leaves everything of a shard or nothing
that counts; a retried one writes the same bytes again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames import Frame
from corruption.ragged import Batch, Ragged
from corruption.realised import realised
from corruption.schema import COLUMNS, NUMBERS, REASONS
from corruption.vocabulary import Vocabulary
from pipelines.data_set import DATA, VALIDATION, parquet_options, schema_of
from pipelines.data_set_texts import Texts
from pipelines.disk import error_of, fault_of, not_written
from pipelines.foreign import attach, stored_columns
from pipelines.generate_folder import MADE, RECORDS
from pipelines.generate_plan import Piece, sources_of
from pipelines.outcome import JobFailed
from pipelines.store import ShardDamaged, Store, json_bytes, open_store, write_atomically

if TYPE_CHECKING:
    from pipelines.generator import Generator

Rewrite = Callable[[Batch, Mapping[str, Ragged], Piece, Counter[str]], Mapping[str, Ragged]]
"""What is written instead of the framed columns of a batch; it counts what it did."""


@dataclass(frozen=True)
class Work:
    """What every task must know.

    partial: the folder in which the data set is made. texts: None for Parquet. generator: None but for tokens that a
    model replaces, which then needs its `rewrite`.
    """

    identity: str
    store: str
    partial: str
    seed: int
    evaluation_seed: int
    copies: int
    chain: Chain
    frame: Frame
    vocabulary: Vocabulary
    texts: Texts | None = None
    generator: Generator | None = None


@lru_cache(maxsize=4)
def _store(folder: str) -> Store:
    """Opened once a process."""
    return open_store(Path(folder))


def make_shard(piece: Piece, work: Work, rewrite: Rewrite | None = None) -> dict[str, Any]:
    """Write one shard and its record; returns the record, which is the shard's entry in the manifest.

    rewrite: changes the framed columns before they are written, for those whose work names a generator.
    Raises OSError when it cannot be written, ShardDamaged when the store's shard cannot be read.
    """
    assert (work.generator is None) == (rewrite is None)
    counts, dropped = Counter[str](), Counter[str]()

    def framed(batch: Batch) -> Mapping[str, Ragged]:
        columns = work.frame.apply(batch, work.vocabulary)
        return columns if rewrite is None else rewrite(batch, columns, piece, counts)

    examples = _examples(piece, work, counts, dropped)
    data = _parquet(examples, work, framed) if work.texts is None else _jsonl(examples, work)
    part = _store(work.store)
    record = {
        "name": piece.name,
        "split": piece.split,
        "epoch": piece.epoch,
        "bytes": len(data),
        "blake2b": hashlib.blake2b(data, digest_size=16).hexdigest(),
        "rows": counts["rows"],
        "tokens": counts["tokens"],
        "source": sources_of(part.held_out if piece.split == VALIDATION else part.train, piece),
        "realised": dict(sorted(counts.items())),
        "dropped": dict(sorted(dropped.items())),
    }
    partial = Path(work.partial)
    write_atomically(partial / MADE / DATA / piece.name, data)
    write_atomically(partial / RECORDS / f"{piece.name}.json", json_bytes({"request": work.identity, **record}))
    return record


def _examples(
    piece: Piece, work: Work, counts: Counter[str], dropped: Counter[str]
) -> Iterator[tuple[Batch, dict[str, Any]]]:
    """Each row group and copy as (corrupted batch, its framed columns), unusable rows dropped; counts on the way."""
    store = _store(work.store)
    held_out = piece.split == VALIDATION
    part, seed = (store.held_out, work.evaluation_seed) if held_out else (store.train, work.seed)
    names = ("key", *stored_columns(work.chain.columns()))
    for group in range(piece.first, piece.end):
        stored = store.read(part.shard[group], [int(part.number[group])], names)
        for copy in range(1 if held_out else work.copies):
            table = stored
            if work.chain.foreign:
                table = attach(store, part, group, stored, seed=seed, epoch=piece.epoch, copy=copy)
            before = Batch.from_arrow(table, work.chain.columns(), np.full(len(table), copy, np.uint64))
            after = work.chain.apply(before, seed=seed, epoch=piece.epoch, vocabulary=work.vocabulary)
            for place, number in enumerate(np.bincount(after.unusable, minlength=len(REASONS) + 1)[1:].tolist()):
                if number:
                    dropped[REASONS[place]] += number
            if not after.usable.all():
                rows = np.flatnonzero(after.usable)
                before, after = before.take(rows), after.take(rows)
            counts.update(realised(before, after, work.vocabulary))
            address = {
                "key": pa.array(after.keys, pa.uint64()),
                "epoch": pa.array(np.full(len(after), piece.epoch, np.int32)),
                "copy": pa.array(np.full(len(after), copy, np.int32)),
            }
            yield after, address


def _parquet(
    examples: Iterator[tuple[Batch, dict[str, Any]]], work: Work, frame: Callable[[Batch], Mapping[str, Ragged]]
) -> pa.Buffer:
    """A Parquet file of one row group for each row group and copy that is read: the same bytes for the same rows."""
    schema = schema_of(work.frame.columns)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **parquet_options(work.frame.columns)) as writer:
        for batch, address in examples:
            framed = frame(batch)
            columns = {
                name: pa.array(framed[name].values) if COLUMNS[name].per == "row" else _ids(framed[name])
                for name in work.frame.columns
            }
            writer.write_table(pa.table({**address, **columns}, schema=schema), row_group_size=max(1, len(batch)))
    return sink.getvalue()


def _ids(column: Ragged) -> pa.Array:
    """A row group's column; it is far from 2 ** 31 tokens."""
    return pa.ListArray.from_arrays(pa.array(column.offsets, pa.int32()), pa.array(column.values), type=NUMBERS)


def _jsonl(examples: Iterator[tuple[Batch, dict[str, Any]]], work: Work) -> bytes:
    """One JSON object a line. The key is text: readers that take numbers for doubles would round it."""
    texts = work.texts
    assert texts is not None
    lines = []
    for batch, address in examples:
        columns = texts.of(batch, work.vocabulary)
        address["key"] = address["key"].cast(pa.string())
        for values in zip(*(column.to_pylist() for column in address.values()), *columns.values()):
            line = dict(zip((*address, *columns), values))
            lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    return "".join(lines).encode("utf-8", "surrogatepass")


def attempt(piece: Piece, work: Work, rewrite: Rewrite | None = None) -> dict[str, Any]:
    """`make_shard` with what is no bug told as data: {name, rows, tokens, fault}, fault "" or JSON for `failure`.

    An exception would reach the command inside the traceback of everything that waited for it.
    """
    fault: dict[str, Any] = {}
    try:
        record = make_shard(piece, work, rewrite)
        return {"name": piece.name, "rows": record["rows"], "tokens": record["tokens"], "fault": ""}
    except InputError as error:
        fault = {"input": [error.where, error.given, error.do]}
    except ShardDamaged as error:
        fault = {"failed": str(error)}
    except OSError as error:
        fault = fault_of(error)
    return {"name": piece.name, "rows": 0, "tokens": 0, "fault": json.dumps(fault)}


def failure(fault: str, folder: Path, done: str = "") -> Exception:
    """What the command raises for a fault: JobFailed when the disk is full or broken, else InputError."""
    told = json.loads(fault)
    if "input" in told:
        return InputError(*told["input"])
    if "failed" in told:
        return JobFailed(told["failed"])
    return not_written(error_of(told), f"--out {folder}", done)
