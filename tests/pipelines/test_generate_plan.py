"""Which row groups go into which shard: all of them, once an epoch, in order, whoever does the work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.generate_plan import SHARD_TOKENS, SHARDS, Piece, plan_shards, shard_tokens, sources_of
from pipelines.store import RowGroups, Store, open_store
from tests.pipelines.synthetic import write_store


def made_up(train: list[int], held_out: list[int]) -> Store:
    """A store of row groups of so many passages of one token, without a file."""
    store = Store(Path("none"), {"identity": "0"})
    for name, sizes in (("train", train), ("held_out", held_out)):
        histogram = np.stack([np.zeros(len(sizes), np.int64), np.array(sizes, np.int64)], axis=1)
        numbers = np.arange(len(sizes), dtype=np.int32) % 3
        shards = [f"{name}-{i // 3}" for i in range(len(sizes))]
        store.__dict__[name] = RowGroups(shards, numbers, np.zeros(len(sizes), np.int32), histogram)
    return store


sizes = st.lists(st.integers(1, 50), min_size=1, max_size=30)


@given(sizes, st.lists(st.integers(1, 50), max_size=5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 200))
def test_every_row_group_once_an_epoch_in_order(
    train: list[int], held_out: list[int], copies: int, epochs: int, tokens: int
) -> None:
    store = made_up(train, held_out)
    pieces = plan_shards(store, copies=copies, epochs=epochs, tokens=tokens, files="parquet")
    assert pieces == plan_shards(store, copies=copies, epochs=epochs, tokens=tokens, files="parquet")
    for epoch in range(epochs):
        own = [piece for piece in pieces if (piece.split, piece.epoch) == ("train", epoch)]
        assert [group for piece in own for group in range(piece.first, piece.end)] == list(range(len(train)))
    own = [piece for piece in pieces if piece.split == "validation"]
    assert [group for piece in own for group in range(piece.first, piece.end)] == list(range(len(held_out)))
    assert all(piece.first < piece.end for piece in pieces)
    assert {piece.epoch for piece in own} <= {0}
    for split in ("train", "validation"):
        names = [piece.name for piece in pieces if piece.split == split]
        assert names == [f"{split}-{i:05d}-of-{len(names):05d}.parquet" for i in range(len(names))]


@given(sizes, st.integers(1, 3), st.integers(1, 200))
def test_a_shard_is_as_large_as_asked_for_but_for_one_row_group(train: list[int], copies: int, tokens: int) -> None:
    store = made_up(train, [])
    for piece in plan_shards(store, copies=copies, epochs=1, tokens=tokens, files="parquet"):
        assert sum(train[piece.first : piece.end]) * copies <= tokens + max(train) * copies


def test_more_epochs_leave_the_shards_of_the_first_as_they_were() -> None:
    store = made_up([10] * 12, [5])
    one, two = (plan_shards(store, copies=1, epochs=n, tokens=30, files="parquet") for n in (1, 2))
    spans = [[(p.first, p.end) for p in pieces if (p.split, p.epoch) == ("train", 0)] for pieces in (one, two)]
    assert spans[0] == spans[1] == [(0, 3), (3, 6), (6, 9), (9, 12)]


@pytest.mark.parametrize(
    ("tokens", "copies", "expected"),
    [
        (1_000, 1, SHARD_TOKENS[0]),
        (SHARDS << 20, 1, 1 << 20),
        (SHARDS << 20, 2, 1 << 21),
        (SHARDS << 30, 1, SHARD_TOKENS[1]),
    ],
)
def test_the_size_follows_from_the_store_and_the_copies(tokens: int, copies: int, expected: int) -> None:
    assert shard_tokens(made_up([tokens], [1]), copies) == expected


def test_sources_are_named_by_store_shard(tmp_path: Path) -> None:
    store = open_store(write_store(tmp_path))
    whole = sources_of(store.train, Piece("x", "train", 0, 0, len(store.train)))
    assert [shard for shard, _ in whole] == ["train-00000.parquet", "train-00001.parquet", "train-00002.parquet"]
    for shard, numbers in whole:
        assert numbers == list(range(store.train.shard.count(shard)))
    first = store.train.shard.count("train-00000.parquet")
    across = sources_of(store.train, Piece("x", "train", 0, first - 1, first + 1))
    assert across == [["train-00000.parquet", [first - 1]], ["train-00001.parquet", [0]]]
