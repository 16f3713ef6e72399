"""THE Ray Data graph that feeds the trainers: plan rows -> windows -> deal -> one exact stream per trainer.

    plan table, about a thousand rows a block
     -> repartition to one row a block       one task reads one window, lazily: a million windows cost nothing up front
     -> read window                          one row a microbatch, flat int32 columns
    and where the number of trainers W is known (LaneConfig.configure)
     -> repartition to L * m rows -> deal    m steps: padded with empty microbatches to W * K lanes, K = ceil(L / W)
     -> repartition to K * m rows -> streaming_split(equal), in preserved order: blocks go round robin, one a trainer

`deal` sees whole steps, so it writes into every row the step's counts and the addresses the step begins and ends with;
the trainer asserts that each step begins where the last one ended, so a lost or repeated window cannot pass unseen.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipelines.plan import Address, Plan
from pipelines.window import Feed, read_window

if TYPE_CHECKING:
    from ray.data import DataIterator, Dataset

ROWS_PER_PLAN_BLOCK = 1000
FILLER = -1
"""The epoch of an empty microbatch that fills up a step; its columns are empty."""


class StreamBroken(RuntimeError):
    """The stream did not deliver the next microbatch of the plan. A bug or a lost window, never to be trained on."""


def windows(
    plan: Plan,
    feed: Feed,
    cursor: Address,
    steps: int,
    *,
    corruptors: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Dataset:
    """The microbatches from the cursor on, enough for `steps` steps and then some.

    corruptors: the most window tasks at a time (None: as many as there are CPUs). options: for Ray's remote tasks, for
    example num_cpus or label_selector.
    """
    import ray.data

    # One window more than needed: the last deal of a finite plan must not run dry inside a step.
    microbatches = (steps + 1) * plan.geometry.lanes
    table = plan.table(cursor, microbatches)
    blocks = [table.slice(i, ROWS_PER_PLAN_BLOCK) for i in range(0, len(table), ROWS_PER_PLAN_BLOCK)]
    return (
        ray.data.from_arrow(blocks)
        .repartition(target_num_rows_per_block=1, strict=True)
        .map_batches(
            _read_windows,  # type: ignore[arg-type]
            batch_size=1,
            batch_format="pyarrow",
            fn_kwargs={"feed": feed},
            concurrency=corruptors,
            **dict(options or {}),
        )
    )


def _read_windows(rows: pa.Table, feed: Feed) -> Iterator[pa.Table]:
    for row in rows.to_pylist():
        yield read_window(row, feed)


def deal_schema(feed: Feed) -> pa.Schema:
    """The rows a trainer reads: a microbatch, its lane, and its step's first and next address, tokens and counts."""
    schema = feed.schema()
    for name in ("lane", "first_epoch", "first_window", "first_number", "next_epoch", "next_window", "next_number"):
        schema = schema.append(pa.field(name, pa.int32()))
    schema = schema.append(pa.field("step_tokens", pa.int64()))
    for name in feed.counted:
        schema = schema.append(pa.field(f"step_{name}", pa.int64()))
    return schema


def deal(rows: pa.Table, feed: Feed, trainers: int, chunk_steps: int) -> pa.Table:
    """Up to m steps of microbatches in plan order -> W * m * K rows ordered by trainer, step, lane.

    Trainer r gets the lanes r * K to r * K + K - 1. Missing lanes are filled up: above L, and behind a plan's end.
    """
    lanes = feed.geometry.lanes
    per_trainer = -(-lanes // trainers)
    n = len(rows)
    if not n:
        return deal_schema(feed).empty_table()
    r, s, k = np.meshgrid(np.arange(trainers), np.arange(chunk_steps), np.arange(per_trainer), indexing="ij")
    lane = r * per_trainer + k
    place = s * lanes + lane
    place = np.where((lane < lanes) & (place < n), place, n).ravel()
    filler: dict[str, list[Any]] = {
        name: [FILLER] if name == "epoch" else ([[]] if pa.types.is_list(kind) else [0])
        for name, kind in zip(rows.schema.names, rows.schema.types)
    }
    padded = pa.concat_tables([rows, pa.table(filler, schema=rows.schema)]).combine_chunks()
    out = padded.take(pa.array(place))
    out = out.append_column("lane", pa.array(lane.ravel(), pa.int32()))
    whole_steps = min(chunk_steps, n // lanes)
    step = s.ravel()
    for name, at in (("first", 0), ("next", lanes - 1)):
        places = np.minimum(np.arange(chunk_steps) * lanes + at, max(n - 1, 0))
        epoch, window, number = (rows[c].to_numpy()[places].astype(np.int64) for c in ("epoch", "window", "number"))
        if name == "next":
            last_number = number + 1 == rows["microbatches"].to_numpy()[places]
            last_window = last_number & (window + 1 == rows["windows"].to_numpy()[places])
            number = np.where(last_number, 0, number + 1)
            window = np.where(last_window, 0, window + last_number)
            epoch = epoch + last_window
        for part, values in (("epoch", epoch), ("window", window), ("number", number)):
            values = np.where(np.arange(chunk_steps) < whole_steps, values, FILLER)
            out = out.append_column(f"{name}_{part}", pa.array(values[step], pa.int32()))
    for name in ("tokens", *feed.counted):
        column = rows["tokens" if name == "tokens" else f"count_{name}"].to_numpy()
        sums = np.zeros(chunk_steps, np.int64)
        np.add.at(sums, np.arange(n) // lanes, column)
        out = out.append_column(f"step_{name}", pa.array(sums[step], pa.int64()))
    return out.cast(deal_schema(feed))


def split(
    dataset: Dataset, feed: Feed, trainers: int, chunk_steps: int, options: Mapping[str, Any] | None = None
) -> list[DataIterator]:
    """One iterator for each trainer; rows come in steps of K microbatches, in lane order."""
    lanes = feed.geometry.lanes
    per_trainer = -(-lanes // trainers)
    dealt = dataset.repartition(target_num_rows_per_block=lanes * chunk_steps, strict=True).map_batches(
        deal,  # type: ignore[arg-type]
        batch_size=None,
        batch_format="pyarrow",
        fn_kwargs={"feed": feed, "trainers": trainers, "chunk_steps": chunk_steps},
        **dict(options or {}),
    )
    dealt = dealt.repartition(target_num_rows_per_block=per_trainer * chunk_steps, strict=True)
    dealt = dealt.copy(dealt)
    dealt.context.execution_options.preserve_order = True
    parts: list[DataIterator] = dealt.streaming_split(trainers, equal=True)
    return parts


def steps(iterator: DataIterator, feed: Feed, trainers: int, cursor: Address) -> Generator[pa.Table]:
    """The trainer's K rows of each step, in order, checked: a step must begin where the one before it ended.

    Ends with the plan. Raises StreamBroken when a step is not the successor of the last.
    """
    per_trainer = -(-feed.geometry.lanes // trainers)
    expected = cursor
    batches = iter(
        iterator.iter_batches(batch_size=per_trainer, batch_format="pyarrow", drop_last=True, prefetch_batches=2)
    )
    try:
        for rows in batches:
            first = _address(rows, "first")
            if first.epoch == FILLER:
                return
            if first != expected:
                raise StreamBroken(f"the stream delivered {tuple(first)} where {tuple(expected)} was due")
            expected = next_address(rows)
            yield rows
    finally:
        # Ray prefetches in threads of this process; left running they would take it down when Ray is shut down.
        if isinstance(batches, Generator):
            batches.close()


def _address(rows: pa.Table, which: str) -> Address:
    return Address(*(rows[f"{which}_{part}"][0].as_py() for part in ("epoch", "window", "number")))


def next_address(rows: pa.Table) -> Address:
    """The address after the step these rows belong to: what a checkpoint keeps."""
    return _address(rows, "next")


def flat_columns(rows: pa.Table, row: int, names: Sequence[str]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """({column: int32[tokens]}, int32[examples] lengths) of one microbatch; empty arrays for a filler."""
    columns = {name: _list_value(rows[f"column_{name}"], row) for name in names}
    return columns, _list_value(rows["lengths"], row)


def _list_value(column: pa.ChunkedArray, row: int) -> np.ndarray:
    values: np.ndarray = column[row].values.to_numpy()
    return values
