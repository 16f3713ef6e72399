"""Rows of a data set derived again from the store they were made of, as `papermoth generate` made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corruption.audit.finding import Finding, Place
from corruption.chain import Chain, Noise
from corruption.errors import InputError
from corruption.frames import Frame
from corruption.noise import rank_bits, stream
from corruption.ragged import Batch, Int64, Ragged, UInt64
from corruption.schema import COLUMNS
from corruption.vocabulary import Vocabulary
from pipelines.data_set import VALIDATION, DataSet
from pipelines.foreign import attach, stored_columns
from pipelines.readable import shown
from pipelines.store import MANIFEST, RowGroups, Store, open_store

SAME = "same as the source"
STORES = Path("stores")


@dataclass(frozen=True)
class Unit:
    """What one row group of a shard was made of: a row group of the store under one epoch's and copy's noise.

    place: of the row group in the shard. rows: about how many it has.
    """

    shard: str
    place: int
    split: str
    stored: str
    number: int
    epoch: int
    copy: int
    rows: int


@dataclass(frozen=True)
class Source:
    """The store, and how rows are made of its passages."""

    store: Store
    data: DataSet
    chain: Chain
    frame: Frame
    vocabulary: Vocabulary

    def stages(self, unit: Unit) -> list[Batch]:
        """The passages of a unit and what each step makes of them, one after the other; usable rows only.

        Raises ShardDamaged when the store cannot be read, InputError when it holds no such row group.
        """
        part: RowGroups = self.store.held_out if unit.split == VALIDATION else self.store.train
        seed = self.data.seed(unit.split)
        group = _group(part, unit)
        table = self.store.read(unit.stored, [unit.number], ("key", *stored_columns(self.chain.columns())))
        if self.chain.foreign:
            table = attach(self.store, part, group, table, seed=seed, epoch=unit.epoch, copy=unit.copy)
        found = [Batch.from_arrow(table, self.chain.columns(), np.full(len(table), unit.copy, np.uint64))]
        for name, step in zip(self.chain.names, self.chain.steps):
            found.append(step.apply(found[-1], Noise.of(seed, name, unit.epoch), self.vocabulary))
        rows = np.flatnonzero(found[-1].usable)
        return [batch.take(rows) for batch in found]

    def keys(self, unit: Unit) -> UInt64:
        """The keys of a unit's passages, those among them that cannot be used."""
        table = self.store.read(unit.stored, [unit.number], ["key"])
        found: UInt64 = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
        return found

    def differences(self, unit: Unit, made: Batch, table: pa.Table, rows: Int64) -> tuple[Finding, ...]:
        """Where a shard's row group, `table`, is not what its unit makes; `rows`: which rows of the shard it has."""
        keys = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
        where = f"{unit.stored}, row group {unit.number}"
        if not np.array_equal(keys, made.keys):
            same = keys[: len(made)] == made.keys[: len(keys)]
            first = len(same) if same.all() else int(np.argmin(same))
            row = int(rows[first]) if first < len(rows) else None
            given = f"{where} gives {len(made):,} rows, here are {len(table):,}; this is the first that differs"
            return (Finding(SAME, Place(unit.shard, row), given),)
        if self.data.files == "jsonl":
            return _other_texts(self.data, unit, made, table, rows, self.vocabulary)
        framed = self.frame.apply(made, self.vocabulary)
        return tuple(
            finding
            for name in self.frame.columns
            for finding in _other(name, framed[name], column_of(table, name), unit, rows)
        )


def find_source(
    data: DataSet, given: Path | None, chain: Chain, frame: Frame, vocabulary: Vocabulary
) -> tuple[Source | None, str]:
    """The store of a data set, else None and why: `given`, or one of those below STORES.

    Raises InputError when `given` is no store, or another one.
    """
    wanted = str(data.manifest["store"])
    if given is not None:
        store = open_store(given.expanduser().absolute())
        if store.identity != wanted:
            do = "give the store that the data set was made of"
            raise InputError(f"--store {shown(given)}", f"it is the store {store.identity}, not {wanted}", do)
        return Source(store, data, chain, frame, vocabulary), ""
    for folder in sorted(path.parent for path in STORES.glob(f"*/{MANIFEST}")):
        try:
            store = open_store(folder.absolute())
        except InputError:
            continue
        if store.identity == wanted:
            return Source(store, data, chain, frame, vocabulary), ""
    return None, f"its store {wanted} is not in {STORES}/; give it with --store"


def units_of(data: DataSet, shard: dict[str, Any]) -> list[Unit]:
    """What the row groups of a shard were made of, in order."""
    copies = 1 if shard["split"] == VALIDATION else int(data.manifest["copies"])
    groups = [(stored, number) for stored, numbers in shard["source"] for number in numbers]
    rows = -(-int(shard["rows"]) // max(1, len(groups) * copies))
    return [
        Unit(shard["name"], place * copies + copy, shard["split"], stored, number, shard["epoch"], copy, rows)
        for place, (stored, number) in enumerate(groups)
        for copy in range(copies)
    ]


def sample(data: DataSet, rows: int) -> dict[tuple[str, int], Unit]:
    """Units of about `rows` rows in all, spread over the shards; all of them for 0. Always the same ones."""
    units = [unit for shard in data.shards() for unit in units_of(data, shard)]
    bits = rank_bits(stream(0, "papermoth.verify"), np.arange(len(units)).astype(np.uint64))
    found: dict[tuple[str, int], Unit] = {}
    splits: set[str] = set()
    total = 0
    for i in np.argsort(bits).tolist():
        unit = units[i]
        if rows == 0 or total < rows or unit.split not in splits:
            found[unit.shard, unit.place] = unit
            total += unit.rows
            splits.add(unit.split)
    return found


def column_of(table: pa.Table, name: str) -> Ragged:
    """A framed column of a shard's table."""
    if COLUMNS[name].per == "row":
        values = table[name].combine_chunks().to_numpy(zero_copy_only=False)
        return Ragged.of(values, np.arange(len(values) + 1))
    return Ragged.from_arrow(table[name])


def _group(part: RowGroups, unit: Unit) -> int:
    for group, (shard, number) in enumerate(zip(part.shard, part.number.tolist())):
        if shard == unit.stored and number == unit.number:
            return group
    given = f"shard {unit.shard} was made of {unit.stored}, row group {unit.number}, which the store has not"
    raise InputError("data set", given, "generate it again with --overwrite")


def _other(name: str, wanted: Ragged, found: Ragged, unit: Unit, rows: Int64) -> Iterator[Finding]:
    other = wanted.lengths != found.lengths
    alike = np.flatnonzero(~other)
    a, b = wanted.take(alike), found.take(alike)
    places = np.flatnonzero(a.values != b.values)
    other[alike[np.searchsorted(a.offsets, places, side="right") - 1] if len(places) else alike[:0]] = True
    bad = np.flatnonzero(other)
    if not len(bad):
        return
    row = int(bad[0])
    where = f"{unit.stored}, row group {unit.number}"
    if wanted.lengths[row] != found.lengths[row]:
        given = f"{name} has {found.lengths[row]} numbers, from {where} come {wanted.lengths[row]}"
        yield Finding(SAME, Place(unit.shard, int(rows[row])), given, len(bad))
        return
    position = int(np.flatnonzero(wanted.row(row) != found.row(row))[0])
    given = f"{name} is {found.row(row)[position]}, from {where} comes {wanted.row(row)[position]}"
    yield Finding(SAME, Place(unit.shard, int(rows[row]), position), given, len(bad))


def _other_texts(
    data: DataSet, unit: Unit, made: Batch, table: pa.Table, rows: Int64, vocabulary: Vocabulary
) -> tuple[Finding, ...]:
    from pipelines.data_set_texts import Texts
    from pipelines.tokenizers import load_tokenizer

    backend = load_tokenizer(str(data.tokenizer)).backend_tokenizer
    texts = Texts(backend.to_str(), data.columns).of(made, vocabulary)
    findings = []
    for name, wanted in texts.items():
        found = table[name].to_pylist()
        bad = [row for row, (a, b) in enumerate(zip(found, wanted)) if a != b]
        if bad:
            given = f"{name} is not the text that {unit.stored}, row group {unit.number}, gives"
            findings.append(Finding(SAME, Place(unit.shard, int(rows[bad[0]])), given, len(bad)))
    return tuple(findings)
