"""The laws of masking: C1 (tokens, and what holds for every unit) and C2 (whole words), and its statistics."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Mask
from corruption.schema import IGNORE
from tests.corruption.noise_kinds.masking import budget, masked, ordinary, words
from tests.corruption.rows import (
    MASK,
    SIZE,
    VOCABULARY,
    batch,
    batches,
    digest,
    lists,
)

RATES = st.sampled_from([0.0, 0.01, 0.15, 0.5, 1.0])
MASKS = st.builds(
    lambda unit_decide, **fields: Mask(unit=unit_decide[0], decide=unit_decide[1], **fields),
    unit_decide=st.sampled_from(
        [("token", None), *(("word", d) for d in ("word", "token")), *(("span", d) for d in ("span", "word", "token"))]
    ),
    rate=RATES,
    count=st.sampled_from(["exact", "bernoulli", "stochastic"]),
    mask_share=st.sampled_from([0.0, 0.5, 0.8]),
    random_share=st.sampled_from([0.0, 0.1, 0.2]),
)


@given(batches(), MASKS, st.integers(0, 2**63), st.integers(0, 50))
def test_C1_originals_are_recoverable_and_nothing_else_is_touched(rows, mask, seed, epoch):
    for tokens, found, labels in masked(mask, rows, seed, epoch):
        chosen = labels != IGNORE
        assert np.array_equal(np.where(chosen, labels, found), tokens)
        assert np.array_equal(found[~chosen], tokens[~chosen])


@given(batches(), MASKS, st.integers(0, 2**63))
def test_C1_no_special_is_chosen_and_none_but_the_mask_is_inserted(rows, mask, seed):
    for tokens, found, labels in masked(mask, rows, seed):
        assert not (labels[~ordinary(tokens)] != IGNORE).any()
        inserted = found[found != tokens]
        assert all(t == MASK or t in VOCABULARY.pool for t in inserted)
        if mask.mask_share == 0:
            assert MASK not in inserted


@given(batches(), st.sampled_from([0.01, 0.15, 0.5, 0.9]), st.integers(0, 2**63))
def test_C1_exact_count(rows, rate, seed):
    for tokens, _, labels in masked(Mask(rate=rate), rows, seed):
        assert (labels != IGNORE).sum() == budget(int(ordinary(tokens).sum()), rate)


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.5, 1.0])
def test_C1_exact_count_for_every_length(rate):
    rows = batch([[7] * n for n in range(601)])
    found = [int((labels != IGNORE).sum()) for _, _, labels in masked(Mask(rate=rate), rows)]
    assert found == [budget(n, rate) for n in range(601)]


def test_C1_half_rounds_to_even():
    rows = batch([[7] * n for n in (30, 50, 70)])
    assert [int((labels != IGNORE).sum()) for _, _, labels in masked(Mask(), rows)] == [4, 8, 10]


@pytest.mark.parametrize("unit", ["token", "word"])
def test_C1_bernoulli_share_lies_in_its_binomial_interval(unit):
    random = np.random.default_rng(0)
    rows = batch([random.integers(5, SIZE, 1000) for _ in range(250)])
    found = masked(Mask(count="bernoulli", unit=unit), rows)
    n, k = 250_000, sum(int((labels != IGNORE).sum()) for _, _, labels in found)
    assert stats.binomtest(k, n, 0.15).pvalue > 0.001
    per_row = np.array([(labels != IGNORE).sum() for _, _, labels in found])
    assert stats.chisquare(np.histogram(stats.binom.cdf(per_row, 1000, 0.15), 5, (0, 1))[0]).pvalue > 1e-4


def test_C1_stochastic_count_is_unbiased_and_one_of_two_neighbours():
    rows = batch([[7] * 17] * 20_000)
    counts = np.array([(labels != IGNORE).sum() for _, _, labels in masked(Mask(count="stochastic"), rows)])
    assert set(counts.tolist()) == {2, 3}
    assert stats.binomtest(int((counts == 3).sum()), len(counts), 0.15 * 17 - 2).pvalue > 0.001


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_C1_every_position_is_chosen_equally_often(count, unit):
    rows = batch([np.full(64, 7)] * 20_000)
    found = masked(Mask(count=count, unit=unit), rows, seed=5)
    counts = np.sum([labels != IGNORE for _, _, labels in found], axis=0)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_C1_pairs_of_positions_are_chosen_independently_of_their_distance():
    """Exactly 3 of 12: each of the 66 pairs must come up equally often."""
    found = masked(Mask(rate=0.25), batch([np.full(12, 7)] * 40_000), seed=9)
    chosen = np.array([labels != IGNORE for _, _, labels in found]).astype(np.int64)
    pairs = (chosen.T @ chosen)[np.triu_indices(12, 1)]
    # The pairs of one row are correlated, so no chi-square: compare each with its own deviation.
    p = 3 * 2 / (12 * 11)
    assert np.abs(pairs - len(found) * p).max() < 5 * np.sqrt(len(found) * p * (1 - p))


@given(batches(), st.sampled_from(["token", "word", "span"]), st.sampled_from(["exact", "bernoulli", "stochastic"]))
def test_C1_rate_zero_is_the_identity_and_rate_one_takes_all(rows, unit, count):
    for tokens, found, labels in masked(Mask(rate=0.0, unit=unit, count=count), rows):
        assert np.array_equal(tokens, found) and (labels == IGNORE).all()
    if unit == "token":
        for tokens, _, labels in masked(Mask(rate=1.0, unit=unit, count=count), rows):
            assert np.array_equal(labels != IGNORE, ordinary(tokens))
    else:
        starts = lists(rows.columns["word_start"])
        for (tokens, _, labels), flags in zip(masked(Mask(rate=1.0, unit=unit, count=count), rows), starts):
            for word in words(tokens, flags):
                assert all((labels[i] != IGNORE) == ordinary(tokens[word]).all() for i in word)


def test_C1_epochs_seeds_keys_copies_and_names_differ_and_repeat():
    tokens = [5 + i % 50 for i in range(200)]
    rows = batch([tokens, tokens], keys=[1, 2])
    chain = Chain((Mask(),))

    def of(chain=chain, rows=rows, **change):
        return digest(chain.apply(rows, **{"seed": 0, "epoch": 0, "vocabulary": VOCABULARY, **change}))

    others = [
        of(),
        of(epoch=1),
        of(seed=1),
        of(chain=Chain((Mask(),), ("again",))),
        of(rows=batch([tokens, tokens], keys=[2, 1])),
        of(rows=batch([tokens, tokens], keys=[1, 2], copies=[1, 1])),
    ]
    assert len(set(others)) == len(others) and of() == others[0]
    first, second = masked(Mask(), rows)
    assert not np.array_equal(first[2], second[2])


@given(batches(), st.sampled_from([0.01, 0.15, 0.5]), st.integers(0, 2**63))
def test_C2_words_are_chosen_whole_within_the_budget(rows, rate, seed):
    starts = lists(rows.columns["word_start"])
    for (tokens, _, labels), flags in zip(masked(Mask(rate=rate, unit="word"), rows, seed), starts):
        free = [word for word in words(tokens, flags) if ordinary(tokens[word]).all()]
        chosen = [word for word in free if labels[word[0]] != IGNORE]
        assert sorted(i for word in chosen for i in word) == np.flatnonzero(labels != IGNORE).tolist()
        wanted = budget(sum(map(len, free)), rate)
        taken = sum(map(len, chosen))
        if not free:
            assert taken == 0
        elif len(chosen) == 1 and taken > wanted:
            assert min(map(len, free)) > wanted
        else:
            # No word that was passed over would still have fitted.
            left = [len(word) for word in free if word not in chosen]
            assert taken <= wanted and all(taken + n > wanted for n in left)


@given(batches(special=False), st.sampled_from(["exact", "bernoulli", "stochastic"]), st.integers(0, 2**63))
def test_C2_one_decision_for_each_word(rows, count, seed):
    starts = lists(rows.columns["word_start"])
    mask = Mask(rate=0.5, unit="word", count=count, mask_share=0.4, random_share=0.3)
    for (tokens, found, labels), flags in zip(masked(mask, rows, seed), starts):
        for word in words(tokens, flags):
            kinds = {("mask" if found[i] == MASK else "keep" if found[i] == tokens[i] else "random") for i in word}
            assert len(kinds) == 1 or labels[word[0]] == IGNORE


def test_C2_a_first_word_without_a_start_flag_decides_for_itself():
    """A passage cut inside a word begins without a flag; its decision must not be another word's."""
    rows = batch([[7, 7, 8, 8]] * 2000, [[0, 0, 1, 0]] * 2000)
    mask = Mask(rate=1.0, unit="word", mask_share=0.5, random_share=0.0)
    found = np.array([[out[0] == MASK, out[2] == MASK] for _, out, _ in masked(mask, rows)])
    both = found.all(axis=1).sum()
    assert stats.binomtest(int(both), len(found), 0.25).pvalue > 0.001


def test_C2_decisions_of_pieces_are_independent_when_asked():
    rows = batch([[7, 7]] * 4000, [[1, 0]] * 4000)
    mask = Mask(rate=1.0, unit="word", mask_share=0.5, random_share=0.0, decide="token")
    both = sum(int((out == MASK).all()) for _, out, _ in masked(mask, rows))
    assert stats.binomtest(both, 4000, 0.25).pvalue > 0.001


@given(batches(), MASKS, st.integers(0, 2**63))
def test_C2_words_of_one_token_equal_token_masking(rows, mask, seed):
    rows = rows.put(word_start=rows.tokens.with_values(np.ones_like(rows.tokens.values)))
    by_word, by_token = (dataclasses.replace(mask, unit=unit, decide=None, lengths=None) for unit in ("word", "token"))
    for a, b in zip(masked(by_word, rows, seed), masked(by_token, rows, seed)):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_C2_the_share_of_tokens_is_the_rate():
    random = np.random.default_rng(1)
    rows = batch([random.integers(5, SIZE, 500) for _ in range(200)], [random.random(500) < 0.6 for _ in range(200)])
    for count, slack in (("exact", 0.002), ("stochastic", 0.002), ("bernoulli", 0.006)):
        found = masked(Mask(unit="word", count=count), rows)
        share = np.mean([(labels != IGNORE).mean() for _, _, labels in found])
        assert abs(share - 0.15) < slack


def test_C2_a_word_longer_than_the_budget_is_taken_when_nothing_fits():
    rows = batch([[7] * 9] * 300, [[1, 0, 0] * 3] * 300)
    counts = [tuple(np.flatnonzero(labels != IGNORE)) for _, _, labels in masked(Mask(rate=0.1, unit="word"), rows)]
    assert set(counts) == {(0, 1, 2), (3, 4, 5), (6, 7, 8)}


def test_decide_is_refused_where_it_does_nothing():
    with pytest.raises(InputError, match=r"mask\.decide: 'token' does nothing with unit: token"):
        Mask(decide="token")
    assert Mask(unit="word").decide == "word"
