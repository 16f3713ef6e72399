"""Cropping: one stretch, its length and where it lies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Crop
from tests.corruption import golden_values
from tests.corruption.rows import VOCABULARY, batch, batches, lists

RATES = st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9, 1.0])


def cropped(rows, crop, seed=0):
    return Chain((crop,)).apply(rows, seed=seed, epoch=0, vocabulary=VOCABULARY)


def kept(n, rate):
    """How many of n tokens stay, as the documentation says it; Python's round is half to even too."""
    gone = 0 if rate == 0 else max(1, round(rate * n))
    return max(1, n - gone) if n else 0


@given(batches(), RATES, st.integers(0, 2**63))
def test_C15_one_stretch_stays_and_its_columns_with_it(rows, rate, seed):
    out = cropped(rows, Crop(rate), seed)
    for old, new, places in zip(lists(rows.tokens), lists(out.tokens), lists(out.origin())):
        assert len(new) == kept(len(old), rate)
        assert places == list(range(places[0], places[0] + len(places))) if places else not old
        assert new == [old[i] for i in places]
    assert out.aligned("word_start")


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_C15_no_crop_is_empty_and_the_count_is_exact_for_every_length(rate):
    rows = batch([[7] * n for n in range(301)])
    found = cropped(rows, Crop(rate)).tokens.lengths.tolist()
    assert found == [kept(n, rate) for n in range(301)]
    assert found == [Crop(rate).bounds(n)["tokens"] for n in range(301)] == sorted(found)


def test_C15_each_stretch_is_equally_likely():
    out = cropped(batch([[7] * 10] * 8000), Crop(0.5))
    starts = np.bincount([row[0] for row in lists(out.origin())], minlength=6)
    assert len(starts) == 6 and stats.chisquare(starts).pvalue > 1e-3


def test_rate_zero_is_the_identity():
    rows = batch([[7, 8], [], [9]])
    assert lists(cropped(rows, Crop(0.0)).tokens) == lists(rows.tokens)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(InputError) as raised:
        Crop(rate)
    assert str(raised.value) == f"crop.rate: {rate} is outside 0 to 1; give the share of the tokens that goes"


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "crop.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.crop() == kept
