"""The laws of text infilling: C5, in both placements."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.lengths import Geometric, Ngram, Poisson, Shares
from corruption.noise_kinds import Infill
from tests.corruption.noise_kinds.masking import budget, words
from tests.corruption.noise_kinds.moving import columns_follow, moved, origins
from tests.corruption.rows import LARGE, MASK, VOCABULARY, batch, batches, lists

LENGTHS = [Poisson(), Poisson(0.2), Poisson(12.0), Geometric(), Ngram(), Shares((0.0, 0.0, 1.0))]
RATES = [0.0, 0.01, 0.15, 0.3, 0.7, 0.95, 1.0]
INFILLS = st.builds(
    lambda placement, **fields: Infill(placement=placement[0], count=placement[1], **fields),
    placement=st.sampled_from([("disjoint", "exact"), ("disjoint", "stochastic"), ("overlapping", "exact")]),
    rate=st.sampled_from(RATES),
    lengths=st.sampled_from(LENGTHS),
    random_share=st.sampled_from([0.0, 0.3, 1.0]),
    unit=st.sampled_from(["token", "word"]),
)
DISJOINT = INFILLS.filter(lambda step: step.placement == "disjoint")


def passage(n, rows):
    return batch([[5 + i % 50 for i in range(n)]] * rows)


def gaps(origin, n):
    """For each maximal run of invented tokens: how many, and how many tokens of the passage are missing there."""
    found, run, last = [], 0, -1
    for place in [*origin, n]:
        if place < 0:
            run += 1
            continue
        if run or place > last + 1:
            found.append((run, place - last - 1))
        run, last = 0, place
    return found


@given(batches(), INFILLS, st.integers(0, 2**63), st.integers(0, 50))
def test_C5_1_2_what_is_kept_is_in_order_and_a_mask_stands_for_whatever_is_not(rows, step, seed, epoch):
    """So putting the missing runs in the masks' place rebuilds the passage: a run is never without a mask."""
    for tokens, found, origin in moved(step, rows, seed, epoch):
        kept = [i for i in origin if i >= 0]
        assert kept == sorted(set(kept))
        assert all(found[j] == tokens[i] for j, i in enumerate(origin) if i >= 0)
        assert all(run >= 1 for run, _ in gaps(origin, len(tokens)))


@given(batches(), INFILLS, st.integers(0, 2**63))
def test_C5_invented_tokens_are_masks_or_ordinary(rows, step, seed):
    for _, found, origin in moved(step, rows, seed):
        invented = [token for token, i in zip(found, origin) if i < 0]
        assert all(token == MASK or token in VOCABULARY.pool for token in invented)
        if step.random_share == 0.0:
            assert set(invented) <= {MASK}
        if step.random_share == 1.0:
            assert MASK not in invented


@given(batches(), INFILLS, st.integers(0, 2**63))
def test_a_row_never_gets_longer(rows, step, seed):
    for tokens, found, _ in moved(step, rows, seed):
        assert len(found) <= step.bounds(len(tokens))["tokens"] and bool(found) == bool(tokens)
        if step.rate == 0.0:
            assert found == tokens


@given(batches(), DISJOINT, st.integers(0, 2**63))
def test_C5_3_disjoint_spans_cover_the_budget_and_no_two_masks_meet(rows, step, seed):
    starts = lists(rows.columns["word_start"])
    for (tokens, _, origin), flags in zip(moved(step, rows, seed), starts):
        n, missing = len(tokens), sorted(set(range(len(tokens))) - set(origin))
        if step.unit == "word":
            blocks = words(tokens, flags)
            n, missing = len(blocks), [w for w, block in enumerate(blocks) if block[0] not in origin]
            assert sum(len(blocks[w]) for w in missing) == len(tokens) - len([i for i in origin if i >= 0])
        if step.count == "exact":
            assert len(missing) == budget(n, step.rate)
        else:
            assert int(np.floor(step.rate * n)) <= len(missing) <= int(np.ceil(step.rate * n))
        assert all(run == 1 for run, _ in gaps(origin, len(tokens)))


@given(batches(), INFILLS, st.integers(0, 2**63))
def test_words_are_replaced_whole_and_nothing_stands_inside_one(rows, step, seed):
    if step.unit == "word":
        starts = lists(rows.columns["word_start"])
        for (tokens, _, origin), flags in zip(moved(step, rows, seed), starts):
            for word in words(tokens, flags):
                assert word[0] not in origin or list(word) == origin[origin.index(word[0]) :][: len(word)]


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.97, 1.0])
def test_C5_3_exact_count_for_every_length(rate):
    rows = batch([[7] * n for n in range(601)])
    found = [n - sum(i >= 0 for i in origin) for n, origin in enumerate(origins(Infill(rate), rows))]
    assert found == [budget(n, rate) for n in range(601)]


def simulated(n, rate, law, rows, seed=0):
    """Lengths drawn until they add up to the budget, the last cut: those above 0, and how many were 0, of each row."""
    random = np.random.default_rng(seed)
    table, made = law.table(), []
    for _ in range(rows):
        left, lengths, zeros = budget(n, rate), [], 0
        while left:
            length = min(left, int(np.searchsorted(table, random.random(), "right")))
            zeros += length == 0
            lengths += [length] if length else []
            left -= length
        made.append((lengths, zeros))
    return made


@pytest.mark.parametrize("law", [Poisson(), Poisson(0.5), Poisson(8.0), Geometric(), Shares((1.0, 0.0, 2.0))])
def test_C5_4_span_lengths_follow_their_law(law):
    """Against the same drawing in NumPy, its last cut included."""
    found = [
        missing
        for origin in origins(Infill(lengths=law), passage(510, 400), seed=1)
        for _, missing in gaps(origin, 510)
        if missing
    ]
    expected = [length for lengths, _ in simulated(510, 0.3, law, 4000) for length in lengths]
    longest = int(np.quantile(expected, 0.999))
    counts = [np.bincount(np.minimum(x, longest), minlength=longest + 1)[1:] for x in (found, expected)]
    used = counts[1] > 50
    assert stats.chi2_contingency([counts[0][used], counts[1][used]]).pvalue > 1e-4


def test_C5_5_zero_lengths_come_as_often_as_the_law_says():
    """Each draw is a zero with probability e^-3; that it is drawn until a sum is reached leaves this so on average."""
    masks = zeros = 0
    for origin in origins(Infill(), passage(510, 2000), seed=2):
        found = gaps(origin, 510)
        masks += len(found)
        zeros += sum(missing == 0 for _, missing in found)
    p = np.exp(-3.0)
    assert abs(zeros - masks * p) < 4 * np.sqrt(masks * p * (1 - p))


@pytest.mark.parametrize("placement", ["disjoint", "overlapping"])
@pytest.mark.parametrize("mean", [1e-300, 1e-9, 0.001, 0.5])
def test_C5_6_a_law_of_almost_only_zeros_ends(placement, mean):
    step = Infill(lengths=Poisson(mean), placement=placement)
    for origin in origins(step, passage(500, 5)):
        assert 0 < len(origin) <= 500
        if mean < 0.5:
            assert all(missing <= 2 * run for run, missing in gaps(origin, 500))


@pytest.mark.parametrize("placement", ["disjoint", "overlapping"])
def test_C5_6_a_span_longer_than_the_budget_is_one_mask(placement):
    law = Shares((0.0,) * 99 + (1.0,))
    for n in (1, 2, 10, 100):
        for origin in origins(Infill(lengths=law, placement=placement), passage(n, 20)):
            assert len(gaps(origin, n)) == 1 and origin.count(-1) == 1


@pytest.mark.parametrize("law", LENGTHS)
@pytest.mark.parametrize("unit_of", ["token", "word"])
def test_C5_6_rate_one_is_one_mask(law, unit_of):
    for n in (1, 2, 3, 50):
        assert set(origins(Infill(1.0, law, unit=unit_of), passage(n, 10))) == {(-1,)}


def test_at_high_rates_spans_are_joined_and_every_gap_holds_one():
    """Half of the tokens in spans of one: 8 of 16 stand apart; 12 of 16 do not, so 5 spans stand around 4 tokens."""
    one = Shares((1.0,))
    for origin in origins(Infill(0.5, one), passage(16, 100)):
        assert [missing for _, missing in gaps(origin, 16)] == [1] * 8
    for origin in origins(Infill(0.75, one), passage(16, 100)):
        assert sorted(missing for _, missing in gaps(origin, 16)) == [2, 2, 2, 3, 3]


def test_disjoint_arrangements_are_equally_likely():
    """Two spans of 1 in six tokens: 10 ways. Lengths 2 and 1, the second cut to fit, in seven: 10 ways in 2 orders."""
    for n, rate, law, ways in ((6, 1 / 3, Shares((1.0,)), 10), (7, 3 / 7, Shares((0.0, 1.0)), 20)):
        counts = Counter(origins(Infill(rate, law), passage(n, 20_000), seed=n))
        assert len(counts) == ways and stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_insertions_stand_in_any_gap_that_holds_no_span():
    """One span of 2 and one insertion in six tokens: 5 places for the one, 4 for the other."""
    counts = Counter(
        origin
        for origin in origins(Infill(1 / 3, Poisson(2.0)), passage(6, 60_000), seed=3)
        if sorted(missing for _, missing in gaps(origin, 6)) == [0, 2]
    )
    assert len(counts) == 20 and stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_every_length_of_insertions_fits_a_short_row():
    """With a mean below 1 more zeros are drawn than there is room for; the rest is left out, the budget is not."""
    for n in range(1, 30):
        for origin in origins(Infill(0.5, Poisson(0.7)), passage(n, 30), seed=n):
            assert len(origin) <= n and n - sum(i >= 0 for i in origin) == budget(n, 0.5)


def test_stochastic_count_is_unbiased_and_one_of_two_neighbours():
    found = [17 - sum(i >= 0 for i in o) for o in origins(Infill(count="stochastic"), passage(17, 20_000))]
    assert set(found) == {5, 6}
    assert stats.binomtest(found.count(6), len(found), 0.3 * 17 - 5).pvalue > 0.001


def test_random_tokens_come_at_their_share_and_change_no_place():
    rows = passage(510, 300)
    plain = moved(Infill(), rows, vocabulary=LARGE)
    for share in (0.1, 0.5, 1.0):
        found = moved(Infill(random_share=share), rows, vocabulary=LARGE)
        assert [origin for _, _, origin in found] == [origin for _, _, origin in plain]
        invented = [token for _, tokens, origin in found for token, i in zip(tokens, origin) if i < 0]
        random = [token for token in invented if token != MASK]
        assert stats.binomtest(len(random), len(invented), share).pvalue > 0.001
        assert stats.kstest(random, "randint", args=(5, 30_000)).pvalue > 1e-3


@given(batches(), INFILLS, st.integers(0, 2**63))
def test_words_of_one_token_equal_tokens(rows, step, seed):
    rows = rows.put(word_start=rows.tokens.with_values(np.ones_like(rows.tokens.values)))
    by = [
        Infill(step.rate, step.lengths, step.placement, step.random_share, unit_of, step.count)
        for unit_of in ("token", "word")
    ]
    assert moved(by[0], rows, seed) == moved(by[1], rows, seed)


@given(batches(), INFILLS, st.integers(0, 2**63))
def test_aligned_columns_follow(rows, step, seed):
    columns_follow(step, rows, seed)


def test_starts_pass_to_the_mask_that_stands_for_them():
    """The first of two tokens gone: the mask begins the word. The second gone: the word goes on in the mask."""
    rows = batch([[5, 6]] * 200, [[1, 0]] * 200)
    out = Chain((Infill(0.5, Shares((1.0,))),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    found = Counter(zip(map(tuple, lists(out.tokens)), map(tuple, lists(out.columns["word_start"]))))
    assert set(found) == {((MASK, 6), (1, 0)), ((5, MASK), (1, 0))}
    rows = batch([[5, 6]] * 200, [[1, 1]] * 200)
    out = Chain((Infill(0.5, Shares((1.0,))),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    assert lists(out.columns["word_start"]) == [[1, 1]] * 200
