"""The laws of rotation: C7."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.noise_kinds import Rotate
from corruption.registry import parse_step
from tests.corruption import golden_values
from tests.corruption.noise_kinds.moving import columns_follow, moved, origins
from tests.corruption.rows import VOCABULARY, batch, batches


@given(batches(), st.integers(0, 2**63), st.integers(0, 50))
def test_C7_a_cyclic_shift_that_is_not_the_identity(rows, seed, epoch):
    for tokens, found, origin in moved(Rotate(), rows, seed, epoch):
        n = len(tokens)
        first = origin[0] if n else 0
        assert origin == [(first + i) % n for i in range(n)]
        assert found == [tokens[i] for i in origin]
        assert first > 0 or n <= 1


@given(batches(), st.integers(0, 2**63))
def test_C7_the_opposite_rotation_restores_and_only_one_pair_of_neighbours_is_new(rows, seed):
    for tokens, found, origin in moved(Rotate(), rows, seed):
        if len(tokens) > 1:
            assert np.roll(found, origin[0]).tolist() == tokens
            assert sum(b != a + 1 for a, b in pairwise(origin)) == 1


@pytest.mark.parametrize("n", [2, 3, 7, 20])
def test_C7_offsets_are_uniform(n):
    firsts = [origin[0] for origin in origins(Rotate(), batch([range(5, 5 + n)] * 6000), seed=n)]
    counts = np.bincount(firsts, minlength=n)
    assert counts[0] == 0
    assert n == 2 or stats.chisquare(counts[1:]).pvalue > 1e-4


def test_C7_rows_of_no_or_one_token_stay():
    assert [found for _, found, _ in moved(Rotate(), batch([[], [7]]))] == [[], [7]]


@given(batches(), st.integers(0, 2**63))
def test_aligned_columns_follow(rows, seed):
    columns_follow(Rotate(), rows, seed)


def test_what_it_asks_for():
    step = parse_step({"kind": "rotate"})
    assert step.needs() == ("tokens",) and step.bounds(17) == {"tokens": 17} and step.breaks == ()
    step.check(VOCABULARY)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "rotate.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.rotate() == kept
