"""The endless sequence: addresses, counts from histograms, weights, resuming, all without reading a passage."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corruption.errors import InputError
from pipelines.plan import PLAN_ROWS, Address, Geometry, Plan, form, kept
from pipelines.plan import _count as count
from pipelines.store import RowGroups
from tests.pipelines.synthetic import plan_and_feed, write_store


def row_groups(histograms, sources=None):
    """Row groups of these {length: passages}."""
    longest = max((max(h, default=0) for h in histograms), default=0)
    histogram = np.zeros((len(histograms), longest + 1), np.int64)
    for i, counts in enumerate(histograms):
        for length, n in counts.items():
            histogram[i, length] = n
    n = len(histograms)
    return RowGroups(
        [f"train-{i}" for i in range(n)],
        np.zeros(n, np.int32),
        np.array(sources or [0] * n, np.int32),
        histogram,
    )


def geometry(longest, *, tokens=256, lanes=3, groups=2, weights=(1.0,)):
    return Geometry(np.arange(longest + 1) + 2, tokens, lanes, groups, weights)


def made_plan(histograms, *, seed=7, sources=None, **shape):
    groups = row_groups(histograms, sources)
    return Plan(groups, seed, geometry(groups.histogram.shape[1] - 1, **shape))


ALL_ONCE = st.just((1.0,))
WEIGHTS = st.sampled_from([(1.0,), (0.3, 1.0), (2.5, 1.0), (1.0, 0.5, 2.0)])


@st.composite
def plans(draw, weights=ALL_ONCE):
    n = draw(st.integers(1, 9))
    histograms = [
        draw(st.dictionaries(st.integers(1, 30), st.integers(1, 9), min_size=1, max_size=5)) for _ in range(n)
    ]
    chosen = draw(weights)
    sources = [draw(st.integers(0, len(chosen) - 1)) for _ in range(n)]
    return made_plan(
        histograms,
        seed=draw(st.integers(0, 2**32)),
        sources=sources,
        tokens=draw(st.integers(32, 200)),
        lanes=draw(st.integers(1, 5)),
        groups=draw(st.integers(1, 4)),
        weights=chosen,
    )


@given(st.lists(st.integers(0, 40), max_size=80), st.integers(42, 300))
def test_the_count_from_a_histogram_is_the_count_of_what_is_formed(lengths, limit):
    shape = geometry(40, tokens=limit)
    descending = np.sort(np.array(lengths, np.int64))[::-1].copy()
    sizes = form(descending, shape)
    assert sizes.sum() == len(lengths) and (sizes > 0).all()
    assert count(np.bincount(descending, minlength=41), shape.positions, limit) == len(sizes)
    # Naive: a microbatch takes rows while they fit at the width of its first.
    naive, room = [], 0
    for length in descending:
        if not room:
            naive.append(0)
            room = limit // (length + 2)
        naive[-1] += 1
        room -= 1
    assert sizes.tolist() == naive
    first = np.cumsum(sizes) - sizes
    assert ((descending[first] + 2) * sizes <= limit).all() if len(sizes) else True


@given(plans(WEIGHTS))
def test_an_epochs_counts_add_up_over_its_windows(plan):
    for number in range(2):
        epoch = plan.epoch(number)
        counts = plan.counts(number)
        assert len(counts) == epoch.windows and (counts > 0).all()
        covered = np.concatenate([np.arange(len(epoch.row_group))[epoch.part(w)] for w in range(epoch.windows)])
        assert covered.tolist() == list(range(len(epoch.row_group)))


@given(plans())
def test_at_weight_1_every_row_group_comes_once_an_epoch(plan):
    for number in range(3):
        epoch = plan.epoch(number)
        assert sorted(epoch.row_group.tolist()) == list(range(len(plan.row_groups)))
        assert (epoch.copy == 0).all() and (epoch.share == 1).all()


@given(plans(WEIGHTS), st.integers(0, 30))
def test_the_address_of_a_step_is_its_place_in_the_sequence(plan, step):
    flat, epoch = [], 0
    while len(flat) <= step * plan.geometry.lanes:
        for window, n in enumerate(plan.counts(epoch).tolist()):
            flat += [Address(epoch, window, number) for number in range(n)]
        epoch += 1
    assert plan.address_of_step(step) == flat[step * plan.geometry.lanes]
    at = plan.address_of_step(step)
    before = sum(int(plan.counts(e).sum()) for e in range(at.epoch))
    inside = step * plan.geometry.lanes - before
    assert plan.epochs_of(step) == pytest.approx(at.epoch + inside / int(plan.counts(at.epoch).sum()))


@given(plans(WEIGHTS), st.integers(0, 25), st.integers(1, 60))
@settings(max_examples=50)
def test_a_table_begins_at_its_cursor_and_holds_as_many_as_asked(plan, step, wanted):
    cursor = plan.address_of_step(step)
    table = plan.table(cursor, wanted)
    assert table.schema.equals(PLAN_ROWS)
    rows = table.to_pylist()
    assert (rows[0]["epoch"], rows[0]["window"], rows[0]["skip"]) == cursor
    assert all(row["skip"] == 0 for row in rows[1:])
    held = sum(int(plan.counts(row["epoch"])[row["window"]]) for row in rows) - cursor.number
    assert held >= wanted
    for row, after in pairwise(rows):
        last = row["window"] + 1 == row["windows"]
        assert (after["epoch"], after["window"]) == (
            (row["epoch"] + 1, 0) if last else (row["epoch"], row["window"] + 1)
        )
    for row in rows:
        epoch = plan.epoch(row["epoch"])
        part = epoch.part(row["window"])
        assert row["row_group"] == epoch.row_group[part].tolist()
        assert row["copy"] == epoch.copy[part].tolist() and row["share"] == epoch.share[part].tolist()


@given(plans(WEIGHTS), st.integers(0, 20))
@settings(max_examples=50)
def test_a_table_from_a_later_cursor_is_the_tail_of_an_earlier_one(plan, step):
    start, cursor = Address(0, 0, 0), plan.address_of_step(step)
    whole = plan.table(start, (step + 20) * plan.geometry.lanes).to_pylist()
    tail = plan.table(cursor, 20 * plan.geometry.lanes).to_pylist()
    place = next(i for i, row in enumerate(whole) if (row["epoch"], row["window"]) == cursor[:2])
    n = min(len(whole) - place, len(tail))
    assert [row | {"skip": 0} for row in tail[:n]] == whole[place : place + n]


def test_a_table_of_small_weights_is_no_longer_than_needed():
    """Shares that round to nothing for most lengths must not be counted as nothing."""
    plan = made_plan([{length: 1 for length in range(1, 30)} for _ in range(50)], weights=(0.3,))
    epochs = {row["epoch"] for row in plan.table(Address(0, 0, 0), 10_000).to_pylist()}
    needed = 10_000 / float(np.mean([plan.counts(e).sum() for e in range(20)]))
    assert len(epochs) <= needed * 1.2 + 2


@pytest.mark.parametrize("weight", [0.3, 1.0, 2.5])
def test_weights_give_their_appearances_with_their_copies(weight):
    histograms = [{5: 10, 9: 7, 30: 1} for _ in range(40)]
    plan = made_plan(histograms, sources=[i % 2 for i in range(40)], weights=(weight, 1.0))
    for number in range(3):
        epoch = plan.epoch(number)
        rows, copies = Counter(), set()
        for group, copy, share in zip(epoch.row_group.tolist(), epoch.copy.tolist(), epoch.share.tolist()):
            n = int(kept(plan.row_groups.histogram[group], share, 7, number, group, copy).sum())
            rows[group % 2] += n
            if group % 2 == 0:
                copies.add(copy)
            assert share == 1.0 or copy == int(weight)
        assert rows[1] == 20 * 18
        # Each length of each row group rounds by a coin of its own: 60 roundings.
        assert abs(rows[0] - weight * 20 * 18) <= (0 if weight == 1.0 else 4 * np.sqrt(60 * 0.25))
        assert copies == set(range(int(np.ceil(weight))))
        total = sum(int(plan.window_histogram(epoch, w).sum()) for w in range(epoch.windows))
        assert total == sum(rows.values())


def test_a_share_rounds_each_length_up_or_down_and_without_bias():
    histogram = np.array([0, 3, 1, 10])
    found = np.array([kept(histogram, 0.3, 5, epoch, 0, 0) for epoch in range(4000)])
    exact = histogram * 0.3
    assert (found >= np.floor(exact)).all() and (found <= np.ceil(exact)).all()
    assert np.abs(found.mean(axis=0) - exact).max() < 4 * 0.5 / np.sqrt(4000)


def test_epochs_and_seeds_differ_in_order():
    histograms = [{5: 3}] * 30
    plan = made_plan(histograms)
    orders = [tuple(plan.epoch(e).row_group.tolist()) for e in range(5)]
    orders += [tuple(made_plan(histograms, seed=8).epoch(0).row_group.tolist())]
    assert len(set(orders)) == len(orders)
    assert tuple(plan.epoch(0).row_group.tolist()) == orders[0]


def test_every_row_group_comes_first_about_equally_often():
    plan = made_plan([{5: 1}] * 8)
    first = np.bincount([plan.epoch(e).row_group[0] for e in range(1600)], minlength=8)
    assert (np.abs(first - 200) < 5 * np.sqrt(200)).all()


@pytest.mark.parametrize(
    ("histograms", "shape", "says"),
    [
        ([], {}, "store: it holds no passage to train on"),
        ([{}], {}, "store: it holds no passage to train on"),
        (
            [{300: 1}],
            {"tokens": 256},
            "train.microbatch_tokens: 256 holds no example of 302 positions; give at least 302",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused(histograms, shape, says):
    with pytest.raises(InputError) as raised:
        made_plan(histograms, **shape)
    assert str(raised.value).startswith(says)


def test_weights_that_leave_nothing_are_refused_by_name():
    plan = made_plan([{5: 1}], weights=(0.0,))
    with pytest.raises(InputError, match="corpus weights: they leave no passage in epoch 0"):
        plan.epoch(0)


def test_an_epoch_that_a_small_weight_would_leave_empty_takes_one_row_group_whole():
    plan = made_plan([{1: 1}, {1: 1}], weights=(0.01,))
    epochs = [plan.epoch(number) for number in range(60)]
    assert all(plan.counts(number).sum() >= 1 for number in range(60))
    alone = [epoch for epoch in epochs if len(epoch.row_group) == 1 and epoch.share[0] == 1.0]
    assert len(alone) > 50 and {int(epoch.row_group[0]) for epoch in alone} == {0, 1}
    assert plan.address_of_step(9).epoch > plan.address_of_step(2).epoch


def test_sources_without_a_weight_are_a_callers_error():
    with pytest.raises(ValueError, match="2 sources, 1 weights"):
        made_plan([{5: 1}, {5: 1}], sources=[0, 1])


def test_H_02_fourteen_microbatches_at_four_a_step_make_three_steps_and_leave_two():
    plan = made_plan([{30: 14}], tokens=32, lanes=4, groups=1)
    assert plan.counts(0).tolist() == [14]
    assert plan.address_of_step(3) == Address(0, 0, 12) and plan.address_of_step(4) == Address(1, 0, 2)
    assert plan.epochs_of(7) == 2.0


def test_padding_is_below_5_percent_on_a_realistic_store(tmp_path):
    store = write_store(tmp_path, shards=2, rows=4000, longest=510, row_group_tokens=65_536)
    plan, _ = plan_and_feed(store, microbatch_tokens=16_384, lanes=2, window_row_groups=8)
    assert 0.0 < plan.padding(0) < 0.05 and 0.0 < plan.padding(3) < 0.05
