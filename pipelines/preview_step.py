"""What a run is fed in one step: its microbatches, looked up in the plan and corrupted as the stream does it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corruption.errors import InputError
from corruption.ragged import Batch, Ragged
from corruption.schema import REASONS
from pipelines.console import Console
from pipelines.job import Job
from pipelines.plan import Address, Plan
from pipelines.prepare import prepare
from pipelines.pretrain import bind
from pipelines.preview_passages import Passages, titled
from pipelines.readable import counted
from pipelines.recipe import Recipe
from pipelines.window import Feed, window_rows

SHOWN_BESIDE = ("doc", "sentence_start")
"""Stored columns that the preview shows, whether the chain needs them or not."""


@dataclass(frozen=True)
class Eaten:
    """The microbatch that one lane of a step gets: its passages (a table, as stored) before and after corruption.

    Rows that cannot be used are still in it; framing drops them.
    """

    lane: int
    address: Address
    stored: pa.Table
    before: Batch
    after: Batch


def microbatches_of_step(plan: Plan, feed: Feed, step: int) -> Iterator[Eaten]:
    """The microbatches of global step `step`, counted from 0, in lane order."""
    lanes, lane = plan.geometry.lanes, 0
    table = plan.table(plan.address_of_step(step), lanes)
    for i in range(len(table)):
        # One row at a time: the table goes on to the end of the epoch, the step mostly ends in its first window.
        (row,) = table.slice(i, 1).to_pylist()
        stored, passages, microbatches = window_rows(row, feed, SHOWN_BESIDE)
        epoch, window, skip = row["epoch"], row["window"], row["skip"]
        for number, rows in enumerate(microbatches[skip:], skip):
            before = passages.take(rows)
            after = feed.chain.apply(before, seed=feed.seed, epoch=epoch, vocabulary=feed.vocabulary)
            yield Eaten(lane, Address(epoch, window, number), stored.take(pa.array(rows)), before, after)
            lane += 1
            if lane == lanes:
                return


def prepared_job(recipe: Recipe) -> tuple[Job, str]:
    """The recipe bound to its store as pretrain binds it, and the store's folder; nothing is made and no Ray started.

    Raises InputError when the recipe says too little to train on, or its store is not prepared.
    """
    quiet = Console(out=io.StringIO(), err=io.StringIO())
    report = prepare(recipe.for_training(), only_look=True, console=quiet)
    job, _ = bind(recipe, report)
    return job, job.store


def passages_of_step(job: Job, step: int, lane: int | None, rows: int) -> tuple[list[Passages], list[str]]:
    """A step's microbatches, of each the first `rows` to be shown, and a line on each microbatch.

    lane: show only this one. Raises InputError when the step has no such lane.
    """
    plan = job.plan()
    feed, lanes = job.feed(plan), plan.geometry.lanes
    if lane is not None and lane >= lanes:
        raise InputError("--lane", f"{lane}, and a step of this recipe has {lanes}", f"give 0 to {lanes - 1}")
    found, lines = [], []
    for eaten in microbatches_of_step(plan, feed, step):
        if lane is None or eaten.lane == lane:
            found.append(_passages(eaten, rows))
            lines.append(_line(eaten))
    return found, lines


def _passages(eaten: Eaten, rows: int) -> Passages:
    some = eaten.stored.slice(0, rows)
    places = (
        f"lane {eaten.lane}, {_said(eaten.address)}, row {row}; key {int(key):016x}, copy {int(copy)}"
        for row, (key, copy) in enumerate(zip(eaten.before.keys, eaten.before.copies))
    )
    starts = Ragged.from_arrow(eaten.stored["sentence_start"])
    return Passages(eaten.before, eaten.after, starts, tuple(titled(some, {})), tuple(places))


def _said(address: Address) -> str:
    return f"epoch {address.epoch}, window {address.window}, number {address.number}"


def _line(eaten: Eaten) -> str:
    tokens = int(np.sum(eaten.before.tokens.lengths))
    amount = f"{counted(len(eaten.before), 'passage')}, {counted(tokens, 'token')}"
    line = f"lane {eaten.lane}: {_said(eaten.address)}; {amount}"
    out = [(reason, int((eaten.after.unusable == 1 + i).sum())) for i, reason in enumerate(REASONS)]
    dropped = [f"{count} {reason.replace('_', ' ')}" for reason, count in out if count]
    return f"{line}; left out: {', '.join(dropped)}" if dropped else line
