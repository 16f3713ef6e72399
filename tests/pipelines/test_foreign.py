"""Foreign passages: never of one's own document, drawn by key alone, found behind a row group of one document."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from corruption.errors import InputError
from corruption.schema import FOREIGN
from pipelines.foreign import attach, stored_columns
from pipelines.store import open_store
from pipelines.store_writer import finish_store, write_shard
from tests.pipelines.synthetic import passages

NAMES = stored_columns(("tokens", *FOREIGN))


def write(folder, documents, row_group_tokens=10**6):
    """A store of one training shard whose rows belong to `documents` in turn; tokens tell the row."""
    n = len(documents)
    table = passages(n, 9, seed=1, prefix="f")
    table = table.set_column(1, "doc", pa.array(documents, pa.uint64()))
    tokens = [[100 + i] * (1 + i % 3) for i in range(n)]
    ones = [[1] * len(row) for row in tokens]
    for name, rows in (("tokens", tokens), ("word_start", ones), ("sentence_start", ones)):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(rows, pa.list_(pa.int32())))
    shards = [
        write_shard(table, folder / "train-00000.parquet", row_group_tokens=row_group_tokens, source=0),
        write_shard(table, folder / "held_out-00000.parquet", row_group_tokens=row_group_tokens, source=0),
    ]
    finish_store(folder, shards, {})
    return open_store(folder)


def attached(store, group=0, **change):
    table = store.read(store.train.shard[group], [int(store.train.number[group])], ("key", *NAMES))
    return attach(store, store.train, group, table, **{"seed": 3, "epoch": 0, "copy": 0, **change})


def rows_of(table):
    """The row that each foreign passage is, by its tokens."""
    return [tokens[0] - 100 for tokens in table["foreign_tokens"].to_pylist()]


def test_what_is_read_from_the_store():
    assert stored_columns(("tokens", "word_start")) == ("tokens", "word_start")
    assert NAMES == ("tokens", "doc", "word_start", "sentence_start")


def test_it_is_a_passage_of_another_document_with_its_sentences(tmp_path):
    documents = [0, 0, 0, 1, 1, 2, 2, 2, 2, 5]
    store = write(tmp_path, documents)
    for epoch in range(50):
        table = attached(store, epoch=epoch)
        for own, other in enumerate(rows_of(table)):
            assert documents[own] != documents[other]
        for tokens, starts in zip(table["foreign_tokens"].to_pylist(), table["foreign_sentence_start"].to_pylist()):
            assert len(tokens) == len(starts) == 1 + (tokens[0] - 100) % 3


def test_every_passage_of_other_documents_is_equally_likely(tmp_path):
    store = write(tmp_path, [0, 0, 0, 1, 1, 2, 2, 2, 2, 5])
    counts = Counter(rows_of(attached(store, epoch=epoch))[3] for epoch in range(7000))
    assert sorted(counts) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_it_depends_on_seed_epoch_key_and_copy_alone(tmp_path):
    store = write(tmp_path, [i // 2 for i in range(60)])
    first = rows_of(attached(store))
    assert rows_of(attached(store)) == first
    assert all(rows_of(attached(store, **change)) != first for change in ({"seed": 4}, {"epoch": 1}, {"copy": 1}))
    table = store.read(store.train.shard[0], [0], ("key", *NAMES))
    part = attach(store, store.train, 0, table.take([7, 3]), seed=3, epoch=0, copy=0)
    # Its candidates are those that are there: only the whole row group gives the run's own choice.
    assert set(rows_of(part)) <= {3, 7}


def test_behind_a_row_group_of_one_document_the_next_is_used_wrapping_round(tmp_path):
    documents = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    store = write(tmp_path, documents, row_group_tokens=4)
    groups = [
        store.read(shard, [int(number)], ("doc",))["doc"].to_pylist()
        for shard, number in zip(store.train.shard, store.train.number)
    ]
    assert len(set(groups[0])) == 1 and len(groups) > 2
    for group in range(len(groups)):
        for epoch in range(20):
            table = attached(store, group, epoch=epoch)
            for own, other in zip(table["doc"].to_pylist(), rows_of(table)):
                assert documents[other] != own
    last = len(groups) - 1
    if len(set(groups[last])) == 1:
        assert {documents[row] for row in rows_of(attached(store, last))} <= {0, 1}


def test_a_part_of_one_document_is_refused(tmp_path):
    store = write(tmp_path, [4, 4, 4])
    with pytest.raises(InputError, match="all its passages are of one document, and this chain pairs two"):
        attached(store)


def test_no_row_is_left_without(tmp_path):
    table = attached(write(tmp_path, [0, 1]))
    assert rows_of(table) == [1, 0]
    assert np.array_equal(table["doc"].to_numpy(), [0, 1])
