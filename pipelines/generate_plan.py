"""Which row groups of the store go into which shard of a data set: a function of the store and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipelines.data_set import TRAIN, VALIDATION, shard_name
from pipelines.store import RowGroups, Store

SHARD_TOKENS = (1 << 18, 1 << 23)
"""Fewest and most tokens of passages in a shard; between them an epoch makes SHARDS. The most is some 30 MB of
Parquet.
"""

SHARDS = 64
"""More than twice the workers of most machines, so that none waits long for the last shard."""


@dataclass(frozen=True)
class Piece:
    """One shard to write: the row groups `first` up to, not including, `end` of a split's part, in one epoch."""

    name: str
    split: str
    epoch: int
    first: int
    end: int


def shard_tokens(store: Store, copies: int) -> int:
    """How many tokens a shard is to hold: of the store's size and the copies alone, never of who does the work."""
    least, most = SHARD_TOKENS
    return max(least, min(most, store.train.tokens * copies // SHARDS))


def plan_shards(store: Store, *, copies: int, epochs: int, tokens: int, files: str) -> list[Piece]:
    """The shards in order: epoch after epoch of training row groups, then the held-out ones once.

    Row groups stay in the store's order, and all copies of one go into one shard; the shards of an epoch are of like
    size, about `tokens` or less.
    """
    pieces = []
    for split, part, passes, times in ((TRAIN, store.train, epochs, copies), (VALIDATION, store.held_out, 1, 1)):
        edges = _edges(_tokens(part) * times, tokens)
        total = passes * (len(edges) - 1)
        for epoch in range(passes):
            for place, (first, end) in enumerate(pairwise(edges)):
                number = epoch * (len(edges) - 1) + place
                pieces.append(Piece(shard_name(split, number, total, files), split, epoch, first, end))
    return pieces


def sources_of(part: RowGroups, piece: Piece) -> list[list[object]]:
    """[[store shard, [row group numbers]], ...] of a piece, as the manifest has them."""
    found: dict[str, list[object]] = {}
    for group in range(piece.first, piece.end):
        found.setdefault(part.shard[group], []).append(int(part.number[group]))
    return [[shard, numbers] for shard, numbers in found.items()]


def _tokens(part: RowGroups) -> npt.NDArray[np.int64]:
    total: npt.NDArray[np.int64] = part.histogram @ np.arange(part.histogram.shape[1])
    return total


def _edges(sizes: npt.NDArray[np.int64], most: int) -> list[int]:
    """Where pieces of like size begin, and the end."""
    if not len(sizes):
        return [0]
    ends = np.cumsum(sizes)
    pieces = max(1, -(-int(ends[-1]) // most))
    # The piece in which a row group's middle falls; a row group larger than a piece leaves some without any.
    piece = (2 * ends - sizes) * pieces // max(1, 2 * int(ends[-1]))
    return [*np.flatnonzero(np.diff(piece, prepend=-1)).tolist(), len(sizes)]
