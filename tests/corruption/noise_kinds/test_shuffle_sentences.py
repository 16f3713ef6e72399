"""The laws of sentence permutation: C6."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames.encoder_decoder import EncoderDecoder
from corruption.noise_kinds import Infill, ShuffleSentences
from corruption.registry import parse_step
from tests.corruption import golden_values
from tests.corruption.noise_kinds.moving import columns_follow, moved, origins, sentences, with_sentences
from tests.corruption.rows import CLS, PAD, SEP, VOCABULARY, batch, batches, lists


@st.composite
def passages(draw):
    """Rows with any sentence starts, the first token's flag missing among them."""
    rows = draw(batches())
    starts = [draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)) for n in map(len, lists(rows.tokens))]
    return with_sentences(rows, starts), starts


def of_sentences(n, rows):
    """`rows` equal rows of n sentences, the i-th of i + 1 tokens."""
    starts = [int(j == 0) for i in range(n) for j in range(i + 1)]
    return with_sentences(batch([[5 + i % 55 for i in range(len(starts))]] * rows), [starts] * rows), sentences(starts)


def orders(step, n, rows, seed=0):
    """The order of the sentences in each of `rows` rows."""
    made, blocks = of_sentences(n, rows)
    number = {block[0]: s for s, block in enumerate(blocks)}
    return [tuple(number[i] for i in origin if i in number) for origin in origins(step, made, seed)]


@given(passages(), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.integers(0, 2**63), st.integers(0, 50))
def test_C6_sentences_stay_whole_and_none_is_lost(case, share, seed, epoch):
    rows, starts = case
    for (tokens, found, origin), flags in zip(moved(ShuffleSentences(share), rows, seed, epoch), starts):
        assert found == [tokens[i] for i in origin]
        blocks = {block[0]: list(block) for block in sentences(flags)}
        left = list(origin)
        while left:
            block = blocks.pop(left[0])
            assert left[: len(block)] == block
            left = left[len(block) :]
        assert not blocks
        if len(sentences(flags)) <= 1 or share == 0.0:
            assert found == tokens


@given(passages(), st.sampled_from([0.01, 0.3, 0.5, 0.9]), st.integers(0, 2**63))
def test_C6_a_share_moves_that_many_at_most_among_their_own_places(case, share, seed):
    rows, starts = case
    for (_, _, origin), flags in zip(moved(ShuffleSentences(share), rows, seed), starts):
        blocks = sentences(flags)
        number = {block[0]: s for s, block in enumerate(blocks)}
        order = [number[i] for i in origin if i in number]
        away = sum(s != place for place, s in enumerate(order))
        assert away <= max(2, round(share * len(blocks)))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_C6_every_order_is_equally_likely_the_written_one_too(n):
    counts = Counter(orders(ShuffleSentences(), n, 12_000, seed=n))
    assert set(counts) == set(permutations(range(n)))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_C6_with_a_share_every_pair_is_exchanged_equally_often():
    """Two of five sentences take part, so half the orders are the written one and the others exchange one pair."""
    counts = Counter(orders(ShuffleSentences(0.4), 5, 20_000))
    assert stats.binomtest(counts.pop(tuple(range(5))), 20_000, 0.5).pvalue > 1e-4
    assert len(counts) == 10 and stats.chisquare(list(counts.values())).pvalue > 1e-4


@pytest.mark.parametrize(("share", "n", "taking_part"), [(0.5, 5, 2), (0.5, 7, 4), (0.1, 9, 2), (1.0, 3, 3)])
def test_C6_the_share_rounds_half_to_even_and_takes_two_at_least(share, n, taking_part):
    away = [sum(s != i for i, s in enumerate(order)) for order in orders(ShuffleSentences(share), n, 3000)]
    assert max(away) == taking_part


def test_C6_what_comes_before_the_first_start_belongs_to_the_first_sentence():
    rows = with_sentences(batch([[5, 6, 7, 8]] * 100), [[0, 0, 1, 1]] * 100)
    assert set(origins(ShuffleSentences(), rows)) == {(0, 1, 2, 3), (3, 0, 1, 2)}


def test_A_08_fifty_seeds_give_many_orders_and_whole_sentences():
    rows = with_sentences(batch([[5, 20, 6, 20, 7, 20, 8, 20]]), [[1, 0] * 4])
    found = [tuple(moved(ShuffleSentences(), rows, seed)[0][1]) for seed in range(50)]
    assert len(set(found)) >= 10
    for tokens in found:
        assert sorted(tokens) == sorted([5, 6, 7, 8, 20, 20, 20, 20])
        assert all(tokens[i] in (5, 6, 7, 8) and tokens[i + 1] == 20 for i in range(0, 8, 2))
    written = orders(ShuffleSentences(), 4, 2400).count((0, 1, 2, 3))
    assert stats.binomtest(written, 2400, 1 / 24).pvalue > 1e-3


def test_A_08_one_sentence_stays_and_a_full_stop_inside_ends_none():
    rows = with_sentences(batch([[5, 20, 6, 20, 7], [5]]), [[1, 0, 0, 0, 0], [1]])
    for seed in range(50):
        assert [found for _, found, _ in moved(ShuffleSentences(), rows, seed)] == lists(rows.tokens)


def test_A_08_B15_framing_puts_specials_at_the_ends_and_no_padding_inside():
    rows, _ = of_sentences(4, 50)
    for chain in (Chain((ShuffleSentences(),)), Chain((ShuffleSentences(), Infill()))):
        out = chain.apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
        framed = EncoderDecoder().apply(out, VOCABULARY)
        for ids, labels, tokens in zip(lists(framed["input_ids"]), lists(framed["labels"]), lists(rows.tokens)):
            assert ids[0] == CLS and ids[-1] == SEP and not {CLS, SEP, PAD} & set(ids[1:-1])
            assert labels == [CLS, *tokens, SEP]


@given(passages(), st.integers(0, 2**63))
def test_aligned_columns_follow(case, seed):
    columns_follow(ShuffleSentences(), case[0], seed)


def test_sentence_starts_move_with_their_sentences():
    rows, _ = of_sentences(4, 30)
    out = Chain((ShuffleSentences(),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    for starts, origin in zip(lists(out.columns["sentence_start"]), lists(out.columns["origin"])):
        assert starts == [int(i in (0, 1, 3, 6)) for i in origin]


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(InputError) as raised:
        ShuffleSentences(share)
    said = f"shuffle_sentences.share: {share} is outside 0 to 1; give a share of the sentences"
    assert str(raised.value) == said


def test_what_it_asks_for():
    step = parse_step({"kind": "shuffle_sentences", "share": 1})
    assert step == ShuffleSentences() and step.needs() == ("tokens", "sentence_start")
    assert step.bounds(17) == {"tokens": 17} and step.breaks == ()
    step.check(VOCABULARY)
    with pytest.raises(InputError, match=r"shuffle_sentences\.rate: unknown field"):
        parse_step({"kind": "shuffle_sentences", "rate": 0.5})


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "shuffle_sentences.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.shuffle_sentences() == kept


def test_a_document_of_many_sentences_reaches_every_place():
    """No sentence is favoured: in 4000 rows of 12 each stands in each place about as often."""
    found = np.array(orders(ShuffleSentences(), 12, 4000, seed=3))
    counts = np.array([np.bincount(found[:, place], minlength=12) for place in range(12)])
    assert stats.chisquare(counts.ravel(), ddof=22).pvalue > 1e-4
