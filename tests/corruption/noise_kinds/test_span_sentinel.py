"""The laws of span corruption: C10, its statistics, and the cases that people have reported elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames.encoder_decoder import EncoderDecoder
from corruption.noise_kinds import SpanSentinel
from corruption.vocabulary import Vocabulary
from tests.corruption import golden_values
from tests.corruption.rows import IDS, MODES, RICH, SEP, SIZE, SPECIAL, VOCABULARY, batch, batches, lists

SENTINELS = list(RICH.sentinels)
RATES = [0.01, 0.15, 0.25, 0.5, 0.8, 0.99, 1.0]
MEANS = [1.0, 1.5, 3.0, 8.0, 64.0]
STEPS = st.builds(
    SpanSentinel,
    rate=st.sampled_from(RATES),
    mean_length=st.sampled_from(MEANS),
    placement=st.sampled_from(["uniform", "anchored"]),
    mode=st.sampled_from([None, "[X]"]),
)


def spanned(step, rows, seed=0, epoch=0, vocabulary=RICH):
    """[(tokens, input, targets)] of each row, as lists."""
    out = Chain((step,)).apply(rows, seed=seed, epoch=epoch, vocabulary=vocabulary)
    return list(zip(lists(rows.tokens), lists(out.tokens), lists(out.columns["targets"])))


def merged(found, targets):
    """The input with each sentinel replaced by what the targets say behind it."""
    hidden, last = {}, None
    for token in targets:
        if token in SENTINELS:
            last = token
            hidden[last] = []
        else:
            hidden[last].append(token)
    return [token for at in found for token in hidden.get(at, [at])]


def flags(step, length, n, seed=0):
    """bool[n, length]: which tokens are hidden, in n rows of distinct tokens."""
    rows = batch([np.arange(length) % (SIZE - 5) + 5] * n)
    out = Chain((step,)).apply(rows, seed=seed, epoch=0, vocabulary=RICH)
    kept = out.origin()
    hidden = np.ones((n, length), bool)
    row = np.repeat(np.arange(n), kept.lengths)
    hidden[row[kept.values >= 0], kept.values[kept.values >= 0]] = False
    return hidden


def runs(hidden):
    """The lengths of the runs of True in a row."""
    edges = np.flatnonzero(np.diff(np.r_[False, hidden, False]))
    return (edges[1::2] - edges[::2]).tolist()


def expected(length, rate, mean_length):
    """Hidden tokens and spans; Python's round is half to even too."""
    hidden = min(max(round(rate * length), 1), length - 1)
    return hidden, min(max(round(hidden / mean_length), 1), hidden, length - hidden)


@given(batches(special=False), STEPS, st.integers(0, 2**63), st.integers(0, 50))
def test_C10_input_and_targets_merge_to_the_original(rows, step, seed, epoch):
    for tokens, found, targets in spanned(step, rows, seed, epoch):
        if len(tokens) < 2:
            assert found == tokens and targets == []
            continue
        if step.mode is not None:
            assert found[0] == MODES["[X]"]
            found = found[1:]
        assert merged(found, targets) == tokens


@given(batches(special=False), STEPS, st.integers(0, 2**63))
def test_C10_sentinels_counts_and_lengths(rows, step, seed):
    for tokens, found, targets in spanned(step, rows, seed):
        if len(tokens) < 2:
            continue
        hidden, spans = expected(len(tokens), step.rate, step.mean_length)
        there = [token for token in found if token in SENTINELS]
        # In order from the first on, each once, the same on both sides, none behind the last span.
        assert there == SENTINELS[: len(there)] == [token for token in targets if token in SENTINELS]
        assert targets[0] == SENTINELS[0] and targets[-1] not in SENTINELS
        assert len(there) in ((spans, spans + 1) if step.placement == "uniform" else (spans,))
        assert len(targets) - len(there) == hidden
        assert len(found) + len(targets) == len(tokens) + 2 * len(there) + (step.mode is not None)
        places = [i for i, token in enumerate(found) if token in SENTINELS]
        assert all(b - a > 1 for a, b in pairwise(places))


@given(batches(special=False), STEPS, st.integers(0, 2**63))
def test_C10_kept_tokens_and_their_columns_keep_order_and_origin(rows, step, seed):
    rows = rows.put(labels=rows.tokens.with_values(rows.tokens.values + 100))
    out = Chain((step,)).apply(rows, seed=seed, epoch=0, vocabulary=RICH)
    assert out.aligned("word_start") and out.aligned("labels") and not out.aligned("targets")
    for tokens, found, origin, labels in zip(
        lists(rows.tokens), lists(out.tokens), lists(out.origin()), lists(out.columns["labels"])
    ):
        kept = [place for place in origin if place >= 0]
        assert kept == sorted(set(kept))
        for token, place, label in zip(found, origin, labels):
            assert (token, label) == (tokens[place], tokens[place] + 100) if place >= 0 else label == -100
    usable = rows.tokens.lengths >= 2
    assert np.array_equal(out.usable, usable) and set(out.unusable[~usable]) <= {1}


@given(STEPS, st.integers(0, 300))
def test_C10_bounds_are_the_exact_most_and_never_fall(step, length):
    bounds = step.bounds(length)
    if length:
        shorter = step.bounds(length - 1)
        assert all(shorter[name] <= bounds[name] for name in bounds)
    found = spanned(step, batch([[7] * length] * 300))
    assert max(len(tokens) for _, tokens, _ in found) <= bounds["tokens"]
    assert max(len(targets) for _, _, targets in found) <= bounds["targets"]
    hidden, spans = expected(length, step.rate, step.mean_length) if length > 1 else (0, 0)
    if step.placement == "anchored" or hidden == spans or hidden > 0.1 * length:
        # Else a span across the end is too rare to come up here.
        assert max(len(tokens) for _, tokens, _ in found) == bounds["tokens"]
        assert max(len(targets) for _, _, targets in found) == bounds["targets"]


@pytest.mark.parametrize("placement", ["uniform", "anchored"])
def test_B17_every_length_rate_and_mean_works_with_the_exact_count(placement):
    lengths = range(2, 65)
    rows = batch([[7] * n for n in lengths])
    for rate in (0.01, 0.15, 0.3, 0.5, 0.75, 0.8, 0.9, 1.0):
        for mean_length in (1.0, 1.25, 2.0, 3.0, 10.0, 64.0):
            found = spanned(SpanSentinel(rate, mean_length, placement), rows)
            for n, (tokens, inputs, targets) in zip(lengths, found):
                hidden, spans = expected(n, rate, mean_length)
                there = sum(token in SENTINELS for token in inputs)
                assert len(targets) - there == hidden and merged(inputs, targets) == tokens
                assert there - spans in ((0, 1) if placement == "uniform" else (0,))


def anchored_law(length, hidden, spans):
    """P(hidden) of each position, by counting: a kept tokens and b hidden ones lie before a span of n."""
    kept = length - hidden

    def ways(n, parts):
        return comb(n - 1, parts - 1) if n >= parts >= 1 else int(n == parts == 0)

    law = np.zeros(length)
    for j in range(spans):
        for a in range(j + 1, kept + 1):
            for b in range(j, hidden):
                for n in range(1, hidden - b + 1):
                    before, left = ways(a, j + 1) * ways(b, j), spans - j - 1
                    law[a + b : a + b + n] += before * ways(kept - a, left) * ways(hidden - b - n, left)
    return law / (ways(hidden, spans) * ways(kept, spans))


def test_B7_anchored_is_the_law_of_T5():
    """The published numbers come from a simulation and hold to half a percent."""
    n, law = 40_000, anchored_law(114, 17, 6)
    assert law[:5] == pytest.approx([0, 0.054, 0.085, 0.106, 0.122], abs=0.005)
    assert law[-5:] == pytest.approx([0.248, 0.338, 0.476, 0.683, 1.0], abs=0.005)
    assert law[57] == pytest.approx(0.132, abs=0.005)
    hidden = flags(SpanSentinel(placement="anchored"), 114, n)
    assert (np.abs(hidden.sum(axis=0) - n * law) <= 4.5 * np.sqrt(n * law * (1 - law)) + 1e-6).all()
    assert not hidden[:, 0].any() and hidden[:, -1].all()


@pytest.mark.parametrize(
    ("length", "rate", "mean_length"), [(114, 0.15, 3.0), (20, 0.15, 3.0), (12, 0.5, 1.0), (7, 0.8, 2.0)]
)
def test_B7_uniform_favours_no_position(length, rate, mean_length):
    n = 40_000
    hidden = flags(SpanSentinel(rate, mean_length), length, n)
    m = expected(length, rate, mean_length)[0]
    assert (hidden.sum(axis=1) == m).all()
    # Each row has exactly m, so the counts are correlated: compare each with its own deviation.
    p = m / length
    assert np.abs(hidden.sum(axis=0) - n * p).max() < 4.5 * np.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("placement", ["uniform", "anchored"])
def test_C10_every_composition_is_equally_likely(placement):
    """6 hidden tokens in 3 spans can fall in 10 ways, and 6 kept ones too."""
    hidden = flags(SpanSentinel(0.5, 2.0, placement), 12, 40_000)
    patterns = Counter(map(tuple, hidden.tolist()))
    if placement == "anchored":
        assert stats.chisquare(list(patterns.values())).pvalue > 1e-3 and len(patterns) == 100
        return
    # On the circle: every turn of each arrangement; the same pattern arises from each of its three spans' starts.
    ways = Counter()
    cuts = [(a, b, 6 - a - b) for a in range(1, 5) for b in range(1, 6 - a)]
    for kept in cuts:
        for spans in cuts:
            row = [flag for pair in zip(kept, spans) for flag in [False] * pair[0] + [True] * pair[1]]
            for turn in range(12):
                ways[tuple(row[turn:] + row[:turn])] += 1
    assert set(patterns) == set(ways)
    total = sum(ways.values())
    seen = [patterns[key] for key in ways]
    assert stats.chisquare(seen, [40_000 * ways[key] / total for key in ways]).pvalue > 1e-3


def test_C10_mean_run_length_and_its_law():
    """E = hidden / spans; P(n) of a uniform composition is C(m - n - 1, s - 2) / C(m - 1, s - 1)."""
    hidden = flags(SpanSentinel(0.5, 4.0, "anchored"), 48, 20_000)
    m, s = expected(48, 0.5, 4.0)
    found = Counter(n for row in hidden for n in runs(row))
    total = sum(found.values())
    assert sum(n * count for n, count in found.items()) / total == m / s
    law = {n: comb(m - n - 1, s - 2) / comb(m - 1, s - 1) for n in range(1, m - s + 2)}
    # Runs of one row are correlated, so look at the first of each.
    first = Counter(runs(row)[0] for row in hidden)
    often = [n for n in law if len(hidden) * law[n] >= 5]
    seen = [*(first[n] for n in often), sum(first[n] for n in law if n not in often)]
    asked = [*(law[n] for n in often), 1 - sum(law[n] for n in often)]
    assert stats.chisquare(seen, np.array(asked) * len(hidden)).pvalue > 1e-3


def test_C10_the_shortest_rows():
    """Anchored as T5 has them; too short ones are left alone and told."""
    rows = batch([[], [5], [5, 6], [5, 6, 7]])
    s0 = SENTINELS[0]
    out = Chain((SpanSentinel(placement="anchored"),)).apply(rows, seed=0, epoch=0, vocabulary=RICH)
    assert lists(out.tokens) == [[], [5], [5, s0], [5, 6, s0]]
    assert lists(out.columns["targets"]) == [[], [], [s0, 6], [s0, 7]]
    assert out.unusable.tolist() == [1, 1, 0, 0]


def test_C10_rows_that_cannot_be_used_get_no_mode_token():
    out = Chain((SpanSentinel(mode="[R]"),)).apply(batch([[], [5]]), seed=0, epoch=0, vocabulary=RICH)
    assert lists(out.tokens) == [[], [5]]


def test_C10_the_unknown_token_is_text_here():
    hidden = np.zeros(2, np.int64)
    for seed in range(50):
        for tokens, found, targets in spanned(SpanSentinel(0.5, 1.0), batch([[1, 9, 1, 9]] * 4), seed):
            assert merged(found, targets) == tokens
            hidden += [targets.count(1), targets.count(9)]
    assert (hidden > 100).all()


def test_A_10_no_token_of_a_short_text_is_always_hidden():
    tokens = list(range(5, 25))
    starts, last, first = set(), 0, 0
    for seed in range(400):
        ((_, found, _),) = spanned(SpanSentinel(), batch([tokens]), seed)
        kept = [token in found for token in tokens]
        starts |= {i for i in range(20) if not kept[i] and (i == 0 or kept[i - 1])}
        first, last = first + (not kept[0]), last + (not kept[-1])
    assert len(starts) >= 8
    assert stats.binomtest(last, 400, 0.15).pvalue > 1e-3 and stats.binomtest(first, 400, 0.15).pvalue > 1e-3


def test_A_18_no_output_mixes_two_examples():
    """Ten short rows, each of its own token."""
    rows = batch([[5 + k] * 6 for k in range(10)])
    for seed in range(100):
        for k, (_, found, targets) in enumerate(spanned(SpanSentinel(), rows, seed)):
            assert {token for token in found + targets if token not in SENTINELS} == {5 + k}


@pytest.mark.parametrize("placement", ["uniform", "anchored"])
def test_B16_the_last_span_never_swallows_the_end(placement):
    frame = EncoderDecoder()
    rows = batch([[7] * n for n in range(2, 40)])
    for seed in range(20):
        out = Chain((SpanSentinel(placement=placement),)).apply(rows, seed=seed, epoch=0, vocabulary=RICH)
        framed = frame.apply(out, RICH)
        for name in ("input_ids", "labels"):
            assert all(row[-1] == SEP and row.count(SEP) == 1 for row in lists(framed[name]))


def test_B18_too_few_sentinels_are_refused_before_one_is_used_twice():
    few = Vocabulary.from_ids(SIZE + 10, ids=IDS, special=SPECIAL, sentinels=tuple(range(SIZE, SIZE + 10)), name="few")
    step = SpanSentinel(rate=0.5, mean_length=3.0)
    longest = max(n for n in range(200) if step.most_spans(n) <= 10)
    Chain((step,)).check(few, longest)
    for raises in (
        lambda: Chain((step,)).check(few, longest + 1),
        lambda: spanned(step, batch([[7, 8], [7] * (longest + 1)]), vocabulary=few),
    ):
        with pytest.raises(InputError) as raised:
            raises()
        assert str(raised.value) == (
            "tokenizer few: it has 10 sentinels <extra_id_0>, <extra_id_1>, ..., and a row of "
            f"{longest + 1} tokens can need 11 (span_sentinel.rate 0.5, mean_length 3.0); "
            "train one with sentinels: 11, raise mean_length, or shorten the rows"
        )
    Chain((step,)).check(few)
    with pytest.raises(InputError, match=r"small: it has 0 sentinels .* any row needs 1"):
        Chain((step,)).check(VOCABULARY)
    for seed in range(200):
        for tokens, found, targets in spanned(step, batch([[7] * longest] * 5), seed, vocabulary=few):
            assert len(tokens) == longest and max(found + targets) < SIZE + 10
            assert len(set(found) - {7}) == sum(token >= SIZE for token in found)


def test_C10_lengths_of_the_release():
    """512 inputs come of 568 tokens with 114 targets, EOS included, and so on for other rates and means."""
    for rate, mean_length, length, inputs, targets in (
        (0.15, 3.0, 568, 512, 114),
        (0.15, 3.0, 141, 128, 29),
        (0.15, 8.0, 588, 512, 100),
        (0.5, 3.0, 766, 512, 512),
        (0.5, 8.0, 908, 512, 512),
        (0.15, 64.0, 600, 512, 92),
        (0.5, 64.0, 1006, 512, 512),
    ):
        bounds = SpanSentinel(rate, mean_length, "anchored").bounds(length)
        assert (bounds["tokens"] + 1, bounds["targets"] + 1) == (inputs, targets)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rate": 0.0}, "span_sentinel.rate: 0.0 is not above 0 and up to 1; give the share of the tokens to hide"),
        ({"rate": 15.0}, "span_sentinel.rate: 15.0 is not above 0"),
        ({"rate": float("nan")}, "span_sentinel.rate: nan is not above 0"),
        ({"mean_length": 0.5}, "span_sentinel.mean_length: 0.5 is not 1 or more; give a mean in tokens"),
        ({"mean_length": float("inf")}, "span_sentinel.mean_length: inf is not 1 or more"),
        ({"mean_length": float("nan")}, "span_sentinel.mean_length: nan is not 1 or more"),
    ],
)
def test_fields_out_of_range_are_refused(fields, says):
    with pytest.raises(InputError) as raised:
        SpanSentinel(**fields)
    assert str(raised.value).startswith(says)


def test_other_values_are_refused_by_name():
    with pytest.raises(InputError, match=r"span_sentinel\.placement: unknown value 'roll'"):
        Chain.parse([{"kind": "span_sentinel", "placement": "roll"}])
    with pytest.raises(InputError, match=r"rich: it has no token '\[Q\]', which the corruption 'span_sentinel' needs"):
        Chain((SpanSentinel(mode="[Q]"),)).check(RICH, 100)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "span_sentinel.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.span_sentinel() == kept
