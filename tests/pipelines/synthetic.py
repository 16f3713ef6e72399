"""Stores of made-up passages for tests of the plan and the stream, and the stream's reference without Ray."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from corruption.chain import Chain
from corruption.frames.single import Single
from corruption.noise import example_key
from corruption.noise_kinds import Mask
from corruption.schema import PASSAGES
from corruption.vocabulary import Vocabulary
from pipelines.job import positions_of
from pipelines.plan import Address, Geometry, Plan
from pipelines.store import open_store
from pipelines.store_writer import finish_store, write_shard
from pipelines.window import Feed, read_window

VOCABULARY = Vocabulary.from_ids(
    1000, ids={"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}, special=range(5), name="synthetic"
)


def passages(n: int, longest: int, *, seed: int, prefix: str) -> pa.Table:
    """n passages of 1 to `longest` tokens with words of one to three tokens."""
    random = np.random.default_rng(seed)
    lengths = np.clip(random.lognormal(np.log(longest / 3), 0.7, n), 1, longest).astype(int)
    starts = [np.where(np.arange(k) == 0, 1, random.random(k) < 0.6).astype(np.int32) for k in lengths]
    return pa.table(
        {
            "key": pa.array([example_key(f"{prefix}{i}", 0) for i in range(n)], pa.uint64()),
            "doc": pa.array(np.arange(n), pa.uint64()),
            "tokens": pa.array([random.integers(5, 1000, k).astype(np.int32) for k in lengths]),
            "word_start": pa.array(starts),
            "sentence_start": pa.array([(np.arange(k) == 0).astype(np.int32) for k in lengths]),
            "mentions": pa.array([[] for _ in lengths], PASSAGES.field("mentions").type),
            "label": pa.array([None] * n, pa.string()),
        },
        schema=PASSAGES,
    )


def write_store(
    folder: Path,
    *,
    shards: int = 3,
    rows: int = 120,
    longest: int = 60,
    row_group_tokens: int = 800,
    sources: int = 1,
    seed: int = 0,
) -> Path:
    """A store of `shards` training shards (spread over the sources) and one held-out shard."""
    stats = [
        write_shard(
            passages(rows, longest, seed=seed + i, prefix=f"{i}/"),
            folder / f"train-{i:05d}.parquet",
            row_group_tokens=row_group_tokens,
            source=i % sources,
        )
        for i in range(shards)
    ]
    stats.append(
        write_shard(
            passages(20, longest, seed=99, prefix="held/"),
            folder / "held_out-00000.parquet",
            row_group_tokens=row_group_tokens,
            source=0,
        )
    )
    finish_store(folder, stats, {})
    return folder


def plan_and_feed(
    folder: Path,
    *,
    lanes: int = 3,
    microbatch_tokens: int = 256,
    window_row_groups: int = 2,
    weights: tuple[float, ...] = (1.0,),
    chain: Chain | None = None,
    seed: int = 7,
) -> tuple[Plan, Feed]:
    """The plan and feed of a run over a synthetic store."""
    store = open_store(folder)
    frame = Single()
    chain = chain or Chain((Mask(),))
    longest = store.train.histogram.shape[1]
    positions = positions_of(chain, frame, longest)
    geometry = Geometry(positions, microbatch_tokens, lanes, window_row_groups, weights)
    plan = Plan(store.train, seed, geometry)
    return plan, Feed(str(folder), seed, geometry, chain, frame, VOCABULARY, {"mlm": "labels"})


def digest(columns: Mapping[str, np.ndarray], lengths: np.ndarray) -> str:
    """A hash of every byte of a microbatch as it leaves the stream."""
    h = hashlib.blake2b(digest_size=8)
    for name in sorted(columns):
        h.update(name.encode() + columns[name].astype("<i4").tobytes())
    h.update(lengths.astype("<i4").tobytes())
    return h.hexdigest()


def reference(plan: Plan, feed: Feed, cursor: Address, steps: int) -> list[list[tuple[Address, str]]]:
    """[step][lane] -> (address, digest), by reading the plan's windows in a plain loop."""
    flat: list[tuple[Address, str]] = []
    lanes = plan.geometry.lanes
    for row in plan.table(cursor, (steps + 1) * lanes).to_pylist():
        table = read_window(row, feed)
        for i in range(len(table)):
            columns = {n: table[f"column_{n}"][i].values.to_numpy() for n in feed.frame.columns}
            address = Address(*(table[c][i].as_py() for c in ("epoch", "window", "number")))
            flat.append((address, digest(columns, table["lengths"][i].values.to_numpy())))
        if len(flat) >= steps * lanes:
            break
    return [flat[s * lanes : (s + 1) * lanes] for s in range(steps)]
