"""The laws of random insertion: C9."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.edit import INVENTED
from corruption.errors import InputError
from corruption.noise_kinds import InsertRandom
from corruption.registry import parse_step
from corruption.vocabulary import Vocabulary
from tests.corruption import golden_values
from tests.corruption.noise_kinds.masking import budget
from tests.corruption.noise_kinds.moving import columns_follow, moved
from tests.corruption.rows import IDS, MASK, SPECIAL, VOCABULARY, batch, batches, lists

INSERTS = st.builds(
    InsertRandom,
    rate=st.sampled_from([0.0, 0.01, 0.15, 0.5, 1.0]),
    mask_share=st.sampled_from([0.0, 0.5, 1.0]),
    count=st.sampled_from(["exact", "bernoulli", "stochastic"]),
)


def gaps_of(origin: list[int]) -> list[int]:
    """The gap of each insertion: how many kept tokens stand before it."""
    kept = np.cumsum([place != INVENTED for place in origin])
    return [int(before) for before, place in zip(kept, origin) if place == INVENTED]


@given(batches(), INSERTS, st.integers(0, 2**63), st.integers(0, 50))
def test_C9_the_input_is_a_subsequence_of_the_output(rows, insert, seed, epoch):
    for tokens, found, origin in moved(insert, rows, seed, epoch):
        assert [place for place in origin if place != INVENTED] == list(range(len(tokens)))
        assert [token for token, place in zip(found, origin) if place != INVENTED] == tokens


@given(batches(), INSERTS, st.integers(0, 2**63))
def test_C9_B19_only_ordinary_tokens_and_the_mask_are_invented(rows, insert, seed):
    for _, found, origin in moved(insert, rows, seed):
        new = {token for token, place in zip(found, origin) if place == INVENTED}
        ordinary = set() if insert.mask_share == 1 else set(VOCABULARY.pool.tolist())
        allowed = ordinary | ({MASK} if insert.mask_share > 0 else set())
        assert new <= allowed


@given(batches(), st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]), st.integers(0, 2**63))
def test_C9_the_length_grows_by_exactly_the_asked_number(rows, rate, seed):
    for tokens, found, _ in moved(InsertRandom(rate=rate), rows, seed):
        assert len(found) - len(tokens) == budget(len(tokens), rate)


@pytest.mark.parametrize("part", [0.0, 0.003, 0.1, 1 / 3, 0.5, 0.77, 1.0])
def test_B14_exactly_k_of_n_for_every_length(part):
    """rate = k / n must insert k, whatever k / n * n is in floating point."""
    for n in range(1, 601):
        k = max(1, math.ceil(part * n))
        insert = InsertRandom(rate=k / n)
        assert insert.bounds(n) == {"tokens": n + k}
        if n % 7 == 0 or n < 30:
            ((_, found, _),) = moved(insert, batch([[7] * n]))
            assert len(found) == n + k


def test_B14_every_pair_of_k_and_n():
    for n in range(1, 601):
        assert all(InsertRandom(rate=k / n).bounds(n) == {"tokens": n + k} for k in range(1, n + 1, 3))


@pytest.mark.parametrize("mask_share", [0.1, 0.5, 0.9])
def test_B13_a_single_insertion_is_a_mask_as_often_as_any(mask_share):
    single = moved(InsertRandom(rate=0.1, mask_share=mask_share), batch([[7] * 5] * 5000))
    new = [found[origin.index(INVENTED)] for _, found, origin in single]
    assert len(new) == 5000
    assert stats.binomtest(new.count(MASK), 5000, mask_share).pvalue > 1e-3
    several = moved(InsertRandom(rate=0.5, mask_share=mask_share), batch([[7] * 40] * 300), seed=1)
    masks = sum(found.count(MASK) for _, found, _ in several)
    assert stats.binomtest(masks, 300 * 20, mask_share).pvalue > 1e-3


def test_B13_masks_come_one_by_one_and_not_by_a_rounded_number():
    found = moved(InsertRandom(rate=0.5, mask_share=0.5), batch([[7] * 8] * 4000), seed=2)
    counts = np.bincount([out.count(MASK) for _, out, _ in found], minlength=5)
    assert stats.chisquare(counts, 4000 * stats.binom.pmf(np.arange(5), 4, 0.5)).pvalue > 1e-4


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
def test_C9_every_gap_is_equally_likely(count):
    found = moved(InsertRandom(rate=0.3, count=count), batch([[7] * 20] * 10_000), seed=3)
    gaps = np.bincount([gap for _, _, origin in found for gap in gaps_of(origin)], minlength=21)
    assert len(gaps) == 21 and stats.chisquare(gaps).pvalue > 1e-4


def test_C9_insertions_choose_their_gaps_independently():
    """Two into three gaps: a gap twice has one way, two gaps have two."""
    found = Counter(tuple(gaps_of(o)) for _, _, o in moved(InsertRandom(rate=1.0), batch([[7, 7]] * 9000), seed=5))
    expected = {(0, 0): 1, (1, 1): 1, (2, 2): 1, (0, 1): 2, (0, 2): 2, (1, 2): 2}
    assert set(found) == set(expected)
    assert stats.chisquare([found[g] for g in expected], [1000 * n for n in expected.values()]).pvalue > 1e-4


def test_C9_each_ordinary_token_is_drawn_equally_often():
    small = Vocabulary.from_ids(12, ids=IDS, special=SPECIAL)
    found = moved(InsertRandom(rate=1.0), batch([[7] * 100] * 50), vocabulary=small)
    drawn = np.bincount([t for _, out, origin in found for t, place in zip(out, origin) if place < 0], minlength=12)
    assert drawn[:5].sum() == 0 and stats.chisquare(drawn[5:]).pvalue > 1e-4


def test_C9_the_counts_by_coins_and_by_chance_are_right_on_average():
    rows = batch([[7] * 17] * 20_000)
    for count in ("bernoulli", "stochastic"):
        new = [origin.count(INVENTED) for _, _, origin in moved(InsertRandom(rate=0.15, count=count), rows)]
        trials, p = (17 * 20_000, 0.15) if count == "bernoulli" else (20_000, 17 * 0.15 - 2)
        hits = sum(new) - (0 if count == "bernoulli" else 2 * 20_000)
        assert stats.binomtest(hits, trials, p).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.13, 0.5, 1.0])
def test_bounds_are_what_can_come(rate):
    """The number itself where it is fixed, the next above it by chance, all tokens by coins."""
    for n in (0, 1, 2, 7, 30, 31, 512):
        most = {count: InsertRandom(rate=rate, count=count).bounds(n)["tokens"] - n for count in ("exact", "bernoulli")}
        assert most == {"exact": budget(n, rate), "bernoulli": n if rate > 0 else 0}
        up = InsertRandom(rate=rate, count="stochastic").bounds(n)["tokens"] - n
        assert up == (min(n, math.floor(rate * n + (1 - 2**-53))) if rate else 0)
        assert up in {math.ceil(rate * n), min(n, math.floor(rate * n) + 1)}


def test_empty_rows_stay_empty():
    for count in ("exact", "bernoulli", "stochastic"):
        assert [found for _, found, _ in moved(InsertRandom(rate=1.0, count=count), batch([[], []]))] == [[], []]


@given(batches(), INSERTS, st.integers(0, 2**63))
def test_aligned_columns_follow(rows, insert, seed):
    columns_follow(insert, rows, seed)


def test_an_insertion_belongs_to_the_word_before_it():
    rows = batch([[7, 8, 9]] * 300, [[1, 0, 1]] * 300)
    out = Chain((InsertRandom(rate=1.0),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    for origin, flags in zip(lists(out.columns["origin"]), lists(out.columns["word_start"])):
        assert flags == [1 if place in (0, 2) else 0 for place in origin]


@pytest.mark.parametrize("name", ["rate", "mask_share"])
@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
def test_shares_out_of_range_are_refused(name, value):
    with pytest.raises(InputError) as raised:
        InsertRandom(**{name: value})
    assert str(raised.value) == f"insert_random.{name}: {value} is outside 0 to 1; give a share between 0 and 1"


def test_A_19_a_missing_mask_token_is_named_with_what_needs_it():
    without = Vocabulary.from_ids(50, ids={"eos": 0}, special={0}, name="gpt2")
    with pytest.raises(InputError, match=r"tokenizer gpt2: it has no mask_token, which the corruption 'insert_random'"):
        InsertRandom(mask_share=0.1).check(without)
    InsertRandom().check(without)


def test_what_it_asks_for():
    step = parse_step({"kind": "insert_random", "rate": 0.6, "mask_share": 0.5, "count": "bernoulli"})
    assert step == InsertRandom(0.6, 0.5, "bernoulli")
    assert step.needs() == ("tokens",) and step.moves and step.breaks == ("labels",) and step.provides == ()


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "insert_random.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.insert_random() == kept
