"""The laws of span masking: C3."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.errors import InputError
from corruption.lengths import Geometric, Ngram, Shares
from corruption.noise import stream
from corruption.noise_kinds import Mask
from corruption.schema import IGNORE
from corruption.spans import COUNTS, choose_spans
from tests.corruption.noise_kinds.masking import budget, masked, ordinary, words
from tests.corruption.rows import MASK, UNK, VOCABULARY, batch, batches, lists

LAWS = [Geometric(), Ngram(), Shares()]
TWO = Shares((0.0, 1.0))
COUNT_NAMES = st.sampled_from(["exact", "bernoulli", "stochastic"])


def spans(tokens, starts, rate, law, count="exact", seed=0):
    """The spans of one row in the order they were taken: arrays of positions."""
    tokens, starts = np.asarray(tokens, np.int32), np.asarray(starts, np.int32)
    scratch = np.empty((8, len(tokens) + 1), np.int32)
    table = law.table()
    k = choose_spans(
        tokens,
        starts,
        VOCABULARY.fixed,
        float(rate),
        COUNTS[count],
        table,
        math.fsum(1.0 - table),
        np.uint64(stream(seed, "spans")),
        *scratch,
    )
    chosen, heads = scratch[6, :k], scratch[7, :k]
    cuts = np.flatnonzero(np.diff(heads)) + 1
    return np.split(chosen.copy(), cuts) if k else []


def lengths_of(found, starts):
    """Lengths in words."""
    return [1 + int(np.asarray(starts)[span[1:]].sum()) for span in found]


@given(
    batches(max_length=60), st.sampled_from([0.01, 0.15, 0.5, 0.9, 1.0]), st.sampled_from(LAWS), st.integers(0, 2**63)
)
def test_C3_never_above_the_budget_and_below_only_when_no_word_fits(rows, rate, law, seed):
    starts = lists(rows.columns["word_start"])
    for (tokens, _, labels), flags in zip(masked(Mask(rate=rate, unit="span", lengths=law), rows, seed), starts):
        free = [word for word in words(tokens, flags) if ordinary(tokens[word]).all()]
        chosen = [word for word in free if labels[word[0]] != IGNORE]
        assert sorted(i for word in chosen for i in word) == np.flatnonzero(labels != IGNORE).tolist()
        wanted, taken = budget(sum(map(len, free)), rate), sum(map(len, chosen))
        if wanted and min(map(len, free)) > wanted:
            assert len(chosen) == 1
        else:
            left = [len(word) for word in free if word not in chosen]
            assert taken <= wanted and all(taken + n > wanted for n in left)


@pytest.mark.parametrize("rate", [0.01, 0.15, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("law", LAWS)
def test_C3_the_count_is_exact_for_words_of_one_token(law, rate):
    rows = batch([[7] * n for n in range(301)])
    found = [int((labels != IGNORE).sum()) for _, _, labels in masked(Mask(rate=rate, unit="span", lengths=law), rows)]
    assert found == [budget(n, rate) for n in range(301)]


@given(
    batches(max_length=60), st.sampled_from([0.15, 0.5, 1.0]), st.sampled_from(LAWS), COUNT_NAMES, st.integers(0, 2**63)
)
def test_C3_B26_spans_are_runs_of_whole_words_that_share_no_position(rows, rate, law, count, seed):
    for tokens, flags in zip(lists(rows.tokens), lists(rows.columns["word_start"])):
        found = spans(tokens, flags, rate, law, count, seed)
        assert len({int(i) for span in found for i in span}) == sum(map(len, found))
        for span in found:
            assert (np.diff(span) == 1).all() and ordinary(np.array(tokens)[span]).all()
            assert span[0] == 0 or flags[span[0]] == 1
            assert span[-1] + 1 == len(tokens) or flags[span[-1] + 1] == 1
            assert lengths_of([span], [1, *flags[1:]])[0] < len(law.table())


def test_B26_no_position_is_chosen_twice_when_nearly_all_are():
    for seed in range(2000):
        found = np.concatenate(spans([7] * 20, [1] * 20, 0.9, Geometric(), seed=seed))
        assert len(set(found.tolist())) == len(found) == 18


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("count", ["exact", "stochastic"])
@pytest.mark.parametrize("law", LAWS)
def test_C3_lengths_follow_the_law(law, count, share):
    """The first half of the spans: they were taken before any had to be cut. One may be cut by the row's ends."""
    random = np.random.default_rng(7)
    counts: Counter[int] = Counter()
    for seed in range(30):
        starts = (random.random(8000) < share).astype(np.int32)
        starts[0] = 1
        found = spans([7] * 8000, starts, 0.15, law, count, seed)
        found = [span for span in found[: len(found) // 2] if span[0] > 0 and span[-1] < 7999]
        counts.update(lengths_of(found, starts))
    _agrees(counts, law)


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("law", LAWS)
def test_C3_lengths_follow_the_law_where_coins_begin_them(law, share):
    random = np.random.default_rng(8)
    counts: Counter[int] = Counter()
    for seed in range(30):
        starts = (random.random(8000) < share).astype(np.int32)
        starts[0] = 1
        found = spans([7] * 8000, starts, 0.3, law, "bernoulli", seed)
        counts.update(lengths_of([span for span in found if span[0] > 0 and span[-1] < 7999], starts))
    _agrees(counts, law)


def _agrees(counts, law):
    shares = np.diff(law.table())
    observed = np.array([counts[n] for n in range(1, len(shares) + 1)])
    assert observed.sum() == counts.total() > 2500
    assert stats.chisquare(observed, shares * observed.sum()).pvalue > 1e-4


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
@pytest.mark.parametrize("law", LAWS)
def test_C3_every_position_is_chosen_equally_often(law, count):
    """The ends of a row too: spans are laid out on a ring, or have begun before it."""
    rows = 20_000
    mask = Mask(rate=0.2, unit="span", lengths=law, count=count)
    chosen = np.array([labels != IGNORE for _, _, labels in masked(mask, batch([[7] * 30] * rows), seed=5)])
    off = (chosen.sum(axis=0) - rows * 0.2) / np.sqrt(rows * 0.2 * 0.8)
    assert np.abs(off).max() < 4.5


def test_C3_coins_are_as_frequent_behind_a_special_token():
    rows = 20_000
    mask = Mask(rate=0.2, unit="span", count="bernoulli")
    found = masked(mask, batch([[7] * 5 + [UNK] + [7] * 6] * rows), seed=6)
    chosen = np.array([labels != IGNORE for _, _, labels in found]).sum(axis=0)
    assert chosen[5] == 0
    off = (np.delete(chosen, 5) - rows * 0.2) / np.sqrt(rows * 0.2 * 0.8)
    assert np.abs(off).max() < 4.5


def test_C3_every_layout_is_equally_likely():
    """Two spans of two on a ring of six words: two items of four are spans, and the ring begins at any word."""
    expected: Counter[tuple[int, ...]] = Counter()
    for items in combinations(range(4), 2):
        widths = [2 if i in items else 1 for i in range(4)]
        for turn in range(6):
            at = np.cumsum([turn, *widths])
            expected[tuple(sorted((at[i] + j) % 6 for i in items for j in range(2)))] += 1
    found = masked(Mask(rate=4 / 6, unit="span", lengths=TWO), batch([[7] * 6] * 20_000), seed=3)
    counts = Counter(tuple(np.flatnonzero(labels != IGNORE).tolist()) for _, _, labels in found)
    assert set(counts) == set(expected)
    observed = [counts[layout] for layout in expected]
    assert stats.chisquare(observed, np.array([*expected.values()]) / 36 * 20_000).pvalue > 1e-4


@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("count", ["stochastic", "bernoulli"])
def test_C3_the_share_of_tokens_is_the_rate(count, share):
    random = np.random.default_rng(1)
    starts = [random.random(500) < share for _ in range(400)]
    found = masked(Mask(unit="span", count=count), batch([[7] * 500] * 400, starts))
    shares = np.array([(labels != IGNORE).mean() for _, _, labels in found])
    slack = 0.001 if count == "stochastic" else 4 * shares.std() / np.sqrt(len(shares))
    assert abs(shares.mean() - 0.15) < slack


@given(batches(), st.sampled_from([0.0, 0.15, 0.5, 1.0]), st.integers(0, 2**63))
def test_C3_coins_for_spans_of_one_word_are_those_for_words(rows, rate, seed):
    one = Mask(rate=rate, unit="span", lengths=Shares((1.0,)), count="bernoulli")
    for a, b in zip(masked(one, rows, seed), masked(Mask(rate=rate, unit="word", count="bernoulli"), rows, seed)):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_C3_one_decision_for_each_span_or_word_or_token():
    """Spans of two words of two tokens, hidden half of the time."""
    rows = batch([[7] * 40] * 2000, [[1, 0] * 20] * 2000)
    fields = {"rate": 0.1, "unit": "span", "lengths": TWO, "mask_share": 0.5, "random_share": 0.0}
    together: dict[str, list[int]] = {}
    for decide in ("span", "word", "token"):
        found = [out[labels != IGNORE] == MASK for _, out, labels in masked(Mask(decide=decide, **fields), rows)]
        # Rows where the ring's seam cuts the span hold two: leave them out.
        whole = [
            i for i, (_, _, labels) in enumerate(masked(Mask(**fields), rows)) if labels[0] == labels[-1] == IGNORE
        ]
        hidden = np.array([found[i] for i in whole])
        assert hidden.shape[1] == 4
        words_agree = int((hidden[:, ::2] == hidden[:, 1::2]).all(axis=1).sum())
        together[decide] = [int((hidden == hidden[:, :1]).all(axis=1).sum()), words_agree, len(whole)]
    assert together["span"][0] == together["span"][2]
    assert together["word"][1] == together["word"][2]
    assert stats.binomtest(together["word"][0], together["word"][2], 1 / 2).pvalue > 1e-3
    assert stats.binomtest(together["token"][1], together["token"][2], 1 / 4).pvalue > 1e-3
    assert stats.binomtest(together["token"][0], together["token"][2], 1 / 8).pvalue > 1e-3


def test_C3_neighbouring_spans_decide_for_themselves():
    rows = batch([[7] * 4] * 4000)
    mask = Mask(rate=1.0, unit="span", lengths=TWO, mask_share=0.5, random_share=0.0)
    found = np.array([out == MASK for _, out, _ in masked(mask, rows)])
    even = (found[:, 0] == found[:, 1]) & (found[:, 2] == found[:, 3])
    # Two spans on a ring of four: in half of the rows they are 01 and 23, else 12 and 30, which is cut to 3 and 0.
    assert stats.binomtest(int(even.sum()), 4000, 1 / 2 + 1 / 2 * 1 / 4).pvalue > 1e-3
    assert stats.binomtest(int((found[:, 0] == found[:, 3]).sum()), 4000, 1 / 2).pvalue > 1e-3


def test_C3_a_span_across_a_special_token_is_two():
    tokens, starts = [7, 7, UNK, 7, 7], [1] * 5
    seen = {tuple(map(tuple, spans(tokens, starts, 0.5, TWO, seed=seed))) for seed in range(300)}
    assert seen == {((0, 1),), ((1,), (3,)), ((3, 4),), ((4,), (0,))}


def test_C3_the_last_span_is_cut_to_the_budget_and_single_words_fill_it_up():
    """Spans of three words where five tokens are wanted: whole words of two tokens first, then what fits."""
    tokens, starts = [7] * 25, [1, 0] * 10 + [1] * 5
    for seed in range(300):
        found = spans(tokens, starts, 0.2, Shares((0.0, 0.0, 1.0)), seed=seed)
        assert sum(map(len, found)) == 5
        assert all(n <= 3 for n in lengths_of(found, starts))


def test_C3_lengths_are_counted_in_words_of_any_script():
    """Unspaced text of one-character words is masked as exactly as any other."""
    for _, _, labels in masked(Mask(unit="span"), batch([[5 + i % 50 for i in range(200)]] * 50)):
        assert (labels != IGNORE).sum() == 30


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"lengths": Ngram()}, "mask.lengths: ngram does nothing with unit: token; remove it, or use unit: span"),
        (
            {"unit": "word", "lengths": Geometric()},
            "mask.lengths: geometric does nothing with unit: word; remove it, or use unit: span",
        ),
        ({"decide": "span"}, "mask.decide: 'span' does nothing with unit: token; remove it, or use unit: word"),
        (
            {"unit": "word", "decide": "span"},
            "mask.decide: 'span' does nothing with unit: word; remove it, or use unit: span",
        ),
    ],
)
def test_options_that_would_do_nothing_are_refused(fields, says):
    with pytest.raises(InputError) as raised:
        Mask(**fields)
    assert str(raised.value) == says


def test_defaults_are_those_of_the_paper():
    mask = Mask(unit="span")
    assert (mask.lengths, mask.decide) == (Geometric(0.2, 10), "span")
    assert mask.needs() == ("tokens", "word_start") and mask.bounds(17) == {"tokens": 17}
    assert Mask().lengths is None and Mask(unit="word").lengths is None
