"""deal: whole steps to trainers, against a plain loop, for any number of trainers, lanes and steps, with
short tails.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from pipelines.plan import Address
from pipelines.stream import FILLER, deal, deal_schema, flat_columns, next_address
from pipelines.window import read_window
from tests.pipelines.synthetic import plan_and_feed, write_store


@pytest.fixture(scope="module")
def sequence(tmp_path_factory):
    """The feed, and sixty microbatches of the sequence in order; they cross windows and epochs."""
    store = write_store(tmp_path_factory.mktemp("store"), shards=2, rows=40)
    plan, feed = plan_and_feed(store, microbatch_tokens=192)
    tables = [read_window(row, feed) for row in plan.table(Address(0, 0, 0), 60).to_pylist()]
    rows = pa.concat_tables(tables).combine_chunks().slice(0, 60)
    assert rows["epoch"][0].as_py() != rows["epoch"][-1].as_py() and len(rows) == 60
    return feed, rows


def successor(row):
    """The address after a microbatch's own."""
    if row["number"] + 1 < row["microbatches"]:
        return Address(row["epoch"], row["window"], row["number"] + 1)
    if row["window"] + 1 < row["windows"]:
        return Address(row["epoch"], row["window"] + 1, 0)
    return Address(row["epoch"] + 1, 0, 0)


@pytest.mark.parametrize("lanes", range(1, 10))
@pytest.mark.parametrize("trainers", range(1, 6))
def test_deal_against_a_plain_loop(sequence, lanes, trainers):
    feed, rows = sequence
    feed = replace(feed, geometry=replace(feed.geometry, lanes=lanes))
    share = -(-lanes // trainers)
    for chunk in range(1, 6):
        full = lanes * chunk
        for n in {full, full - 1, lanes * (chunk - 1) + 1, full // 2, 1} - {0}:
            given = rows.slice(7, n).to_pylist()
            out = deal(rows.slice(7, n), feed, trainers, chunk)
            assert out.schema.equals(deal_schema(feed))
            found = out.to_pylist()
            assert len(found) == trainers * chunk * share
            for place, row in enumerate(found):
                r, s, k = place // (chunk * share), place // share % chunk, place % share
                lane = r * share + k
                step = given[s * lanes : (s + 1) * lanes]
                assert row["lane"] == lane
                if lane < len(step):
                    assert {name: row[name] for name in rows.schema.names} == step[lane]
                else:
                    assert row["epoch"] == FILLER and row["keys"] == row["lengths"] == []
                    assert row["column_input_ids"] == row["column_labels"] == [] and row["count_mlm"] == 0
                first = Address(*(row[f"first_{part}"] for part in Address._fields))
                after = Address(*(row[f"next_{part}"] for part in Address._fields))
                if len(step) == lanes:
                    assert first == Address(*(step[0][part] for part in Address._fields))
                    assert after == successor(step[-1])
                else:
                    assert first == after == Address(FILLER, FILLER, FILLER)
                assert row["step_tokens"] == sum(m["tokens"] for m in step)
                assert row["step_mlm"] == sum(m["count_mlm"] for m in step)


def test_consecutive_chunks_join_without_a_gap(sequence):
    feed, rows = sequence
    parts = [deal(rows.slice(i * 6, 6), feed, 2, 2) for i in range(10)]
    for before, after in pairwise(parts):
        last_step = before.slice(2, 2)
        assert next_address(last_step) == Address(*(after[f"first_{p}"][0].as_py() for p in Address._fields))


def test_fillers_have_empty_columns_of_the_right_type(sequence):
    feed, rows = sequence
    out = deal(rows.slice(0, 3), feed, 2, 1)
    columns, lengths = flat_columns(out, 3, feed.frame.columns)
    assert out["epoch"][3].as_py() == FILLER
    assert all(len(values) == 0 and values.dtype == "int32" for values in (*columns.values(), lengths))
    columns, lengths = flat_columns(out, 0, feed.frame.columns)
    assert len(columns["input_ids"]) == lengths.sum() > 0


def test_chunked_input_deals_like_one_block(sequence):
    feed, rows = sequence
    chunked = pa.concat_tables([rows.slice(0, 2), rows.slice(2, 1), rows.slice(3, 3)])
    assert deal(chunked, feed, 2, 2).equals(deal(rows.slice(0, 6).combine_chunks(), feed, 2, 2))
