"""Views: two chains of their own over one passage, and what a view may hold."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.chain import Chain, Noise
from corruption.errors import InputError
from corruption.noise import folded
from corruption.noise_kinds import AttentionPattern, Crop, Mask, PermutationOrder, SentencePair, Views
from tests.corruption import golden_values
from tests.corruption.rows import MASK, VOCABULARY, batch, batches, lists

MASKED = Chain((Mask(rate=0.5),))
CROPPED = Chain((Crop(0.4),))
CHAINS = st.sampled_from([Chain(()), MASKED, CROPPED, Chain((Mask(rate=0.5, unit="word"), Crop(0.4)))])


def viewed(rows, views, seed=0, epoch=0):
    return Chain((views,)).apply(rows, seed=seed, epoch=epoch, vocabulary=VOCABULARY)


@given(batches())
def test_C15_two_views_without_steps_are_the_passage(rows):
    out = viewed(rows, Views())
    assert lists(out.tokens) == lists(out.columns["positive"]) == lists(rows.tokens)
    assert not out.aligned("positive")


@given(batches(), CHAINS, CHAINS, st.integers(0, 2**63))
def test_C15_no_view_is_empty(rows, first, second, seed):
    out = viewed(rows, Views(first, second), seed)
    for old, tokens, positive, usable in zip(
        lists(rows.tokens), lists(out.tokens), lists(out.columns["positive"]), out.usable.tolist()
    ):
        assert usable == bool(old)
        assert not usable or (tokens and positive)


@given(batches(), CHAINS, CHAINS, st.integers(0, 2**63))
def test_C15_each_view_is_its_chain_under_noise_of_the_views_own(rows, first, second, seed):
    """The documented stream: that of the step, folded with the hash of "first.<name>" or "second.<name>"."""
    out = viewed(rows, Views(first, second), seed, epoch=3)
    prefix = int(Noise.of(seed, "views", 3).prefix)
    for view, chain, column in (("first", first, "tokens"), ("second", second, "positive")):
        expected = rows
        for name, step in zip(chain.names, chain.steps):
            noise = Noise(np.uint64(folded(prefix, f"{view}.{name}")))
            expected = step.apply(expected, noise, VOCABULARY)
        assert lists(out.columns[column]) == lists(expected.tokens)


def test_C15_equal_chains_make_different_views_and_leave_each_other_alone():
    rows = batch([[5 + i % 50 for i in range(100)]] * 3)
    both = viewed(rows, Views(CROPPED, CROPPED))
    assert all(a != b for a, b in zip(lists(both.tokens), lists(both.columns["positive"])))
    assert lists(viewed(rows, Views(CROPPED, MASKED)).tokens) == lists(both.tokens)
    assert lists(viewed(rows, Views(MASKED, CROPPED)).columns["positive"]) == lists(both.columns["positive"])


@given(batches(), st.integers(0, 2**63))
def test_a_masked_view_has_no_labels_and_what_it_hid_no_origin(rows, seed):
    out = viewed(rows, Views(first=MASKED, second=MASKED), seed)
    assert "labels" not in out.columns
    for old, new, places in zip(lists(rows.tokens), lists(out.tokens), lists(out.origin())):
        assert places == [i if old[i] == new[i] else -1 for i in range(len(old))]


def test_a_view_masks_and_the_passage_stays():
    rows = batch([[7] * 20])
    out = viewed(rows, Views(second=MASKED))
    assert lists(out.tokens) == lists(out.original) == [[7] * 20]
    assert MASK in lists(out.columns["positive"])[0]


def test_columns_beside_the_tokens_follow_the_first_view():
    rows = batch([list(range(5, 25))], [[1, 0] * 10])
    out = viewed(rows, Views(CROPPED, Chain(())))
    (places,) = lists(out.origin())
    assert len(places) == 12 and out.aligned("word_start")
    assert lists(out.columns["word_start"])[0][1:] == [1 - i % 2 for i in places[1:]]


def test_needs_and_bounds_are_those_of_both_chains():
    views = Views(CROPPED, Chain((Mask(unit="word"),)))
    assert views.needs() == ("tokens", "word_start")
    assert views.bounds(10) == {"tokens": 6, "positive": 10}
    assert Chain((views,)).bounds(10) == {"original": 10, "tokens": 6, "positive": 10}


def test_steps_of_a_view_are_parsed_and_named_where_they_are_wrong():
    step = {"kind": "views", "first": [{"kind": "crop"}], "second": [{"kind": "mask", "name": "hide"}]}
    (made,) = Chain.parse([step]).steps
    assert made == Views(Chain((Crop(),)), Chain((Mask(),), ("hide",)))
    with pytest.raises(InputError, match=r"corruption\[0\] views\.second\[0\]: unknown kind 'crob'; did you mean"):
        Chain.parse([{"kind": "views", "second": [{"kind": "crob"}]}])


def test_what_a_view_needs_of_the_tokenizer_is_checked():
    from corruption.vocabulary import Vocabulary

    bare = Vocabulary.from_ids(9, ids={}, special={0}, name="bare")
    Views(CROPPED, CROPPED).check(bare)
    for views in (Views(first=MASKED), Views(second=MASKED)):
        with pytest.raises(InputError, match="bare: it has no mask_token"):
            views.check(bare)


@pytest.mark.parametrize(
    ("step", "column"),
    [
        (SentencePair(), "segment"),
        (SentencePair("sop"), "segment"),
        (PermutationOrder(), "permutation_order"),
        (AttentionPattern(), "segment"),
        (Views(), "positive"),
    ],
)
def test_steps_whose_columns_would_be_lost_are_refused(step, column):
    for view in ("first", "second"):
        with pytest.raises(InputError) as raised:
            Views(**{view: Chain((step,))})
        said = f"views.{view} ({step.kind}): it provides the column '{column}', which a view does not keep"
        assert str(raised.value) == f"{said}; take it out of the view"


def test_a_step_that_needs_another_document_is_refused(monkeypatch):
    monkeypatch.setattr(Crop, "needs", lambda self: ("tokens", "foreign_tokens"))
    with pytest.raises(InputError) as raised:
        Views(second=CROPPED)
    said = "views.second (crop): it needs a passage of another document, which a view has not; take it out of the view"
    assert str(raised.value) == said


def test_nothing_can_come_after_the_views():
    with pytest.raises(InputError, match="it comes after 'views', when the two views are made; put it before 'views'"):
        Chain((Views(), Mask()))
    Chain((Mask(), Views()))


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "views.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.views() == kept
