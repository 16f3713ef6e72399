"""The laws of deletion: C4."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Delete, Mask
from corruption.registry import parse_step
from corruption.schema import IGNORE
from tests.corruption import golden_values
from tests.corruption.noise_kinds.masking import budget, ordinary, words
from tests.corruption.noise_kinds.moving import columns_follow, moved, origins
from tests.corruption.rows import CLS, SEP, SPECIAL, VOCABULARY, batch, batches, lists

DELETES = st.builds(
    Delete,
    rate=st.sampled_from([0.0, 0.01, 0.15, 0.5, 1.0]),
    unit=st.sampled_from(["token", "word"]),
    count=st.sampled_from(["exact", "bernoulli", "stochastic"]),
)


@given(batches(), DELETES, st.integers(0, 2**63), st.integers(0, 50))
def test_C4_the_output_is_a_subsequence_of_the_input(rows, delete, seed, epoch):
    for tokens, found, origin in moved(delete, rows, seed, epoch):
        assert origin == sorted(set(origin))
        assert found == [tokens[i] for i in origin]
        gone = Counter(tokens[i] for i in range(len(tokens)) if i not in origin)
        assert Counter(tokens) - Counter(found) == gone


@given(batches(), st.sampled_from([0.01, 0.15, 0.5, 0.9, 1.0]), st.integers(0, 2**63))
def test_C4_exactly_the_asked_number_goes(rows, rate, seed):
    for tokens, found, _ in moved(Delete(rate=rate), rows, seed):
        n = len(tokens)
        assert len(found) == max(min(n, 1), n - budget(int(ordinary(tokens).sum()), rate))


def test_C4_exactly_the_asked_number_goes_for_every_length():
    rows = batch([[7] * n for n in range(601)])
    assert [len(found) for _, found, _ in moved(Delete(), rows)] == [
        max(min(n, 1), n - budget(n, 0.15)) for n in range(601)
    ]


@given(batches(), DELETES, st.integers(0, 2**63))
def test_C4_something_stays_and_specials_always_do(rows, delete, seed):
    for tokens, found, origin in moved(delete, rows, seed):
        assert found or not tokens
        assert [t for t in found if t in SPECIAL] == [t for t in tokens if t in SPECIAL]
        if len(tokens) == 1 or delete.rate == 0.0:
            assert origin == list(range(len(tokens)))


@given(batches(), DELETES, st.integers(0, 2**63))
def test_C4_words_go_whole_when_asked(rows, delete, seed):
    starts = lists(rows.columns["word_start"])
    if delete.unit == "word":
        for (tokens, _, origin), flags in zip(moved(delete, rows, seed), starts):
            for word in words(tokens, flags):
                assert len({i in origin for i in word}) == 1


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
def test_C4_the_token_that_is_spared_is_any(count):
    found = origins(Delete(rate=1.0, count=count), batch([[7] * 5] * 5000))
    assert all(len(origin) == 1 for origin in found)
    assert stats.chisquare(np.bincount([i for (i,) in found], minlength=5)).pvalue > 1e-4


def test_C4_the_word_that_is_spared_is_any_and_stays_whole():
    found = Counter(origins(Delete(rate=1.0, unit="word"), batch([[7] * 6] * 6000, [[0, 1, 0, 0, 1, 0]] * 6000)))
    assert set(found) == {(0,), (1, 2, 3), (4, 5)}
    assert stats.chisquare([*found.values()]).pvalue > 1e-4


def test_C4_where_a_special_stays_all_others_may_go():
    assert [found for _, found, _ in moved(Delete(rate=1.0), batch([[CLS, 7, 8, SEP], [7, CLS]]))] == [
        [CLS, SEP],
        [CLS],
    ]


def test_C4_one_word_stays_even_if_it_is_all_there_is():
    assert [found for _, found, _ in moved(Delete(unit="word"), batch([[7, 8, 9]], [[1, 0, 0]]))] == [[7, 8, 9]]


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_C4_every_position_goes_equally_often(unit, count):
    found = origins(Delete(unit=unit, count=count), batch([[7] * 40] * 10_000), seed=4)
    stayed = np.bincount([i for origin in found for i in origin], minlength=40)
    assert stats.chisquare(10_000 - stayed).pvalue > 1e-4


def test_C4_the_share_that_goes_is_the_rate():
    random = np.random.default_rng(1)
    rows = batch([[7] * 500] * 200, [random.random(500) < 0.6 for _ in range(200)])
    for unit in ("token", "word"):
        for count, slack in (("exact", 0.002), ("stochastic", 0.002), ("bernoulli", 0.006)):
            kept = np.mean([len(origin) / 500 for origin in origins(Delete(unit=unit, count=count), rows)])
            assert abs(1 - kept - 0.15) < slack


@given(batches(), DELETES, st.integers(0, 2**63))
def test_aligned_columns_follow(rows, delete, seed):
    columns_follow(delete, rows, seed)


def test_a_word_keeps_its_start_when_its_first_token_goes():
    rows = batch([[7] * 12] * 400, [[1, 0, 0] * 4] * 400)
    out = Chain((Delete(rate=0.5),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    for origin, flags in zip(lists(out.columns["origin"]), lists(out.columns["word_start"])):
        belongs = [i // 3 for i in origin]
        assert flags == [int(j == 0 or belongs[j] != belongs[j - 1]) for j in range(len(origin))]


def test_labels_of_a_mask_before_it_go_with_their_tokens():
    out = Chain((Mask(rate=0.5), Delete(rate=0.5))).apply(batch([range(5, 45)]), seed=0, epoch=0, vocabulary=VOCABULARY)
    (origin,), (labels,) = lists(out.columns["origin"]), lists(out.columns["labels"])
    assert any(label != IGNORE for label in labels)
    assert all(label in (IGNORE, 5 + i) for i, label in zip(origin, labels))


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(InputError) as raised:
        Delete(rate=rate)
    assert str(raised.value) == f"delete.rate: {rate} is outside 0 to 1; give the share of the tokens that goes"


def test_what_it_asks_for():
    step = parse_step({"kind": "delete", "rate": 0.6, "unit": "word"})
    assert step == Delete(0.6, "word", "exact")
    assert step.needs() == ("tokens", "word_start") and Delete().needs() == ("tokens",)
    assert step.bounds(17) == {"tokens": 17} and step.moves and step.breaks == () and step.provides == ()
    step.check(VOCABULARY)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "delete.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.delete() == kept
