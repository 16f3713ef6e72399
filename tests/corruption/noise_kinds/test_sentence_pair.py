"""Sentence pairs: what the two segments are, the label, and the rows that cannot be used."""

from __future__ import annotations

import json
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames.pair import Pair
from corruption.noise_kinds import Crop, Mask, SentencePair
from corruption.ragged import Ragged
from corruption.schema import IGNORE, REASONS
from tests.corruption import golden_values
from tests.corruption.rows import VOCABULARY, batch, lists

TOO_SHORT, ONE_SENTENCE, NO_OTHER = (1 + REASONS.index(r) for r in ("too_short", "one_sentence", "no_other_sentence"))

# Few tokens and short sentences, so that equal ones are common.
SENTENCES = st.lists(st.lists(st.integers(5, 6), min_size=1, max_size=3), max_size=5)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=6)
NSP = st.sampled_from([SentencePair(), SentencePair(cut="both")])


def flat(sentences):
    return [token for sentence in sentences for token in sentence]


def flags(sentences):
    return [int(i == 0) for sentence in sentences for i in range(len(sentence))]


def flat_flags(documents):
    return np.array([flag for sentences in documents for flag in flags(sentences)], np.int32)


def passages(pairs):
    """A batch of (own sentences, another document's sentences)."""
    rows = batch([flat(own) for own, _ in pairs])
    foreign = Ragged.from_rows([flat(other) for _, other in pairs])
    return rows.put(
        sentence_start=rows.tokens.with_values(flat_flags(own for own, _ in pairs)),
        foreign_tokens=foreign,
        foreign_word_start=foreign.with_values(np.ones_like(foreign.values)),
        foreign_sentence_start=foreign.with_values(flat_flags(other for _, other in pairs)),
    )


def paired(rows, step=None, seed=0, epoch=0):
    step = SentencePair() if step is None else step
    return Chain((step,)).apply(rows, seed=seed, epoch=epoch, vocabulary=VOCABULARY)


def segments(out):
    """[(A, B, label)] of each row."""
    return [
        ([t for t, s in zip(tokens, segment) if s == 0], [t for t, s in zip(tokens, segment) if s == 1], int(label))
        for tokens, segment, label in zip(
            lists(out.tokens), lists(out.columns["segment"]), out.columns["next_sentence_label"].values
        )
    ]


def ends(sentences):
    """Where each sentence ends."""
    return list(accumulate(len(sentence) for sentence in sentences))


def others(rest, first, foreign):
    """Every second segment that may stand for the true one, by where it starts."""
    found = {}
    for i, start in enumerate([0, *ends(foreign)][: len(foreign)]):
        cut = flat(foreign)[start : start + len(rest)]
        if cut != rest and foreign[i] != first:
            found[start] = cut
    return found


@given(PAIRS, NSP, st.integers(0, 2**63))
def test_C14_nsp_against_the_sentences(pairs, step, seed):
    rows = passages(pairs)
    out = paired(rows, step, seed)
    columns = zip(segments(out), lists(out.origin()), lists(out.columns["sentence_start"]), out.unusable)
    for (own, foreign), ((a, b, label), origin, starts, reason) in zip(pairs, columns):
        tokens = flat(own)
        if reason:
            assert label == IGNORE and (a, b) == (tokens, [])
            assert reason == (TOO_SHORT if not tokens else ONE_SENTENCE if len(own) == 1 else NO_OTHER)
            if reason == NO_OTHER:
                assert any(not others(tokens[e:], own[i + 1], foreign) for i, e in enumerate(ends(own)[:-1]))
            continue
        assert len(own) > 1 and len(a) in ends(own)[:-1] and a == tokens[: len(a)]
        rest, following = tokens[len(a) :], own[ends(own).index(len(a)) + 1]
        allowed = others(rest, following, foreign)
        if label == 1:
            assert b in allowed.values()
            assert origin == [*range(len(a)), *[-1] * len(b)]
            possible = [flags(foreign)[start : start + len(b)] for start, other in allowed.items() if other == b]
            assert starts[: len(a)] == flags(own)[: len(a)] and starts[len(a) :] in possible
        else:
            assert label == 0 and b == rest[: len(b)]
            assert len(b) == len(rest) if step.cut == "foreign" else len(b) in {len(o) for o in allowed.values()}
            assert origin == list(range(len(a) + len(b)))
            assert starts == flags(own)[: len(a) + len(b)]
        assert a and b and len(a) + len(b) <= len(tokens)


@given(PAIRS, st.integers(0, 2**63))
def test_C14_sop_against_the_sentences(pairs, seed):
    rows = passages([(own, []) for own, _ in pairs])
    out = paired(rows, SentencePair("sop"), seed)
    for (own, _), (a, b, label), origin, reason in zip(pairs, segments(out), lists(out.origin()), out.unusable):
        tokens = flat(own)
        if reason:
            assert label == IGNORE and (a, b) == (tokens, [])
            if len(own) > 1:
                halves = [(tokens[:e], tokens[e:]) for e in ends(own)[:-1]]
                assert reason == NO_OTHER and any(x == y for x, y in halves)
            else:
                assert reason == (ONE_SENTENCE if own else TOO_SHORT)
            continue
        first, second = (b, a) if label == 1 else (a, b)
        assert label in (0, 1) and first + second == tokens and len(first) in ends(own)[:-1]
        split = len(first)
        places = list(range(len(tokens)))
        assert origin == (places[split:] + places[:split] if label == 1 else places)
        assert first != second


def distinct(n, base=10, size=2):
    """n sentences of tokens that no other sentence has, as far as the small vocabulary goes."""
    return [[base + size * i + j for j in range(size)] for i in range(n)]


def many(n, own=None, foreign=None):
    return passages([(own or distinct(4), foreign or distinct(4, base=30))] * n)


@pytest.mark.parametrize("step", [SentencePair(), SentencePair(cut="both"), SentencePair("sop")], ids=str)
def test_B8_half_of_the_usable_pairs_are_negative(step):
    """Documents of three sentences, of two, and of one, which are never forced to be negative."""
    pairs = [(distinct(n), distinct(4, base=30)) for n in (3, 2, 1)] * 8000
    out = paired(passages(pairs), step)
    labels = out.columns["next_sentence_label"].values
    assert (out.unusable.reshape(-1, 3) == [0, 0, ONE_SENTENCE]).all()
    assert (labels[out.unusable != 0] == IGNORE).all()
    used = labels[out.usable]
    assert stats.binomtest(int(used.sum()), len(used), 0.5).pvalue > 1e-3


def test_B8_the_share_stays_a_half_where_some_foreign_sentences_clash():
    """Whether a row is usable does not depend on its label."""
    own = [[5], [6], [5], [6]]
    out = paired(many(12_000, own, [[6, 7]]))
    assert 0.2 < out.usable.mean() <= 1.0
    pairs = [(own, [[6]]), (own, [[5]]), (own, [[6], [5]])] * 6000
    out = paired(passages(pairs))
    assert 0.2 < out.usable.mean() < 0.9
    used = out.columns["next_sentence_label"].values[out.usable]
    assert stats.binomtest(int(used.sum()), len(used), 0.5).pvalue > 1e-3


def test_B8_sop_never_looks_at_another_document_and_nsp_never_swaps():
    assert "foreign_tokens" not in SentencePair("sop").needs()
    for a, b, label in segments(paired(many(400), SentencePair("sop"))):
        assert label in (0, 1) and sorted(a + b) == flat(distinct(4))
    for a, b, label in segments(paired(many(400))):
        assert a == flat(distinct(4))[: len(a)]
        assert set(b) <= set(flat(distinct(4, base=30))) if label else a + b == flat(distinct(4))[: len(a + b)]


def test_C14_the_first_segment_ends_behind_each_sentence_but_the_last_equally_often():
    for step in (SentencePair(), SentencePair("sop")):
        out = paired(many(9000), step)
        found = [len(b if step.task == "sop" and label else a) // 2 for a, b, label in segments(out)]
        counts = np.bincount(found, minlength=4)
        assert counts[0] == 0 and stats.chisquare(counts[1:]).pvalue > 1e-3


def test_C14_the_foreign_sentence_is_drawn_uniformly_and_independent_of_the_rest():
    out = paired(many(24_000))
    table = np.zeros((3, 4))
    for a, b, label in segments(out):
        if label == 1:
            table[len(a) // 2 - 1, (b[0] - 30) // 2] += 1
    assert stats.chisquare(table.sum(axis=0)).pvalue > 1e-3
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_C14_cut_both_gives_pairs_whose_length_says_nothing():
    own, foreign = distinct(6), [[30, 31, 32], [33], [34, 35, 36, 37]]
    for cut, told in (("both", False), ("foreign", True)):
        rows = segments(paired(many(8000, own, foreign), SentencePair(cut=cut)))
        table = np.zeros((2, 13))
        for a, b, label in rows:
            table[label, len(a) + len(b)] += 1
        pvalue = stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue
        assert pvalue < 1e-9 if told else pvalue > 1e-3


def test_A_13_a_copy_of_the_document_never_gives_the_true_next_sentence_as_a_negative():
    own = distinct(3)
    out = paired(many(3000, own, own))
    assert out.usable.all()
    for a, b, label in segments(out):
        if label == 1:
            rest = flat(own)[len(a) :]
            assert b != rest and b[:2] != rest[:2]


def test_A_13_where_nothing_but_the_true_next_sentence_is_there_the_row_is_not_used():
    out = paired(passages([([[5], [6, 7]], [[6, 7]]), ([[5], [6, 7]], [[6, 7], [6, 7]]), ([[5], [6]], [])]))
    assert out.unusable.tolist() == [NO_OTHER] * 3
    assert lists(out.tokens) == [[5, 6, 7], [5, 6, 7], [5, 6]]
    assert out.columns["next_sentence_label"].values.tolist() == [IGNORE] * 3
    assert lists(out.columns["segment"]) == [[0, 0, 0], [0, 0, 0], [0, 0]]


def test_A_13_a_foreign_segment_that_is_the_true_one_only_once_cut_is_passed_over():
    """[6, 7, 8] begins like the true [6, 7]; cut to two tokens it would be it."""
    out = paired(many(200, [[5], [6, 7]], [[6, 7, 8], [9]]))
    assert {tuple(b) for _, b, label in segments(out) if label == 1} == {(9,)}


def test_A_13_labels_are_balanced_over_a_corpus_of_200_documents():
    random = np.random.default_rng(4)
    documents = [
        [random.integers(5, 60, random.integers(1, 9)).tolist() for _ in range(random.integers(2, 8))]
        for _ in range(200)
    ]
    rows = passages([(documents[i], documents[(i + 1 + i * 7) % 200]) for i in range(200)])
    labels = paired(rows).columns["next_sentence_label"].values
    assert abs(labels[labels != IGNORE].mean() - 0.5) < 0.1


def test_A_14_passages_without_a_second_sentence_are_counted_by_reason():
    other = distinct(3, base=30)
    rows = passages([([], other), ([[5, 6]], other), ([[5], [6], [7]], other), ([], other)])
    for step in (SentencePair(), SentencePair("sop")):
        out = paired(rows, step)
        assert out.unusable.tolist() == [TOO_SHORT, ONE_SENTENCE, 0, TOO_SHORT]


def test_A_14_a_passage_of_one_sentence_may_stand_behind_another():
    out = paired(many(50, foreign=[[40, 41, 42]]))
    assert any(b[0] == 40 for _, b, label in segments(out) if label == 1)


@pytest.mark.parametrize("cut", ["foreign", "both"])
def test_A_17_a_second_segment_of_700_tokens_is_cut_to_what_the_passage_had(cut):
    """A = 40 tokens and room for 125 in all; the front of B is kept, and both segments have tokens."""
    own = [[5 + i % 50 for i in range(40)], [7] * 85]
    step = SentencePair(cut=cut)
    assert step.bounds(125) == {"tokens": 125}
    out = paired(many(40, own, [[10 + i % 45 for i in range(700)]]), step)
    framed = Pair(columns=("input_ids", "token_type_ids", "next_sentence_label")).apply(out, VOCABULARY)
    for label, ids, types in zip(
        framed["next_sentence_label"].values, lists(framed["input_ids"]), lists(framed["token_type_ids"])
    ):
        assert len(ids) == 128 and sum(types) == 86 and types == sorted(types)
        assert ids[42:127] == ([10 + i % 45 for i in range(85)] if label else [7] * 85)


def test_the_first_token_starts_a_sentence_whatever_its_flag():
    rows = many(200)
    unmarked = rows.columns["sentence_start"].values.copy()
    unmarked[rows.tokens.offsets[:-1]] = 0
    foreign = rows.columns["foreign_sentence_start"].values.copy()
    foreign[rows.columns["foreign_tokens"].offsets[:-1]] = 0
    other = rows.put(
        sentence_start=rows.tokens.with_values(unmarked),
        foreign_sentence_start=rows.columns["foreign_tokens"].with_values(foreign),
    )
    assert segments(paired(rows)) == segments(paired(other))


def test_a_mask_behind_it_hides_tokens_of_both_segments():
    chain = Chain((SentencePair(), Mask(rate=0.3)))
    out = chain.apply(many(200), seed=0, epoch=0, vocabulary=VOCABULARY)
    labels, segment = out.columns["labels"].values, out.columns["segment"].values
    assert (labels[segment == 0] != IGNORE).any() and (labels[segment == 1] != IGNORE).any()
    negative = np.repeat(out.columns["next_sentence_label"].values == 1, out.tokens.lengths)
    assert (labels[negative & (segment == 1)] != IGNORE).any()


@pytest.mark.parametrize("before", [Mask(rate=0.5), Crop(0.5), Mask(mask_share=0.0, random_share=0.0)], ids=str)
def test_a_step_before_nsp_would_leave_the_foreign_segment_clean_and_is_refused(before):
    with pytest.raises(InputError) as raised:
        Chain((before, SentencePair()))
    said = "it pairs the passage with another document's, which no step before it has touched; put it first"
    assert str(raised.value) == f"corruption step 2 (sentence_pair): {said}"
    Chain((before, SentencePair("sop"))).apply(many(20), seed=0, epoch=0, vocabulary=VOCABULARY)


def test_words_of_both_segments_are_known():
    rows = passages([([[10, 11, 12], [13, 14]], [[30, 31, 32, 33]])] * 60)
    words = rows.tokens.with_values(np.array([1, 0, 1, 1, 0] * 60, np.int32))
    foreign = rows.columns["foreign_tokens"].with_values(np.array([1, 1, 0, 0] * 60, np.int32))
    out = paired(rows.put(word_start=words, foreign_word_start=foreign), SentencePair(cut="foreign"))
    labels = out.columns["next_sentence_label"].values
    found = lists(out.columns["word_start"])
    assert {tuple(found[r]) for r in np.flatnonzero(labels == 0)} == {(1, 0, 1, 1, 0)}
    assert {tuple(found[r]) for r in np.flatnonzero(labels == 1)} == {(1, 0, 1, 1, 1)}
    tokens = lists(out.tokens)
    assert {tuple(tokens[r]) for r in np.flatnonzero(labels == 1)} == {(10, 11, 12, 30, 31)}
    Chain((SentencePair(), Mask(unit="word"))).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"task": "nps"}, "sentence_pair.task: unknown value 'nps'; choose one of nsp, sop"),
        ({"cut": "none"}, "sentence_pair.cut: unknown value 'none'; choose one of foreign, both"),
        (
            {"task": "sop", "cut": "both"},
            "sentence_pair.cut: 'both' does nothing with task: sop; remove it, or use task: nsp",
        ),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields, says):
    with pytest.raises(InputError) as raised:
        SentencePair(**fields)
    assert str(raised.value) == says


def test_passages_of_one_token_are_refused_beforehand():
    SentencePair().check(VOCABULARY, None)
    SentencePair().check(VOCABULARY, 2)
    with pytest.raises(InputError, match=r"passages have up to 1 token, and two sentences take two; raise corpus\.max"):
        SentencePair().check(VOCABULARY, 1)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "sentence_pair.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.sentence_pair() == kept
