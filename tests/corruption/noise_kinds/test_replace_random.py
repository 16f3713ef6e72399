"""The laws of random replacement: C9."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.edit import INVENTED
from corruption.errors import InputError
from corruption.noise_kinds import ReplaceRandom, Rotate
from corruption.registry import parse_step
from corruption.vocabulary import Vocabulary
from tests.corruption import golden_values
from tests.corruption.noise_kinds.masking import budget, ordinary, words
from tests.corruption.noise_kinds.moving import moved
from tests.corruption.rows import IDS, SIZE, SPECIAL, VOCABULARY, batch, batches, lists

RATES = st.sampled_from([0.0, 0.01, 0.15, 0.5, 1.0])
REPLACES = st.builds(
    ReplaceRandom,
    rate=RATES,
    unit=st.sampled_from(["token", "word"]),
    count=st.sampled_from(["exact", "bernoulli", "stochastic"]),
)


@given(batches(), REPLACES, st.integers(0, 2**63), st.integers(0, 50))
def test_C9_origin_says_which_tokens_are_new_and_all_others_stay(rows, replace, seed, epoch):
    for tokens, found, origin in moved(replace, rows, seed, epoch):
        assert len(tokens) == len(found)
        for i in range(len(tokens)):
            assert (origin[i] == INVENTED) == (found[i] != tokens[i])
            assert origin[i] in (i, INVENTED)


@given(batches(), RATES, st.integers(0, 2**63))
def test_C9_the_hamming_distance_is_the_count(rows, rate, seed):
    for tokens, found, _ in moved(ReplaceRandom(rate=rate), rows, seed):
        assert sum(a != b for a, b in zip(tokens, found)) == budget(int(ordinary(tokens).sum()), rate)


@pytest.mark.parametrize("rate", [0.01, 0.15, 1.0])
def test_C9_the_hamming_distance_is_the_count_for_every_length(rate):
    rows = batch([[7] * n for n in range(601)])
    found = [origin.count(INVENTED) for _, _, origin in moved(ReplaceRandom(rate=rate), rows)]
    assert found == [budget(n, rate) for n in range(601)]


@given(batches(), REPLACES, st.integers(0, 2**63))
def test_C9_B19_specials_are_neither_replaced_nor_drawn(rows, replace, seed):
    for tokens, found, _ in moved(replace, rows, seed):
        assert [t for t in found if t in SPECIAL] == [t for t in tokens if t in SPECIAL]
        assert [i for i, t in enumerate(found) if t in SPECIAL] == [i for i, t in enumerate(tokens) if t in SPECIAL]


@given(batches(), REPLACES, st.integers(0, 2**63))
def test_C9_words_are_replaced_whole_when_asked(rows, replace, seed):
    if replace.unit == "word":
        for (tokens, found, _), flags in zip(moved(replace, rows, seed), lists(rows.columns["word_start"])):
            for word in words(tokens, flags):
                assert len({found[i] != tokens[i] for i in word}) == 1


@pytest.mark.parametrize("unit", ["token", "word"])
def test_A_06_each_other_ordinary_token_is_drawn_equally_often(unit):
    small = Vocabulary.from_ids(12, ids=IDS, special=SPECIAL)
    rows = batch([[5 + i % 7 for i in range(100)]] * 100)
    found = moved(ReplaceRandom(rate=1.0, unit=unit), rows, vocabulary=small)
    tokens, out = (np.concatenate([row[column] for row in found]) for column in (0, 1))
    for original in range(5, 12):
        drawn = np.bincount(out[tokens == original], minlength=12)
        assert drawn[:5].sum() == 0 and drawn[original] == 0
        assert stats.chisquare(np.delete(drawn[5:], original - 5)).pvalue > 1e-4


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_C9_every_position_is_replaced_equally_often(unit, count):
    found = moved(ReplaceRandom(unit=unit, count=count), batch([[7] * 40] * 10_000), seed=4)
    new = np.sum([np.array(origin) == INVENTED for _, _, origin in found], axis=0)
    assert stats.chisquare(new).pvalue > 1e-4


def test_C9_the_counts_by_coins_and_by_chance_are_right_on_average():
    rows = batch([[7] * 17] * 20_000)
    for count in ("bernoulli", "stochastic"):
        new = [origin.count(INVENTED) for _, _, origin in moved(ReplaceRandom(count=count), rows)]
        trials, p = (17 * 20_000, 0.15) if count == "bernoulli" else (20_000, 17 * 0.15 - 2)
        hits = sum(new) - (0 if count == "bernoulli" else 2 * 20_000)
        assert stats.binomtest(hits, trials, p).pvalue > 1e-3


def test_an_origin_that_is_there_is_kept_and_still_aligned():
    chain = Chain((Rotate(), ReplaceRandom(rate=0.5)))
    out = chain.apply(batch([range(5, 45)]), seed=0, epoch=0, vocabulary=VOCABULARY)
    (tokens,), (origin,) = lists(out.tokens), lists(out.columns["origin"])
    assert out.aligned("origin") and out.aligned("word_start") and origin.count(INVENTED) == 20
    assert all(place == INVENTED or token == 5 + place for token, place in zip(tokens, origin))


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(InputError) as raised:
        ReplaceRandom(rate=rate)
    said = f"replace_random.rate: {rate} is outside 0 to 1; give the share of the tokens that is replaced"
    assert str(raised.value) == said


def test_a_vocabulary_of_one_ordinary_token_is_refused():
    one = Vocabulary.from_ids(6, ids=IDS, special=SPECIAL, name="tiny")
    with pytest.raises(
        InputError, match=r"tokenizer tiny: it has a single ordinary token, and the corruption 'replace"
    ):
        ReplaceRandom().check(one)


def test_what_it_asks_for():
    step = parse_step({"kind": "replace_random", "rate": 0.6, "unit": "word"})
    assert step == ReplaceRandom(0.6, "word", "exact")
    assert step.needs() == ("tokens", "word_start") and ReplaceRandom().needs() == ("tokens",)
    assert step.bounds(17) == {"tokens": 17} and not step.moves and step.breaks == ("labels",) and step.provides == ()
    step.check(VOCABULARY)
    assert len(VOCABULARY.pool) == SIZE - len(SPECIAL)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "replace_random.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.replace_random() == kept
