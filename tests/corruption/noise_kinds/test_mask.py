"""The laws of masking: C1 (tokens) and C2 (whole words), the reported cases, and its statistics."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frame import SingleSegment, padded
from corruption.noise_kinds import Mask
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from tests.corruption import golden_values
from tests.corruption.rows import (
    CLS,
    IDS,
    LARGE,
    MASK,
    PAD,
    SEP,
    SIZE,
    SPECIAL,
    UNK,
    VOCABULARY,
    batch,
    batches,
    digest,
    lists,
)

RATES = st.sampled_from([0.0, 0.01, 0.15, 0.5, 1.0])
MASKS = st.builds(
    Mask,
    rate=RATES,
    unit=st.sampled_from(["token", "word"]),
    count=st.sampled_from(["exact", "bernoulli", "stochastic"]),
    mask_share=st.sampled_from([0.0, 0.5, 0.8]),
    random_share=st.sampled_from([0.0, 0.1, 0.2]),
    decide=st.sampled_from(["word", "token"]),
)


def masked(mask, rows, seed=0, epoch=0, vocabulary=VOCABULARY):
    """[(tokens, input, labels)] of each row, as arrays."""
    out = Chain((mask,)).apply(rows, seed=seed, epoch=epoch, vocabulary=vocabulary)
    return [(rows.tokens.row(i), out.tokens.row(i), out.columns["labels"].row(i)) for i in range(len(rows))]


def words(tokens, starts):
    """The rows' words as ranges; position 0 starts one whatever its flag says."""
    edges = [i for i in range(len(tokens)) if i == 0 or starts[i]] + [len(tokens)]
    return [range(a, b) for a, b in pairwise(edges) if b > a]


def ordinary(tokens):
    """bool: the positions that may be chosen."""
    return np.array([t not in SPECIAL for t in tokens], bool)


def budget(n, rate):
    """The count law of "exact"; Python's round is half to even too."""
    return min(n, max(1, round(rate * n))) if n and rate > 0 else 0


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


@given(batches(), st.sampled_from(["token", "word"]), st.sampled_from(["exact", "bernoulli", "stochastic"]))
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
    by_word, by_token = (dataclasses.replace(mask, unit=unit) for unit in ("word", "token"))
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


def test_B5_unspaced_chinese_of_one_character_words_is_masked_at_the_rate():
    rows = batch([[5 + i % 50 for i in range(200)]] * 50)
    for _, _, labels in masked(Mask(unit="word"), rows):
        assert (labels != IGNORE).sum() == 30


def test_A_01_padding_and_specials_framed_by_the_service():
    rows = batch([range(5, 13), [5]])
    frame, mask = SingleSegment(), Mask(rate=0.5)
    for seed in range(500):
        out = Chain((mask,)).apply(rows, seed=seed, epoch=0, vocabulary=VOCABULARY)
        made = padded(frame.apply(out, VOCABULARY), VOCABULARY, 10)
        original = np.array([[CLS, *range(5, 13), SEP], [CLS, 5, SEP, *[PAD] * 7]])
        special = np.isin(original, list(SPECIAL))
        assert np.array_equal(made["input_ids"][special], original[special])
        assert (made["labels"][special] == IGNORE).all()
        assert np.array_equal(made["attention_mask"], (original != PAD).astype(np.int64))
        assert (made["labels"] != IGNORE).sum(axis=1).tolist() == [4, 1]


def test_A_01_padding_and_specials_handed_in():
    original = np.array(
        [[CLS, *range(5, 13), SEP], [CLS, 5, SEP, *[PAD] * 7], [PAD] * 10, [UNK, 6, SEP, CLS, *[MASK] * 6]]
    )
    special = np.isin(original, list(SPECIAL))
    for unit in ("token", "word"):
        for seed in range(500):
            found = masked(Mask(rate=0.5, unit=unit), batch(original), seed)
            out, labels = np.array([f for _, f, _ in found]), np.array([k for _, _, k in found])
            assert np.array_equal(out[special], original[special])
            assert (labels[special] == IGNORE).all()


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.5, 0.5), (0.8, 0.1)])
def test_A_05_shares_are_the_ones_asked_for(unit, shares):
    mask_share, random_share = shares
    random = np.random.default_rng(2)
    rows = batch([random.integers(5, 30_000, 100) for _ in range(200)])
    mask = Mask(unit=unit, mask_share=mask_share, random_share=random_share)
    tokens, out, labels = (np.concatenate(parts) for parts in zip(*masked(mask, rows, vocabulary=LARGE)))
    chosen = labels != IGNORE
    n = int(chosen.sum())
    assert n == 200 * 15
    hidden = out[chosen] == MASK
    kept = out[chosen] == tokens[chosen]
    for share, count in (
        (mask_share, hidden.sum()),
        (1 - mask_share - random_share, kept.sum()),
        (random_share, (~hidden & ~kept).sum()),
    ):
        assert abs(count - n * share) <= 3 * np.sqrt(n * share * (1 - share)) + 1e-9


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"mask_share": 0.9, "random_share": 0.2},
            "mask.mask_share + mask.random_share: 0.9 + 0.2 is above 1",
        ),
        ({"mask_share": -0.1}, "mask.mask_share: -0.1 is outside 0 to 1"),
        ({"random_share": 1.1}, "mask.random_share: 1.1 is outside 0 to 1"),
        ({"rate": -0.15}, "mask.rate: -0.15 is outside 0 to 1"),
        ({"rate": 15.0}, "mask.rate: 15.0 is outside 0 to 1"),
        ({"rate": float("nan")}, "mask.rate: nan is outside 0 to 1"),
    ],
)
def test_A_05_shares_out_of_range_are_refused(fields, says):
    with pytest.raises(InputError) as raised:
        Mask(**fields)
    assert str(raised.value).startswith(says)


@pytest.mark.parametrize("unit", ["token", "word"])
def test_A_06_random_tokens_are_ordinary_and_each_one_comes(unit):
    small = Vocabulary.from_ids(12, ids=IDS, special=SPECIAL)
    rows = batch([[5 + i % 7 for i in range(100)]] * 50)
    mask = Mask(rate=1.0, unit=unit, mask_share=0.0, random_share=1.0)
    found = masked(mask, rows, vocabulary=small)
    tokens, out, labels = (np.concatenate(parts) for parts in zip(*found))
    assert (labels != IGNORE).sum() == 5000
    assert set(out.tolist()) == set(range(5, 12)) and not (out == tokens).any()
    for original in range(5, 12):
        drawn = np.bincount(out[tokens == original], minlength=12)[[i for i in range(5, 12) if i != original]]
        assert stats.chisquare(drawn).pvalue > 1e-4


def test_A_06_the_only_ordinary_token_stays():
    one = Vocabulary.from_ids(6, ids=IDS, special=SPECIAL)
    for _, out, labels in masked(Mask(mask_share=0.0, random_share=1.0), batch([[5] * 10]), vocabulary=one):
        assert (out == 5).all() and (labels != IGNORE).sum() == 2


def test_A_06_added_tokens_may_be_chosen_but_are_not_drawn():
    """An ordinary word that was added after training: no special, yet outside the pool."""
    vocabulary = Vocabulary.from_ids(13, ids=IDS, special=SPECIAL, ordinary=range(5, 12))
    rows = batch([[12] * 100] * 50)
    found = masked(Mask(rate=1.0, mask_share=0.0, random_share=1.0), rows, vocabulary=vocabulary)
    assert {int(t) for _, out, _ in found for t in out} == set(range(5, 12))
    assert all((labels == 12).all() for _, _, labels in found)


def test_B19_the_pool_holds_no_special_id():
    assert not SPECIAL & set(VOCABULARY.pool.tolist())
    rows = batch([[7] * 500] * 40)
    found = masked(Mask(rate=1.0, mask_share=0.0, random_share=1.0), rows)
    assert not SPECIAL & {int(t) for _, out, _ in found for t in out}


def test_B26_no_position_is_chosen_twice():
    """Were one, the number of labels would fall below the budget."""
    rows = batch([[7] * 20] * 10_000)
    for unit in ("token", "word"):
        counts = {int((labels != IGNORE).sum()) for _, _, labels in masked(Mask(rate=0.5, unit=unit), rows)}
        assert counts == {10}


@pytest.mark.parametrize("unit", ["token", "word"])
def test_A_12_something_is_masked_whenever_one_ordinary_token_exists(unit):
    random = np.random.default_rng(3)
    for number in range(1000):
        row = random.integers(0, 9, random.integers(1, 5))
        ((tokens, out, labels),) = masked(Mask(unit=unit), batch([row], keys=[number]))
        assert (labels != IGNORE).any() == ordinary(tokens).any()
        assert ordinary(tokens).any() or np.array_equal(tokens, out)


def test_A_12_rows_of_specials_and_empty_rows_have_no_labels():
    rows = batch([[], [CLS, SEP], [MASK] * 5, [UNK]])
    for unit in ("token", "word"):
        for count in ("exact", "bernoulli", "stochastic"):
            for tokens, out, labels in masked(Mask(rate=1.0, unit=unit, count=count), rows):
                assert np.array_equal(tokens, out) and (labels == IGNORE).all()


def test_A_16_global_random_state_is_neither_read_nor_altered():
    import random

    rows = batch([[7] * 100] * 20)
    before = digest(Chain((Mask(),)).apply(rows, seed=1, epoch=0, vocabulary=VOCABULARY))
    states = random.getstate(), np.random.get_state()
    after = digest(Chain((Mask(),)).apply(rows, seed=1, epoch=0, vocabulary=VOCABULARY))
    assert random.getstate() == states[0]
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), states[1]))
    random.seed(99)
    np.random.seed(99)
    assert [random.random() for _ in range(1000)] and np.random.random(1000).size
    assert digest(Chain((Mask(),)).apply(rows, seed=1, epoch=0, vocabulary=VOCABULARY)) == before == after


def test_A_19_a_missing_mask_token_is_named_with_what_needs_it():
    without = Vocabulary.from_ids(50, ids={"eos": 0}, special={0}, name="gpt2")
    with pytest.raises(InputError) as raised:
        Chain((Mask(),)).check(without)
    said = str(raised.value)
    assert "gpt2" in said and "mask_token" in said and "'mask'" in said and "\n" not in said
    Chain((Mask(mask_share=0.0, random_share=1.0),)).check(without)


def test_A_20_ids_of_a_vocabulary_of_250_000():
    large = Vocabulary.from_ids(250_000, ids=IDS, special=SPECIAL)
    ids = [32_767, 32_768, 65_535, 65_536, 249_999]
    for tokens, out, labels in masked(Mask(rate=1.0, mask_share=0.0, random_share=0.0), batch([ids]), vocabulary=large):
        assert tokens.tolist() == out.tolist() == labels.tolist() == ids
    rows = batch([ids * 400] * 10)
    found = masked(Mask(rate=1.0, mask_share=0.0, random_share=1.0), rows, vocabulary=large)
    drawn = np.concatenate([out for _, out, _ in found])
    assert drawn.min() >= 5 and 249_000 < drawn.max() < 250_000


def test_A_21_characters_of_one_word_share_flag_and_decision():
    """我 喜欢 弹 琵琶, a token for each character: words as the corpus gives them."""
    rows = batch([[5, 6, 7, 8, 9, 10]] * 300, [[1, 1, 0, 1, 1, 0]] * 300)
    mask = Mask(rate=0.5, unit="word", mask_share=0.5, random_share=0.25)
    flags = []
    for _, out, labels in masked(mask, rows, seed=4):
        chosen = labels != IGNORE
        assert chosen[4] == chosen[5] and chosen[1] == chosen[2]
        flags.append(bool(chosen[4]))
        if chosen[4]:
            assert (out[4] == MASK) == (out[5] == MASK) and (out[4] == 9) == (out[5] == 10)
    assert 60 < sum(flags) < 240


def test_B27_rows_of_equal_tokens_but_other_keys_share_no_pattern():
    rows = batch([[7] * 400] * 50)
    patterns = {tuple(np.flatnonzero(labels != IGNORE)) for _, _, labels in masked(Mask(), rows)}
    assert len(patterns) == 50


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "mask.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.mask() == kept


def test_words_need_the_stored_word_starts_and_tokens_do_not():
    assert Mask(unit="word").needs() == ("tokens", "word_start") and Mask().needs() == ("tokens",)
    assert Mask().bound(17) == 17
