"""Windows: what is read is what was planned, whatever the corruption, from any cursor."""

from __future__ import annotations

import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from corruption.chain import Chain
from corruption.noise_kinds import Mask
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from pipelines.plan import Address
from pipelines.store import open_store
from pipelines.window import read_window
from tests.pipelines.synthetic import plan_and_feed, reference, write_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store"), sources=2)


def epoch_of(plan, feed, number=0):
    """All windows of an epoch, read."""
    rows = [row for row in plan.table(Address(number, 0, 0), 1).to_pylist() if row["epoch"] == number]
    return [read_window(row, feed) for row in rows]


def examples(table):
    """[(key, framed length)] of a table of microbatches."""
    return [
        (key, length)
        for keys, lengths in zip(table["keys"].to_pylist(), table["lengths"].to_pylist())
        for key, length in zip(keys, lengths)
    ]


def stored(folder):
    """{key: tokens} of the training passages."""
    opened = open_store(folder)
    found = {}
    for shard, number in zip(opened.train.shard, opened.train.number.tolist()):
        table = opened.read(shard, [number], ["key", "tokens"])
        found |= dict(zip(table["key"].to_pylist(), table["tokens"].to_pylist()))
    return found


def test_every_passage_comes_exactly_once_an_epoch_at_weight_1(store):
    plan, feed = plan_and_feed(store, weights=(1.0, 1.0))
    expected = {key: len(tokens) + 2 for key, tokens in stored(store).items()}
    for number in range(2):
        found = [example for table in epoch_of(plan, feed, number) for example in examples(table)]
        assert len(found) == len(expected) and dict(found) == expected


def test_addresses_and_counts_are_those_of_the_plan(store):
    plan, feed = plan_and_feed(store, weights=(1.0, 1.0))
    for number in range(2):
        tables = epoch_of(plan, feed, number)
        assert [len(table) for table in tables] == plan.counts(number).tolist()
        for window, table in enumerate(tables):
            assert table.schema.equals(feed.schema())
            assert table["number"].to_pylist() == list(range(len(table)))
            for name, value in (
                ("epoch", number),
                ("window", window),
                ("windows", len(tables)),
                ("microbatches", len(table)),
            ):
                assert set(table[name].to_pylist()) == {value}


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 2.5), (1.0, 0.5)])
def test_the_budget_is_never_exceeded_and_counts_are_true(store, weights):
    plan, feed = plan_and_feed(store, microbatch_tokens=128, weights=weights)
    for table in epoch_of(plan, feed):
        for row in table.to_pylist():
            lengths = np.array(row["lengths"])
            assert lengths.max() * len(lengths) <= 128
            assert row["tokens"] == (lengths - 2).sum()
            assert len(row["column_input_ids"]) == len(row["column_labels"]) == lengths.sum()
            assert row["count_mlm"] == sum(label != IGNORE for label in row["column_labels"]) > 0


@pytest.mark.parametrize("weights", [(0.3, 1.0), (2.5, 0.3)])
def test_weights_give_their_appearances_and_other_copies_other_noise(store, weights):
    plan, feed = plan_and_feed(store, weights=weights)
    tables = epoch_of(plan, feed)
    assert [len(table) for table in tables] == plan.counts(0).tolist()
    times = Counter(key for table in tables for key, _ in examples(table))
    opened = open_store(store)
    source_of = dict(zip(opened.train.shard, opened.train.source.tolist()))
    for source, weight in enumerate(weights):
        keys = {
            key
            for shard, number in zip(opened.train.shard, opened.train.number.tolist())
            if source_of[shard] == source
            for key in opened.read(shard, [number], ["key"])["key"].to_pylist()
        }
        counts = np.array([times[key] for key in keys])
        assert counts.min() >= int(weight) and counts.max() <= int(np.ceil(weight))
        assert abs(counts.sum() - weight * len(keys)) <= 4 * np.sqrt(len(keys) * 0.25) or weight % 1 == 0
    if max(weights) >= 2:
        noise: dict[int, set[tuple[int, ...]]] = {}
        for table in tables:
            for row in table.to_pylist():
                edges = np.cumsum([0, *row["lengths"]])
                for key, a, b in zip(row["keys"], edges, edges[1:], strict=False):
                    noise.setdefault(key, set()).add(tuple(row["column_labels"][a:b]))
        again = [key for key, n in times.items() if n > 1]
        assert sum(len(noise[key]) > 1 for key in again) > 0.9 * len(again)


def test_membership_and_order_do_not_depend_on_the_corruption(store):
    chains = [Chain((Mask(),)), Chain((Mask(rate=0.5, unit="word", count="bernoulli"),), ("other",))]
    found = []
    for chain in chains:
        plan, feed = plan_and_feed(store, weights=(1.0, 0.5), chain=chain)
        found.append([table.select(["number", "keys", "lengths", "tokens"]) for table in epoch_of(plan, feed)])
    assert all(a.equals(b) for a, b in zip(*found))


def test_the_noise_is_that_of_the_passage_alone(store):
    """What leaves a window is what the chain makes of the passage by itself."""
    plan, feed = plan_and_feed(store, weights=(1.0, 1.0))
    passages = stored(store)
    for row in epoch_of(plan, feed, 1)[0].to_pylist()[:5]:
        edges = np.cumsum([0, *row["lengths"]])
        for key, a, b in zip(row["keys"], edges, edges[1:], strict=False):
            alone = Batch(np.array([key], np.uint64), {"tokens": Ragged.from_rows([passages[key]])})
            out = feed.chain.apply(alone, seed=feed.seed, epoch=1, vocabulary=feed.vocabulary)
            assert row["column_input_ids"][a + 1 : b - 1] == out.tokens.values.tolist()
            assert row["column_labels"][a + 1 : b - 1] == out.columns["labels"].values.tolist()


def test_epochs_differ_in_order_and_in_noise(store):
    plan, feed = plan_and_feed(store, weights=(1.0, 1.0))
    a, b = (pa.concat_tables(epoch_of(plan, feed, number)) for number in (0, 1))
    assert examples(a) != examples(b) and sorted(examples(a)) == sorted(examples(b))
    again = pa.concat_tables(epoch_of(plan, feed, 0))
    assert again.equals(a)


def test_microbatches_of_a_window_are_not_in_order_of_length(store):
    plan, feed = plan_and_feed(store, microbatch_tokens=128, weights=(1.0, 1.0))
    longest = [[max(row) for row in table["lengths"].to_pylist()] for table in epoch_of(plan, feed)]
    assert any(lengths != sorted(lengths, reverse=True) for lengths in longest)


def test_skipping_leaves_exactly_the_rest(store):
    plan, feed = plan_and_feed(store, microbatch_tokens=128, weights=(1.0, 1.0))
    row = plan.table(Address(0, 1, 0), 1).to_pylist()[0]
    whole = read_window(row, feed)
    for skip in range(len(whole) + 1):
        rest = read_window(row | {"skip": skip}, feed)
        assert rest.schema.equals(feed.schema()) and rest.equals(whole.slice(skip))


def test_resuming_at_any_step_eats_what_the_uninterrupted_run_would(store):
    plan, feed = plan_and_feed(store, microbatch_tokens=192, weights=(1.0, 0.5))
    whole = reference(plan, feed, Address(0, 0, 0), 40)
    assert any(step[0][0].epoch != step[-1][0].epoch for step in whole)
    for step in (1, 7, 19, 33):
        cursor = plan.address_of_step(step)
        assert cursor == whole[step][0][0]
        assert reference(plan, feed, cursor, 40 - step) == whole[step:]


def test_nothing_before_the_cursor_is_read(tmp_path, monkeypatch):
    """A resumed run reads the cursor's window and later ones: shards of earlier windows may be gone."""
    folder = write_store(tmp_path / "store", shards=6, rows=30, row_group_tokens=10**9)
    plan, feed = plan_and_feed(folder, window_row_groups=1)
    cursor = Address(0, 3, 0)
    gone = [plan.row_groups.shard[g] for w in range(3) for g in plan.epoch(0).row_group[plan.epoch(0).part(w)]]
    expected = reference(plan, feed, cursor, 3)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    for shard in gone:
        (elsewhere / shard).unlink()
    plan, feed = plan_and_feed(elsewhere, window_row_groups=1)
    rows = [row for row in plan.table(cursor, 1).to_pylist() if row["epoch"] == 0]
    assert sum(len(read_window(row, feed)) for row in rows) == int(plan.counts(0)[3:].sum())
    flat = [entry for step in expected for entry in step]
    assert flat[0][0] == cursor


def test_A_11_short_tails_are_batched_by_their_own_length(tmp_path):
    """Passages of 600, 512 and 181 tokens: each one is used, with all its tokens."""
    from pipelines.store_writer import finish_store, write_shard
    from tests.pipelines.synthetic import passages

    table = passages(3, 600, seed=0, prefix="a")
    rows = [np.arange(n, dtype=np.int32) % 900 + 5 for n in (600, 512, 181)]
    for i, name in ((2, "tokens"), (3, "word_start"), (4, "sentence_start")):
        table = table.set_column(i, name, pa.array(rows if name == "tokens" else [np.ones_like(r) for r in rows]))
    shard = write_shard(table, tmp_path / "train-00000.parquet", row_group_tokens=10**6, source=0)
    finish_store(tmp_path, [shard], {})
    plan, feed = plan_and_feed(tmp_path, microbatch_tokens=700)
    (found,) = epoch_of(plan, feed)
    assert sum(found["tokens"].to_pylist()) == 600 + 512 + 181 == plan.row_groups.tokens
