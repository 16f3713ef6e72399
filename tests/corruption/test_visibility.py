"""Who sees whom: literal masks of every pattern, and the laws of the two streams of a permutation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames.permutation import Permutation
from corruption.noise_kinds import PermutationOrder
from corruption.schema import PATTERNS
from corruption.visibility import pattern_visibility, permutation_visibility
from tests.corruption.rows import VOCABULARY, batch, batches

# [CLS] a [SEP] b c [SEP]: the second segment begins behind the first [SEP].
SECOND = np.array([0, 0, 0, 1, 1, 1], bool)
LITERALS = {
    "bidirectional": """
        111111
        111111
        111111
        111111
        111111
        111111
    """,
    "left_to_right": """
        100000
        110000
        111000
        111100
        111110
        111111
    """,
    "right_to_left": """
        111111
        011111
        001111
        000111
        000011
        000001
    """,
    "sequence_to_sequence": """
        111000
        111000
        111000
        111100
        111110
        111111
    """,
}


def literal(text):
    return np.array([[c == "1" for c in line] for line in text.split()])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_O8_each_pattern_against_its_literal(pattern):
    assert np.array_equal(pattern_visibility(pattern, SECOND), literal(LITERALS[pattern]))


@given(st.lists(st.booleans(), max_size=12).map(sorted), st.integers(0, 12))
def test_O8_laws_of_the_patterns(flags, padding):
    second = np.array(flags + [False] * padding, bool)
    real = np.arange(len(second)) < len(flags)
    sees = {name: pattern_visibility(name, second, real) for name in PATTERNS}
    both = np.outer(real, real)
    assert np.array_equal(sees["bidirectional"], both)
    assert np.array_equal(sees["left_to_right"], sees["right_to_left"].T)
    assert np.array_equal(sees["left_to_right"] | sees["right_to_left"], both)
    mask = sees["sequence_to_sequence"]
    source, target = ~second & real, second & real
    assert mask[np.ix_(source, source)].all() and mask[np.ix_(target, source)].all()
    assert not mask[np.ix_(source, target)].any()
    assert np.array_equal(mask[np.ix_(target, target)], np.tril(np.ones((target.sum(),) * 2, bool)))
    for found in sees.values():
        assert not found[~real].any() and not found[:, ~real].any()


def test_O8_without_a_source_a_sequence_is_read_left_to_right_and_without_a_target_whole():
    none, every = np.zeros(5, bool), np.ones(5, bool)
    assert pattern_visibility("sequence_to_sequence", none).all()
    assert np.array_equal(pattern_visibility("sequence_to_sequence", every), pattern_visibility("left_to_right", every))


def test_an_unknown_pattern_is_refused():
    with pytest.raises(InputError) as raised:
        pattern_visibility("causal", SECOND)
    said = "attention pattern: unknown name 'causal'; choose one of bidirectional, left_to_right, right_to_left, "
    assert str(raised.value) == said + "sequence_to_sequence"


def framed_orders(rows, seed, rate):
    out = Chain((PermutationOrder(rate),)).apply(rows, seed=seed, epoch=0, vocabulary=VOCABULARY)
    framed = Permutation(columns=("permutation_order",)).apply(out, VOCABULARY)["permutation_order"]
    return [framed.row(i) for i in range(len(rows))]


@given(batches(max_length=15), st.integers(0, 2**63), st.sampled_from([1 / 6, 0.5, 1.0]))
def test_O10_who_sees_whom_in_a_framed_row(rows, seed, rate):
    for order in framed_orders(rows, seed, rate):
        content, query = permutation_visibility(order)
        n = len(order)
        context = order == -1
        target = ~context & (np.arange(n) < n - 2)
        special = np.arange(n) >= n - 2
        assert content[:, context].all() and query[:, context].all()
        assert not content[np.ix_(context, target | special)].any()
        # Targets see no later target, none sees itself as a query, all see themselves as content.
        assert not np.diag(query)[~context].any() and np.diag(content).all()
        later = order[:, None] > order[None, :]
        for mask in (content, query):
            off = ~np.eye(n, dtype=bool) & np.outer(target, target)
            assert np.array_equal(mask[off], later[off])
            assert not (mask & mask.T & off).any()
        # [SEP] sees every target, [CLS] that and [SEP]; no target sees either.
        assert content[-2, target].all() and content[-1, :-1].all() and not content[-2, -1]
        assert not content[np.ix_(target, special)].any()
        assert np.array_equal(content & ~np.eye(n, dtype=bool), query & ~np.eye(n, dtype=bool))


def test_O10_the_order_of_reading_over_all_tokens_is_a_causal_model():
    order = np.arange(7)
    content, query = permutation_visibility(order)
    assert np.array_equal(content, np.tril(np.ones((7, 7), bool)))
    assert np.array_equal(query, np.tril(np.ones((7, 7), bool), -1))


def test_O10_each_of_two_targets_is_visible_to_the_other_half_of_the_time():
    rows = batch([[7] * 12] * 2000)
    seen = np.zeros(2)
    for order in framed_orders(rows, 1, 1 / 6):
        a, b = np.flatnonzero((order >= 0) & (order < 2))
        query = permutation_visibility(order)[1]
        seen += (query[a, b], query[b, a])
    assert seen.sum() == 2000 and abs(seen[0] - 1000) < 3.5 * np.sqrt(500)


def test_B4_padding_is_seen_by_nobody():
    order = np.array([0, -1, 1, 2, -1, -1])
    real = np.array([1, 1, 1, 1, 0, 0], bool)
    for mask, whole in zip(permutation_visibility(order, real), permutation_visibility(order[:4])):
        assert not mask[4:].any() and not mask[:, 4:].any()
        assert np.array_equal(mask[:4, :4], whole)
