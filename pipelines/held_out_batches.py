"""The held-out passages as microbatches: every one once, in a fixed order, always under the same masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from corruption.noise import rank_bits, stream
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from pipelines.foreign import attach, stored_columns
from pipelines.job import Job
from pipelines.plan import form
from pipelines.window import Feed

if TYPE_CHECKING:
    from trainers.microbatch import Microbatch

EPOCH = 0
"""Evaluation draws with epoch 0 of `evaluation.seed`, whenever it runs."""


@dataclass(frozen=True)
class HeldOutBatches:
    """Iterates over one trainer's share of the held-out microbatches, read anew each time.

    The noise of a passage depends on its key and `evaluation.seed` alone, so neither `microbatch_tokens` nor the number
    of trainers changes the score. shuffled: unlabelled tokens of each example are permuted among themselves, to show
    how much the model uses their order.
    """

    job: Job
    rank: int = 0
    trainers: int = 1
    shuffled: bool = False

    def framed(self) -> Iterator[dict[str, Ragged]]:
        """Framed columns of each microbatch of this share, ragged int32."""
        number = -1
        limit = self.job.recipe.evaluation.held_out_microbatches
        for corrupted in self._corrupted():
            order = np.argsort(-corrupted.tokens.lengths, kind="stable")
            lengths = corrupted.tokens.lengths[order]
            frame = self._feed.frame
            for rows in np.split(order, np.cumsum(form(lengths, self._feed.geometry))[:-1]):
                number += 1
                if limit is not None and number >= limit:
                    return
                if number % self.trainers == self.rank:
                    yield frame.apply(corrupted.take(rows), self._feed.vocabulary)

    def __iter__(self) -> Iterator[Microbatch]:
        from trainers.microbatch import Microbatch

        pad = self.job.vocabulary.need("pad", "padding")
        for columns in self.framed():
            lengths = next(iter(columns.values())).lengths
            yield Microbatch.from_flat({n: c.values for n, c in columns.items()}, lengths, pad)

    def _corrupted(self) -> Iterator[Batch]:
        store, feed = self.job.opened_store(), self._feed
        names = ("key", *stored_columns(feed.chain.columns()))
        part, seed = store.held_out, self.job.recipe.evaluation.seed
        for group, (shard, number) in enumerate(zip(part.shard, part.number.tolist())):
            table = store.read(shard, [number], names)
            if feed.chain.foreign:
                table = attach(store, part, group, table, seed=seed, epoch=EPOCH, copy=0)
            batch = Batch.from_arrow(table, feed.chain.columns())
            corrupted = feed.chain.apply(batch, seed=seed, epoch=EPOCH, vocabulary=feed.vocabulary)
            corrupted = corrupted.take(np.flatnonzero(corrupted.usable))
            yield _shuffle_context(corrupted, seed) if self.shuffled else corrupted

    @cached_property
    def _feed(self) -> Feed:
        geometry = self.job.geometry(self.job.opened_store().held_out)
        return replace(self.job.feed(self.job.plan()), geometry=geometry)


def _shuffle_context(batch: Batch, seed: int) -> Batch:
    """Tokens without a label change places among themselves inside their row, by keyed draws; labels stay."""
    tokens, labels = batch.tokens, batch.columns["labels"]
    row = np.repeat(np.arange(len(batch)), tokens.lengths)
    place = np.arange(len(tokens.values)) - tokens.offsets[row]
    free = np.flatnonzero(labels.values == IGNORE)
    bits = rank_bits(stream(seed, "papermoth.context"), batch.keys[row[free]] + place[free].astype(np.uint64))
    order = np.lexsort((bits, row[free]))
    values = tokens.values.copy()
    values[free] = tokens.values[free[order]]
    return batch.put(tokens=tokens.with_values(values))
