"""What the stream costs a trainer that never waits: milliseconds a step, through Ray, from the store to microbatches.

Eight lanes of 8,192 positions, masking, window by window over a synthetic store, with one and two trainers. The time
runs from the first step to the last of many, so that what Ray made ahead of the first step counts for little; beside
it the same windows in a plain loop on one core. Run with `python benchmarks/stream.py`; it prints the table and writes
benchmarks/stream.md.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.quiet import quiet

quiet()

from corruption.chain import Chain  # noqa: E402
from corruption.frames.single import Single  # noqa: E402
from corruption.noise_kinds import Mask  # noqa: E402
from corruption.ragged import Ragged, offsets_of  # noqa: E402
from corruption.schema import PASSAGES  # noqa: E402
from corruption.vocabulary import Vocabulary  # noqa: E402
from pipelines.plan import Address, Geometry, Plan  # noqa: E402
from pipelines.store import open_store  # noqa: E402
from pipelines.store_writer import finish_store, write_shard  # noqa: E402
from pipelines.window import Feed, read_window  # noqa: E402

LANES, MICROBATCH, LONGEST, CHUNK = 8, 8192, 510, 16
SIZE = 30_000


def make_store(folder: Path, tokens: int) -> None:
    """A store of random passages with lengths like an encyclopedia's: most near the limit, a tail of short ones."""
    random = np.random.default_rng(0)
    shards, made, number = [], 0, 0
    while made < tokens:
        lengths = np.clip(random.normal(430, 120, 10_000), 8, LONGEST).astype(np.int64)
        offsets = offsets_of(lengths)
        values = random.integers(5, SIZE, offsets[-1]).astype(np.int32)
        starts = (random.random(offsets[-1]) < 0.7).astype(np.int32)
        starts[offsets[:-1]] = 1
        n = len(lengths)
        columns = {
            "key": pa.array(random.integers(0, 2**63, n).astype(np.uint64)),
            "doc": pa.array(np.arange(n), pa.uint64()),
            "tokens": Ragged.of(values, offsets).to_arrow(),
            "word_start": Ragged.of(starts, offsets).to_arrow(),
            "sentence_start": Ragged.of(starts, offsets).to_arrow(),
            "mentions": pa.array([[]] * n, PASSAGES.field("mentions").type),
            "label": pa.nulls(n, pa.string()),
        }
        path = folder / f"train-{number:05d}.parquet"
        shards.append(write_shard(pa.table(columns, schema=PASSAGES), path, row_group_tokens=131_072, source=0))
        made, number = made + int(offsets[-1]), number + 1
    finish_store(folder, shards, {})


def bound(folder: Path) -> tuple[Plan, Feed]:
    """The plan and feed of the benchmark's run."""
    store = open_store(folder)
    vocabulary = Vocabulary.from_ids(
        SIZE, ids={"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}, special=range(5), name="synthetic"
    )
    chain, frame = Chain((Mask(),)), Single()
    positions = np.arange(store.train.histogram.shape[1], dtype=np.int64) + frame.extra
    plan = Plan(store.train, 0, Geometry(positions, MICROBATCH, LANES, 8))
    return plan, Feed(str(folder), 0, plan.geometry, chain, frame, vocabulary, {"mlm": "labels"})


def plain_loop(plan: Plan, feed: Feed, steps: int) -> float:
    """Milliseconds a step of reading and corrupting the same windows in this process."""
    rows = plan.table(Address(0, 0, 0), steps * LANES).to_pylist()
    read_window(rows[0], feed)
    began, made = time.perf_counter(), 0
    for row in rows[1:]:
        made += len(read_window(row, feed))
        if made >= steps * LANES:
            break
    return 1000 * (time.perf_counter() - began) * LANES / made


def through_ray(plan: Plan, feed: Feed, steps: int, trainers: int) -> tuple[float, float]:
    """(seconds to the first step, milliseconds a step after it) over the slowest trainer."""
    from pipelines import stream

    began = time.perf_counter()
    dataset = stream.windows(plan, feed, Address(0, 0, 0), steps, corruptors=2)
    iterators = stream.split(dataset, feed, trainers, CHUNK)
    marks: list[list[float]] = [[] for _ in range(trainers)]

    def consume(r: int) -> None:
        with closing(stream.steps(iterators[r], feed, trainers, Address(0, 0, 0))) as source:
            for number, rows in enumerate(source):
                for i in range(len(rows)):
                    stream.flat_columns(rows, i, feed.frame.columns)
                marks[r].append(time.perf_counter())
                if number + 1 == steps:
                    return

    threads = [threading.Thread(target=consume, args=(r,)) for r in range(trainers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = max(times[0] for times in marks)
    return first - began, 1000 * (max(times[-1] for times in marks) - first) / (steps - 1)


def main() -> None:
    """Run it all and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=30_000_000)
    given = parser.parse_args()
    from pipelines.ray_session import PLUMBING, RaySession

    lines = [
        f"{LANES} lanes of {MICROBATCH} positions, {CHUNK} steps a block, {given.steps} steps, "
        f"store of {given.tokens / 1e6:.0f} Mtok",
        "",
        "| | first step, s | ms a step | Mtok/s |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder), given.tokens)
        plan, feed = bound(Path(folder))
        real = LANES * MICROBATCH * (1 - plan.padding())
        plain = plain_loop(plan, feed, min(given.steps, 300))
        lines.append(f"| plain loop, one core, no Ray | | {plain:.1f} | {real / plain / 1000:.1f} |")
        with RaySession(cpus=2 + PLUMBING) as session:
            session.start()
            for trainers in (1, 2):
                start, step = through_ray(plan, feed, given.steps, trainers)
                lines.append(f"| Ray, {trainers} trainer(s) | {start:.1f} | {step:.1f} | {real / step / 1000:.1f} |")
            text = "\n".join(lines) + "\n"
            print(text, flush=True)
            Path(__file__).with_suffix(".md").write_text(f"# The stream\n\n{text}")
            # Ray's prefetch threads end with the block they wait for; shut down before, Ray takes the process along.
            time.sleep(5)


if __name__ == "__main__":
    main()
