"""The laws of the prefix split: C11 and its statistics."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import PrefixSplit
from tests.corruption import golden_values
from tests.corruption.rows import MODES, RICH, VOCABULARY, batch, batches, lists

STEPS = st.builds(
    PrefixSplit, rate=st.sampled_from([0.01, 0.25, 0.5, 0.75, 0.9]), mode=st.sampled_from([None, "[S]"])
)


def split(step, rows, seed=0, epoch=0):
    """[(tokens, input, targets)] of each row, as lists."""
    out = Chain((step,)).apply(rows, seed=seed, epoch=epoch, vocabulary=RICH)
    return list(zip(lists(rows.tokens), lists(out.tokens), lists(out.columns["targets"])))


def tails(rate, length, n):
    """int64[n]: lengths of the tails of n rows."""
    out = Chain((PrefixSplit(rate),)).apply(batch([[7] * length] * n), seed=4, epoch=0, vocabulary=RICH)
    return out.columns["targets"].lengths


def drawn_part(rate, length):
    """The longest tail, or beyond a half the longest beginning."""
    return min(max(round(2 * min(rate, 1 - rate) * length), 2), length) - 1


@given(batches(), STEPS, st.integers(0, 2**63), st.integers(0, 50))
def test_C11_input_and_targets_make_the_original(rows, step, seed, epoch):
    for tokens, found, targets in split(step, rows, seed, epoch):
        if len(tokens) < 2:
            assert found == tokens and targets == []
            continue
        if step.mode is not None:
            assert found[0] == MODES["[S]"]
            found = found[1:]
        assert found + targets == tokens and found and targets


@given(batches(), STEPS, st.integers(0, 2**63))
def test_C11_columns_and_origin_follow(rows, step, seed):
    rows = rows.put(labels=rows.tokens.with_values(rows.tokens.values + 100))
    out = Chain((step,)).apply(rows, seed=seed, epoch=0, vocabulary=RICH)
    assert out.aligned("word_start") and out.aligned("labels") and not out.aligned("targets")
    for tokens, origin, labels in zip(lists(rows.tokens), lists(out.origin()), lists(out.columns["labels"])):
        invented = len(tokens) >= 2 and step.mode is not None
        assert origin == [-1] * invented + list(range(len(origin) - invented))
        assert labels == [-100] * invented + [token + 100 for token in tokens[: len(origin) - invented]]
    assert np.array_equal(out.usable, rows.tokens.lengths >= 2) and set(out.unusable[~out.usable]) <= {1}


@given(STEPS, st.integers(0, 40))
def test_C11_bounds_are_the_exact_most_and_never_fall(step, length):
    bounds = step.bounds(length)
    if length:
        assert all(step.bounds(length - 1)[name] <= bounds[name] for name in bounds)
    found = split(step, batch([[7] * length] * 600))
    assert max(len(tokens) for _, tokens, _ in found) == bounds["tokens"]
    assert max(len(targets) for _, _, targets in found) == bounds["targets"]


@pytest.mark.parametrize("length", [2, 3, 5, 17, 64])
def test_C11_every_cut_is_equally_likely(length):
    counts = np.bincount(tails(0.5, length, 30_000), minlength=length)
    assert counts[0] == 0 and len(counts) == length
    assert length == 2 or stats.chisquare(counts[1:]).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.25, 0.4, 0.6, 0.75, 0.95])
def test_C11_other_rates_draw_the_shorter_part_uniformly(rate):
    length, most = 80, drawn_part(rate, 80)
    part = tails(rate, length, 30_000)
    if rate > 0.5:
        part = length - part
    counts = np.bincount(part, minlength=most + 1)
    assert counts[0] == 0 and len(counts) == most + 1
    assert most == 1 or stats.chisquare(counts[1:]).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_C12_the_rate_is_the_mean_share_of_the_tail(rate):
    """At 0.25 the S-denoiser: a tail of mean L / 4."""
    length, n = 200, 40_000
    found, most = tails(rate, length, n), drawn_part(rate, length)
    deviation = np.sqrt((most**2 - 1) / 12 / n)
    assert abs(found.mean() - rate * length) < 4 * deviation


def test_C11_the_shortest_rows():
    out = Chain((PrefixSplit(mode="[S]"),)).apply(batch([[], [5], [5, 6]]), seed=0, epoch=0, vocabulary=RICH)
    assert lists(out.tokens) == [[], [5], [MODES["[S]"], 5]]
    assert lists(out.columns["targets"]) == [[], [], [6]]
    assert out.unusable.tolist() == [1, 1, 0]


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, 25.0, float("nan")])
def test_rates_out_of_range_are_refused(rate):
    with pytest.raises(InputError) as raised:
        PrefixSplit(rate)
    assert str(raised.value) == (
        f"prefix_split.rate: {rate} is not between 0 and 1; give the mean share of the tokens that become targets"
    )


def test_a_missing_mode_token_is_named_and_no_sentinel_is_needed():
    Chain((PrefixSplit(),)).check(VOCABULARY, 500)
    with pytest.raises(InputError, match=r"small: it has no token '\[S\]', which the corruption 'prefix_split' needs"):
        Chain((PrefixSplit(mode="[S]"),)).check(VOCABULARY)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "prefix_split.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.prefix_split() == kept
