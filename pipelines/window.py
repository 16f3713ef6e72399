"""One window, in one task: read its row groups, permute rows, form microbatches, corrupt and frame them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corruption.chain import Chain
from corruption.frames import Frame
from corruption.noise import rank_bits, stream
from corruption.ragged import Batch, Ragged, offsets_of
from corruption.schema import COLUMNS, IGNORE, REASONS
from corruption.vocabulary import Vocabulary
from pipelines.foreign import attach, stored_columns
from pipelines.plan import Geometry, form, kept
from pipelines.store import Store, open_store


@dataclass(frozen=True)
class Feed:
    """What a window task must know to make its microbatches; it travels to every corruptor.

    counted: term of the loss -> column whose entries other than IGNORE it counts.
    """

    store: str
    seed: int
    geometry: Geometry
    chain: Chain
    frame: Frame
    vocabulary: Vocabulary
    counted: Mapping[str, str]

    def schema(self) -> pa.Schema:
        """One row a microbatch: address, examples' keys and lengths, each framed column flat, counts.

        `lengths` are the input's; `dropped` counts the unusable passages by `schema.REASONS`.
        """
        return pa.schema(
            [
                ("epoch", pa.int32()),
                ("window", pa.int32()),
                ("number", pa.int32()),
                ("windows", pa.int32()),
                ("microbatches", pa.int32()),
                ("tokens", pa.int32()),
                ("keys", pa.list_(pa.uint64())),
                ("lengths", pa.list_(pa.int32())),
                *((f"lengths_{name}", pa.list_(pa.int32())) for name in self.sequences),
                ("dropped", pa.list_(pa.int32())),
                *((f"column_{name}", pa.list_(pa.int32())) for name in self.frame.columns),
                *((f"count_{name}", pa.int64()) for name in self.counted),
            ]
        )


    @property
    def sequences(self) -> dict[str, str]:
        """Sequence beside the input's -> a framed column that has its lengths."""
        found: dict[str, str] = {}
        for name in self.frame.columns:
            if name in self.frame.sequences and COLUMNS[name].per == "token":
                found.setdefault(self.frame.sequences[name], name)
        return found


@lru_cache(maxsize=4)
def _store(folder: str) -> Store:
    """Opened once a process: a corruptor reads the manifest once, not once a window."""
    return open_store(Path(folder))


def read_rows(
    feed: Feed,
    epoch: int,
    row_groups: npt.NDArray[Any],
    copies: npt.NDArray[Any],
    shares: npt.NDArray[Any],
    extra: tuple[str, ...] = (),
) -> tuple[pa.Table, npt.NDArray[np.uint64]]:
    """The window's passages in stored order, without what a share leaves out, and each one's copy.

    extra: stored columns that are wanted beside those that the chain needs.
    """
    store = _store(feed.store)
    names = tuple(dict.fromkeys(("key", *stored_columns(feed.chain.columns()), *extra)))
    tables, copy_of_row = [], []
    for group, copy, share in zip(row_groups.tolist(), copies.tolist(), shares.tolist()):
        table = store.read(store.train.shard[group], [int(store.train.number[group])], names)
        if feed.chain.foreign:
            table = attach(store, store.train, group, table, seed=feed.seed, epoch=epoch, copy=copy)
        if share < 1.0:
            table = table.take(pa.array(_shared(feed, epoch, group, copy, share, table)))
        tables.append(table)
        copy_of_row.append(np.full(len(table), copy, np.uint64))
    return pa.concat_tables(tables).combine_chunks(), np.concatenate(copy_of_row)


def _shared(feed: Feed, epoch: int, group: int, copy: int, share: float, table: pa.Table) -> npt.NDArray[np.int64]:
    """The rows a share keeps, in stored order: of each length as many as the plan counts, by a keyed draw."""
    histogram = _store(feed.store).train.histogram[group]
    wanted = kept(histogram, share, feed.seed, epoch, group, copy)
    keys = table["key"].combine_chunks().to_numpy()
    lengths = Ragged.from_arrow(table["tokens"]).lengths
    bits = rank_bits(stream(feed.seed, "papermoth.share", epoch, group, copy), keys)
    order = np.lexsort((bits, lengths))
    place = np.arange(len(order)) - np.searchsorted(lengths[order], lengths[order])
    return np.sort(order[place < wanted[lengths[order]]])


def arrange(
    feed: Feed,
    epoch: int,
    window: int,
    keys: npt.NDArray[np.uint64],
    copies: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.int64],
) -> list[npt.NDArray[np.int64]]:
    """The window's microbatches in order, each the rows it holds, from stored lengths, keys and the seed."""
    bits = rank_bits(stream(feed.seed, "papermoth.rows", epoch), keys ^ rank_bits(0, copies))
    order = np.lexsort((bits, -lengths))
    sizes = form(lengths[order], feed.geometry)
    groups = np.split(order, np.cumsum(sizes)[:-1])
    turns = rank_bits(
        stream(feed.seed, "papermoth.microbatches", epoch, window), np.arange(len(sizes)).astype(np.uint64)
    )
    return [groups[i] for i in np.argsort(turns, kind="stable")]


def window_rows(
    row: Mapping[str, Any], feed: Feed, extra: tuple[str, ...] = ()
) -> tuple[pa.Table, Batch, list[npt.NDArray[np.int64]]]:
    """The passages of one plan row as stored and as a batch, and all its microbatches in order: the rows of each.

    extra: see `read_rows`; they are in the table only.
    """
    epoch = int(row["epoch"])
    groups, copies, shares = (np.asarray(row[name]) for name in ("row_group", "copy", "share"))
    table, copies = read_rows(feed, epoch, groups, copies, shares, extra)
    batch = Batch.from_arrow(table, feed.chain.columns(), copies)
    return table, batch, arrange(feed, epoch, int(row["window"]), batch.keys, copies, batch.tokens.lengths)


def read_window(row: Mapping[str, Any], feed: Feed) -> pa.Table:
    """The microbatches of one plan row from number `skip` on, corrupted and framed, as `feed.schema()`."""
    epoch, window, skip = int(row["epoch"]), int(row["window"]), int(row["skip"])
    _, batch, microbatches = window_rows(row, feed)
    wanted = microbatches[skip:]
    if not wanted:
        return feed.schema().empty_table()
    chosen = batch.take(np.concatenate(wanted))
    corrupted = feed.chain.apply(chosen, seed=feed.seed, epoch=epoch, vocabulary=feed.vocabulary)
    microbatch = np.repeat(np.arange(len(wanted)), [len(group) for group in wanted])
    tokens = np.bincount(microbatch, chosen.tokens.lengths, len(wanted))
    dropped = np.zeros((len(wanted), len(REASONS)), np.int32)
    out = ~corrupted.usable
    np.add.at(dropped, (microbatch[out], corrupted.unusable[out] - 1), 1)
    usable = corrupted.take(np.flatnonzero(corrupted.usable)) if out.any() else corrupted
    framed = feed.frame.apply(usable, feed.vocabulary)
    edges = offsets_of(np.bincount(microbatch[~out], minlength=len(wanted)))
    n = len(wanted)
    arrays: list[pa.Array] = [
        pa.array(np.full(n, epoch, np.int32)),
        pa.array(np.full(n, window, np.int32)),
        pa.array(np.arange(skip, skip + n, dtype=np.int32)),
        pa.array(np.full(n, int(row["windows"]), np.int32)),
        pa.array(np.full(n, len(microbatches), np.int32)),
        pa.array(tokens.astype(np.int32)),
        pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(usable.keys)),
        *(_lists(edges, framed[name].lengths) for name in (feed.frame.columns[0], *feed.sequences.values())),
        _lists(np.arange(n + 1) * len(REASONS), dropped.ravel()),
    ]
    for name in feed.frame.columns:
        arrays.append(_lists(framed[name].offsets[edges], framed[name].values))
    for name in feed.counted.values():
        column = framed[name]
        real = np.append(0, np.cumsum(column.values != IGNORE))
        ends = column.offsets[edges]
        arrays.append(pa.array(real[ends[1:]] - real[ends[:-1]], pa.int64()))
    return pa.Table.from_arrays(arrays, schema=feed.schema())


def _lists(offsets: npt.NDArray[np.int64], values: npt.NDArray[np.integer]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int32()))
