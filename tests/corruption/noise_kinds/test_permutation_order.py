"""Permutation orders: targets, n-grams of words, the order, and the two streams' masks that follow."""

from __future__ import annotations

import json
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.lengths import Ngram
from corruption.noise_kinds import PermutationOrder
from corruption.noise_kinds.permutation_order import choose_ngrams
from corruption.schema import IGNORE
from tests.corruption import golden_values
from tests.corruption.noise_kinds.masking import budget, ordinary, words
from tests.corruption.rows import VOCABULARY, batch, batches, lists

RATES = st.sampled_from([0.0, 0.01, 1 / 6, 0.5, 1.0])


def ordered(rows, step=None, seed=0, epoch=0):
    """[(tokens, order, labels)] of each row, as arrays."""
    step = PermutationOrder() if step is None else step
    out = Chain((step,)).apply(rows, seed=seed, epoch=epoch, vocabulary=VOCABULARY)
    order, labels = out.columns["permutation_order"], out.columns["labels"]
    return [(out.tokens.row(i), order.row(i), labels.row(i)) for i in range(len(rows))]


def runs(found):
    """Lengths of the runs of targets in all rows."""
    return [len(list(run)) for _, order, _ in found for target, run in groupby(order >= 0) if target]


@given(batches(), RATES, st.integers(1, 6), st.integers(0, 2**63))
def test_O10_targets_have_one_order_and_their_own_labels(rows, rate, longest, seed):
    for tokens, order, labels in ordered(rows, PermutationOrder(rate, longest), seed):
        targets = order >= 0
        wanted = budget(int(ordinary(tokens).sum()), rate) if len(tokens) > 1 else 0
        assert sorted(order[targets]) == list(range(wanted))
        assert (order[~targets] == -1).all()
        assert np.array_equal(labels, np.where(targets, tokens, IGNORE))
        assert ordinary(tokens)[targets].all()


@given(batches(), RATES, st.integers(0, 2**63))
def test_B4_tokens_are_never_changed(rows, rate, seed):
    for before, (after, _, _) in zip(lists(rows.tokens), ordered(rows, PermutationOrder(rate), seed)):
        assert after.tolist() == before


@pytest.mark.parametrize("rate", [0.01, 1 / 6, 0.5, 1.0])
def test_O10_the_count_is_exact_for_every_length_odd_ones_too(rate):
    rows = batch([[7] * n for n in range(2, 601)])
    found = [int((order >= 0).sum()) for _, order, _ in ordered(rows, PermutationOrder(rate))]
    assert found == [budget(n, rate) for n in range(2, 601)]


def test_B3_an_ngram_of_two_words_covers_all_their_pieces():
    """Pieces _a b _c d ...: with n = 2 and a quota of four, whole words are taken, two of them side by side."""
    tokens, fixed = np.full(24, 7, np.int32), VOCABULARY.fixed
    starts = np.arange(0, 25, 2, dtype=np.int32)
    for stream in range(300):
        order, chosen = np.full(24, -1, np.int32), np.zeros(25, np.int32)
        k = choose_ngrams(
            tokens, fixed, starts, 12, 4, 1 / 6, np.array([0.0, 0.0, 1.0]), np.uint64(stream), order, chosen
        )
        first = int(chosen[0])
        assert k == 4 and first % 2 == 0
        assert chosen[:4].tolist() == [(first + j) % 24 for j in range(4)]
        assert np.flatnonzero(order >= 0).tolist() == sorted(chosen[:4].tolist())


def test_B3_words_are_targets_whole_but_for_single_tokens_that_fill_the_quota():
    rows = batch([[7] * 60] * 2000, [[1, 0, 0] * 20] * 2000)
    torn, whole = 0, 0
    for tokens, order, _ in ordered(rows):
        for word in words(tokens, [1, 0, 0] * 20):
            taken = sum(order[i] >= 0 for i in word)
            torn, whole = torn + (taken in (1, 2)), whole + (taken == 3)
    # A quota of 10 in words of 3 leaves a single token in any case, more where the walk ends before the quota is met.
    assert whole > 1.5 * torn


def test_O10_runs_of_targets_follow_the_law_of_ngrams():
    rows = batch([[7] * 510] * 1500)
    found = np.bincount(runs(ordered(rows)), minlength=6)
    share = found[1:6] / found.sum()
    law = np.diff(Ngram(5).table())
    # Single tokens that fill the quota, and n-grams that touch, move a little of it.
    assert np.abs(share - law).max() < 0.02
    assert found[6:].sum() / found.sum() < 0.01


def test_O10_single_tokens_only_when_the_longest_is_one():
    rows = batch([[7] * 60] * 500)
    lengths = runs(ordered(rows, PermutationOrder(longest=1)))
    assert np.mean(np.array(lengths) == 1) > 0.8


@pytest.mark.parametrize("n", [12, 64])
def test_B7_every_position_is_a_target_equally_often(n):
    """No tail is favoured or spared: the walk begins anywhere."""
    rows = 20_000
    found = np.sum([order >= 0 for _, order, _ in ordered(batch([[7] * n] * rows), seed=3)], axis=0)
    p = found.sum() / (n * rows)
    assert np.abs(found - p * rows).max() < 4.5 * np.sqrt(rows * p * (1 - p))


def test_O10_all_orders_are_equally_likely():
    rows = batch([[7] * 18] * 12_000)
    places = [tuple(order[order >= 0].tolist()) for _, order, _ in ordered(rows, seed=5)]
    counts = [places.count(order) for order in set(places)]
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-3


def test_O10_of_two_targets_each_sees_the_other_half_of_the_time():
    rows = batch([[7] * 30] * 4000)
    earlier = [order[order >= 0][0] < order[order >= 0][-1] for _, order, _ in ordered(rows)]
    assert stats.binomtest(int(sum(earlier)), len(earlier), 0.5).pvalue > 1e-3


def test_rate_zero_has_no_target_and_rate_one_no_context():
    rows = batch([[7, 8, 9, 5]])
    assert ordered(rows, PermutationOrder(0.0))[0][1].tolist() == [-1] * 4
    assert sorted(ordered(rows, PermutationOrder(1.0))[0][1].tolist()) == [0, 1, 2, 3]


def test_rates_far_below_one_token_choose_one():
    (found,) = ordered(batch([[7] * 50]), PermutationOrder(5e-324))
    assert (found[1] >= 0).sum() == 1


def test_rows_of_fewer_than_two_tokens_are_too_short():
    rows = batch([[], [7], [7, 8]])
    out = Chain((PermutationOrder(),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    assert out.unusable.tolist() == [1, 1, 0]
    assert lists(out.columns["permutation_order"])[:2] == [[], [-1]]
    assert lists(out.columns["labels"])[:2] == [[], [IGNORE]]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rate": 1.2}, "permutation_order.rate: 1.2 is outside 0 to 1; give a share of the tokens"),
        ({"rate": -0.1}, "permutation_order.rate: -0.1 is outside 0 to 1; give a share of the tokens"),
        ({"longest": 0}, "permutation_order.longest: 0 is not from 1 to 1000; give the most words of an n-gram"),
        ({"longest": 1001}, "permutation_order.longest: 1001 is not from 1 to 1000; give the most words of an n-gram"),
    ],
)
def test_fields_out_of_range_are_refused(fields, says):
    with pytest.raises(InputError) as raised:
        PermutationOrder(**fields)
    assert str(raised.value) == says


def test_passages_of_one_token_are_refused_beforehand():
    PermutationOrder().check(VOCABULARY, None)
    PermutationOrder().check(VOCABULARY, 2)
    with pytest.raises(InputError, match=r"passages have up to 1 token, and a target needs context; raise corpus\.max"):
        PermutationOrder().check(VOCABULARY, 1)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "permutation_order.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.permutation_order() == kept
