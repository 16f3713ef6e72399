"""Masking: the cases that people have reported elsewhere, and the golden bytes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames.single import Single
from corruption.noise_kinds import Mask
from corruption.padding import padded
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from tests.corruption import golden_values
from tests.corruption.noise_kinds.masking import masked, ordinary
from tests.corruption.rows import (
    CLS,
    IDS,
    LARGE,
    MASK,
    PAD,
    SEP,
    SPECIAL,
    UNK,
    VOCABULARY,
    batch,
    digest,
)


def test_B5_unspaced_chinese_of_one_character_words_is_masked_at_the_rate():
    rows = batch([[5 + i % 50 for i in range(200)]] * 50)
    for _, _, labels in masked(Mask(unit="word"), rows):
        assert (labels != IGNORE).sum() == 30


def test_A_01_padding_and_specials_framed_by_the_service():
    rows = batch([range(5, 13), [5]])
    frame, mask = Single(), Mask(rate=0.5)
    for seed in range(500):
        out = Chain((mask,)).apply(rows, seed=seed, epoch=0, vocabulary=VOCABULARY)
        made = padded(frame.apply(out, VOCABULARY), VOCABULARY, {"input_ids": 10, "labels": 10})
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
    for unit in ("token", "word", "span"):
        for seed in range(500):
            found = masked(Mask(rate=0.5, unit=unit), batch(original), seed)
            out, labels = np.array([f for _, f, _ in found]), np.array([k for _, _, k in found])
            assert np.array_equal(out[special], original[special])
            assert (labels[special] == IGNORE).all()


@pytest.mark.parametrize(("unit", "decide"), [("token", None), ("word", "word"), ("span", "token")])
@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.5, 0.5), (0.8, 0.1)])
def test_A_05_shares_are_the_ones_asked_for(unit, decide, shares):
    mask_share, random_share = shares
    random = np.random.default_rng(2)
    rows = batch([random.integers(5, 30_000, 100) for _ in range(200)])
    mask = Mask(unit=unit, decide=decide, mask_share=mask_share, random_share=random_share)
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


@pytest.mark.parametrize("unit", ["token", "word", "span"])
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
    for unit in ("token", "word", "span"):
        counts = {int((labels != IGNORE).sum()) for _, _, labels in masked(Mask(rate=0.5, unit=unit), rows)}
        assert counts == {10}


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_A_12_something_is_masked_whenever_one_ordinary_token_exists(unit):
    random = np.random.default_rng(3)
    for number in range(1000):
        row = random.integers(0, 9, random.integers(1, 5))
        ((tokens, out, labels),) = masked(Mask(unit=unit), batch([row], keys=[number]))
        assert (labels != IGNORE).any() == ordinary(tokens).any()
        assert ordinary(tokens).any() or np.array_equal(tokens, out)


def test_A_12_rows_of_specials_and_empty_rows_have_no_labels():
    rows = batch([[], [CLS, SEP], [MASK] * 5, [UNK]])
    for unit in ("token", "word", "span"):
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
    assert Mask().bounds(17) == {"tokens": 17}
