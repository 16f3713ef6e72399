"""Attention patterns: their shares, the split, and the frame that goes with each."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames.pair import SEGMENT_IDS, Pair
from corruption.noise_kinds import AttentionPattern, Mask, SentencePair
from corruption.schema import PATTERNS
from tests.corruption import golden_values
from tests.corruption.rows import VOCABULARY, batch, batches, lists

ONE_WAY = ("left_to_right", "right_to_left")
ONLY = {name: tuple(float(name == other) for other in PATTERNS) for name in PATTERNS}


@st.composite
def sentenced(draw, **options):
    """Batches whose rows have words and sentences, a sentence only where a word starts."""
    rows = draw(batches(**options))
    words = rows.columns["word_start"].values
    flags = np.array(draw(st.lists(st.integers(0, 1), min_size=len(words), max_size=len(words))), np.int32)
    return rows.put(sentence_start=rows.tokens.with_values(flags * words))


def with_sentences(rows, flags):
    return rows.put(sentence_start=rows.tokens.with_values(np.concatenate(flags).astype(np.int32)))


def patterned(rows, step=None, seed=0):
    """The batch after the step."""
    step = AttentionPattern() if step is None else step
    return Chain((step,)).apply(rows, seed=seed, epoch=0, vocabulary=VOCABULARY)


@given(sentenced(), st.integers(0, 2**63))
def test_O8_tokens_stay_and_only_two_patterns_have_two_segments(rows, seed):
    out = patterned(rows, seed=seed)
    assert lists(out.tokens) == lists(rows.tokens) and out.aligned("segment")
    names = [PATTERNS[i] for i in out.columns["attention_pattern"].values]
    flags = zip(lists(rows.columns["sentence_start"]), lists(rows.columns["word_start"]))
    for name, segment, (sentences, words), usable in zip(
        names, lists(out.columns["segment"]), flags, out.usable.tolist()
    ):
        assert usable == (len(segment) >= 2)
        assert all(a <= b for a, b in pairwise(segment))
        if not usable or name in ONE_WAY:
            assert sum(segment) == 0
            continue
        split = segment.index(1)
        assert split > 0
        places = range(1, len(segment))
        allowed = [i for i in places if sentences[i]] or [i for i in places if words[i]] or places
        assert split in allowed


def test_O8_the_shares_are_the_ones_asked_for():
    rows = with_sentences(batch([[7] * 4] * 20_000), [[1, 0, 1, 0]] * 20_000)
    for shares in ((1 / 3, 1 / 6, 1 / 6, 1 / 3), (1, 0, 2, 1)):
        found = np.bincount(patterned(rows, AttentionPattern(shares)).columns["attention_pattern"].values, minlength=4)
        expected = np.array(shares) / sum(shares) * 20_000
        assert ((found == 0) == (expected == 0)).all()
        assert stats.chisquare(found[found > 0], expected[expected > 0]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("sentences", "words", "places"),
    [
        ([1, 0, 1, 0, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1], [2, 5, 6]),
        ([1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 1, 0, 0], [2, 4, 5]),
        ([0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1], [2, 7]),
        ([1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]),
    ],
    ids=["sentences", "words", "cut inside a word", "tokens"],
)
@pytest.mark.parametrize("pattern", ["bidirectional", "sequence_to_sequence"])
def test_O8_the_split_is_uniform_over_the_best_places_there_are(sentences, words, places, pattern):
    n = 6000
    rows = with_sentences(batch([[7] * 8] * n, [words] * n), [sentences] * n)
    out = patterned(rows, AttentionPattern(ONLY[pattern]))
    splits = np.bincount([row.index(1) for row in lists(out.columns["segment"])], minlength=8)
    assert np.flatnonzero(splits).tolist() == places
    assert stats.chisquare(splits[places]).pvalue > 1e-3


def test_O8_pattern_and_split_are_independent():
    n = 12_000
    rows = with_sentences(batch([[7] * 6] * n), [[1, 0, 1, 0, 1, 0]] * n)
    out = patterned(rows)
    patterns = out.columns["attention_pattern"].values
    table = np.zeros((2, 2))
    for pattern, segment in zip(patterns, lists(out.columns["segment"])):
        if 1 in segment:
            table[int(pattern == 3), int(segment.index(1) == 4)] += 1
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_rows_of_fewer_than_two_tokens_are_too_short_whatever_the_pattern():
    rows = with_sentences(batch([[], [7], [7, 8]]), [[], [1], [1, 0]])
    for name in PATTERNS:
        out = patterned(rows, AttentionPattern(ONLY[name]))
        assert out.unusable.tolist() == [1, 1, 0]
        assert lists(out.columns["segment"])[:2] == [[], [0]]


@given(sentenced(), st.integers(0, 2**63))
def test_O8_the_frame_says_by_segment_ids_which_task_it_is(rows, seed):
    """UniLM: 0/1 bidirectional, 2 left to right, 3 right to left, 4/5 sequence to sequence."""
    frame = Pair(columns=("input_ids", "token_type_ids", "attention_pattern"))
    out = patterned(rows, seed=seed)
    framed = frame.apply(out, VOCABULARY)
    assert SEGMENT_IDS == {
        "bidirectional": (0, 1),
        "left_to_right": (2, 2),
        "right_to_left": (3, 3),
        "sequence_to_sequence": (4, 5),
    }
    for pattern, segment, types in zip(
        framed["attention_pattern"].values, lists(out.columns["segment"]), lists(framed["token_type_ids"])
    ):
        first, second = SEGMENT_IDS[PATTERNS[pattern]]
        a, b = segment.count(0), segment.count(1)
        assert types == [first] * (a + 2) + [second] * (b + 1 if b else 0)


def test_a_mask_behind_it_hides_tokens_of_both_segments():
    n = 400
    rows = with_sentences(batch([[7] * 8] * n), [[1, 0, 0, 0, 1, 0, 0, 0]] * n)
    chain = Chain((AttentionPattern(ONLY["sequence_to_sequence"]), Mask(rate=0.25)))
    out = chain.apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    labelled = np.array(lists(out.columns["labels"])) >= 0
    assert labelled[:, :4].any() and labelled[:, 4:].any()


@pytest.mark.parametrize(
    "shares", [(), (1.0,), (1, 1, 1), (1, 1, 1, 1, 1), (0, 0, 0, 0), (1, -1, 1, 1), (1, float("nan"), 1, 1)]
)
def test_shares_that_are_not_one_for_each_pattern_are_refused(shares):
    with pytest.raises(InputError) as raised:
        AttentionPattern(shares)
    said = str(raised.value)
    assert said.startswith(f"attention_pattern.shares: {list(shares)}; give a share of at least 0 for each of bidirec")


def test_passages_of_one_token_are_refused_beforehand():
    AttentionPattern().check(VOCABULARY, None)
    AttentionPattern().check(VOCABULARY, 2)
    with pytest.raises(InputError, match=r"passages have up to 1 token, and two segments take two; raise corpus\.max"):
        AttentionPattern().check(VOCABULARY, 1)


def test_segments_of_a_sentence_pair_and_of_a_pattern_do_not_go_together():
    with pytest.raises(InputError, match="'segment', as 'sentence_pair' before it does"):
        Chain((SentencePair(), AttentionPattern()))
    with pytest.raises(InputError) as raised:
        Chain((SentencePair("sop"), AttentionPattern()))
    said = "it provides the column 'segment', as 'sentence_pair' before it does; keep one of the two"
    assert str(raised.value) == f"corruption step 2 (attention_pattern): {said}"


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "attention_pattern.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.attention_pattern() == kept
