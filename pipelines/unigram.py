"""The unigram model of a store: how well token frequencies alone would answer, the floor under any masked model."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from corruption.ragged import Ragged
from corruption.schema import IGNORE
from pipelines.store import Store

ENOUGH_TOKENS = 100_000_000


def unigram_counts(store: Store, size: int) -> npt.NDArray[np.int64]:
    """int64[size]: how often each id occurs in the training passages, or in their first hundred million tokens."""
    counts = np.zeros(size, np.int64)
    for shard, number in zip(store.train.shard, store.train.number.tolist()):
        tokens = Ragged.from_arrow(store.read(shard, [number], ["tokens"])["tokens"]).values
        counts += np.bincount(tokens, minlength=size)
        if counts.sum() >= ENOUGH_TOKENS:
            break
    return counts


def unigram_loss(counts: npt.NDArray[np.int64], labels: Iterable[npt.NDArray[np.int32]]) -> tuple[float, int]:
    """(nats per label, labels) of the add-one smoothed unigram model at the positions that carry a label."""
    logs = np.log(counts + 1.0) - math.log(int(counts.sum()) + len(counts))
    total, n = 0.0, 0
    for row in labels:
        real = row[row != IGNORE]
        total -= float(logs[real].sum())
        n += len(real)
    return (total / n if n else math.nan), n
