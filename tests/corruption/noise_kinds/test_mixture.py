"""The laws of the mixture: which chain a row goes through, and that it goes through it as if alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain, Noise
from corruption.errors import InputError
from corruption.noise import stream
from corruption.noise_kinds import Mask, Mixture, PrefixSplit, SpanSentinel
from corruption.ragged import Batch, Ragged
from tests.corruption import golden_values
from tests.corruption.rows import IDS, MODES, RICH, SPECIAL, VOCABULARY, batch, batches, digest, lists

SPANS = Chain((SpanSentinel(mode="[R]"),))
WIDE = Chain((SpanSentinel(rate=0.5, mean_length=8.0, mode="[X]"),))
TAIL = Chain((PrefixSplit(rate=0.25, mode="[S]"),))
THREE = Mixture((SPANS, TAIL, WIDE))


def mixed(step, rows, seed=0, epoch=0, name="mixture"):
    return Chain((step,), (name,)).apply(rows, seed=seed, epoch=epoch, vocabulary=RICH)


def shares(step, n=30_000, seed=0):
    """How often each mode token came."""
    out = mixed(step, batch([[7, 8, 9, 10]] * n), seed)
    modes = out.tokens.values[out.tokens.offsets[:-1]]
    return [int((modes == MODES[mode]).sum()) for mode in ("[R]", "[S]", "[X]")]


@given(batches(special=False), st.integers(0, 2**63), st.integers(0, 9))
def test_each_row_is_what_its_chain_makes_of_it_under_the_steps_own_noise(rows, seed, epoch):
    """The noise of a step inside: the stream that goes on from the mixture's with the step's name."""
    out = mixed(THREE, rows, seed, epoch)
    prefix = int(Noise.of(seed, "mixture", epoch).prefix)
    alone = {}
    for mode, chain in (("[R]", SPANS), ("[S]", TAIL), ("[X]", WIDE)):
        (step,) = chain.steps
        alone[MODES[mode]] = step.apply(rows, Noise(np.uint64(stream(prefix, step.kind))), RICH)
    for r, tokens in enumerate(lists(out.tokens)):
        if len(rows.tokens.row(r)) < 2:
            assert tokens == rows.tokens.row(r).tolist() and out.unusable[r] == 1
            continue
        expected = alone[tokens[0]]
        for column in ("tokens", "targets", "word_start", "origin"):
            assert out.columns[column].row(r).tolist() == expected.columns[column].row(r).tolist()
        assert out.unusable[r] == 0
    assert out.keys is rows.keys and out.copies is rows.copies and out.original is rows.original
    assert out.aligned("word_start") and out.aligned("origin") and not out.aligned("targets")


@pytest.mark.parametrize("weights", [None, (1.0, 1.0, 1.0), (5.0, 1.0, 3.0), (0.001, 0.5, 0.5)])
def test_C12_shares_are_the_weights(weights):
    found = shares(Mixture((SPANS, TAIL, WIDE), weights))
    given = np.array(weights or (1.0, 1.0, 1.0))
    assert stats.chisquare(found, sum(found) * given / given.sum()).pvalue > 1e-3
    assert sum(found) == 30_000


def test_equal_weights_and_none_are_the_same_noise():
    rows = batch([[7, 8, 9, 10]] * 50)
    assert digest(mixed(THREE, rows)) == digest(mixed(Mixture(THREE.chains, (2.0, 2.0, 2.0)), rows))


def test_the_chain_of_a_row_changes_with_epoch_seed_and_copy():
    rows = batch([[7, 8, 9, 10]] * 200)
    again = Batch(rows.keys, rows.columns, np.ones(len(rows), np.uint64))
    runs = [mixed(THREE, rows), mixed(THREE, rows, epoch=1), mixed(THREE, rows, seed=1), mixed(THREE, again)]
    chosen = [tuple(out.tokens.values[out.tokens.offsets[:-1]]) for out in runs]
    assert len(set(chosen)) == len(chosen)


def test_steps_of_two_chains_share_their_noise_by_name():
    """The order of the chains does not enter it: swapping two that are alike changes nothing."""
    rows = batch([[5 + i for i in range(30)]] * 40)
    alike = Mixture((Chain((PrefixSplit(),)), Chain((PrefixSplit(),))))
    out = mixed(alike, rows)
    noise = Noise(np.uint64(stream(int(Noise.of(0, "mixture", 0).prefix), "prefix_split")))
    assert lists(out.tokens) == lists(PrefixSplit().apply(rows, noise, RICH).tokens)
    named = Mixture((Chain((PrefixSplit(),), ("a",)), Chain((PrefixSplit(),), ("b",))))
    assert lists(mixed(named, rows).tokens) != lists(out.tokens)


def test_chains_of_several_steps_and_none():
    """Half of the rows are masked twice and cut, and columns of all sorts come back in place."""
    both = Mixture(
        (
            Chain((Mask(), PrefixSplit())),
            Chain((Mask(rate=0.5), SpanSentinel())),
        )
    )
    rows = batch([[5 + i for i in range(3 + n % 20)] for n in range(60)])
    loose = Ragged.from_rows([[n, n + 1][: n % 3] for n in range(60)])
    rows = rows.put(foreign_tokens=loose, foreign_sentence_start=loose.with_values(loose.values * 0))
    out = mixed(both, rows)
    assert set(both.provides) == {"labels", "targets"} and both.moves and both.breaks == ()
    assert out.aligned("labels") and lists(out.columns["foreign_tokens"]) == lists(loose)
    assert out.columns["foreign_tokens"].offsets is out.columns["foreign_sentence_start"].offsets
    spared = Mixture((Chain(()), Chain(())))
    assert lists(mixed(spared, rows).tokens) == lists(rows.tokens) and "origin" not in mixed(spared, rows).columns


def test_a_mixture_that_moves_nothing_has_no_origin_and_one_that_may_always_has():
    rows = batch([[7, 8, 9]])
    masks = Mixture((Chain((Mask(),)), Chain((Mask(rate=0.5),))))
    assert not masks.moves and masks.provides == ("labels",) and "origin" not in mixed(masks, rows).columns
    assert all("origin" in mixed(THREE, rows, seed).columns for seed in range(9))


@given(st.integers(0, 200))
def test_bounds_are_those_of_the_widest_chain(length):
    single = [chain.bounds(length) for chain in THREE.chains]
    assert THREE.bounds(length) == {name: max(b[name] for b in single) for name in ("tokens", "targets")}
    assert Chain((THREE,)).bounds(length) == {"original": length, **THREE.bounds(length)}


def test_needs_and_checks_are_those_of_all_chains():
    words = Mixture((Chain((Mask(),)), Chain((Mask(unit="word"),))))
    assert words.needs() == ("tokens", "word_start") and Chain((words,)).columns() == ("tokens", "word_start")
    Chain((THREE,)).check(RICH, 500)
    with pytest.raises(InputError, match=r"small: it has no token '\[R\]'"):
        Chain((THREE,)).check(VOCABULARY)
    few = type(RICH).from_ids(80, ids=IDS, special=SPECIAL, sentinels=(70, 71), named=dict.fromkeys(MODES, 72))
    with pytest.raises(InputError, match=r"it has 2 sentinels .* a row of 100 tokens can need 6"):
        Chain((THREE,)).check(few, 100)


def test_it_stands_in_a_chain_like_any_other_step():
    with pytest.raises(InputError, match=r"step 2 \(span_sentinel\): it provides the column 'targets', as 'mixture'"):
        Chain((THREE, SpanSentinel()))
    nested = Mixture((Chain((THREE,)), SPANS))
    rows = batch([[5 + i for i in range(20)]] * 30)
    assert {row[0] for row in lists(mixed(nested, rows).tokens)} == set(MODES.values())
    assert hash(nested) == hash(Mixture((Chain((Mixture(THREE.chains),)), SPANS)))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "mixture.chains: 0 given; give two or more lists of steps"),
        ({"chains": (SPANS,)}, "mixture.chains: 1 given; give two or more"),
        (
            {"chains": (SPANS, Chain((Mask(),)))},
            "mixture.chains[1]: it provides 'labels', and mixture.chains[0] 'targets'; give chains that provide",
        ),
        (
            {"chains": (SPANS, TAIL, Chain(()))},
            "mixture.chains[2]: it provides nothing, and mixture.chains[0] 'targets'",
        ),
        ({"chains": (SPANS, TAIL), "weights": (1.0,)}, "mixture.weights: 1 given for 2 chains; give one for each"),
        (
            {"chains": (SPANS, TAIL), "weights": (1.0, 0.0)},
            "mixture.weights: [1.0, 0.0] are not all above 0; leave out a chain that should never be drawn",
        ),
        ({"chains": (SPANS, TAIL), "weights": (1.0, float("nan"))}, "mixture.weights: [1.0, nan] are not all"),
        ({"chains": (SPANS, TAIL), "weights": (1.0, float("inf"))}, "mixture.weights: [1.0, inf] are not all"),
    ],
)
def test_what_cannot_be_mixed_is_refused(fields, says):
    with pytest.raises(InputError) as raised:
        Mixture(**fields)
    assert str(raised.value).startswith(says)


def test_it_is_parsed_from_lists_of_steps():
    steps = {"kind": "mixture", "chains": [[{"kind": "span_sentinel", "mode": "[R]"}], [{"kind": "prefix_split"}]]}
    (made,) = Chain.parse([{**steps, "weights": [1, 2.5]}]).steps
    assert made == Mixture((SPANS, Chain((PrefixSplit(),))), (1.0, 2.5))
    with pytest.raises(InputError, match=r"mixture\.chains\[1\]\[0\].*unknown kind 'prefix_splt'; did you mean"):
        Chain.parse([{"kind": "mixture", "chains": [[], [{"kind": "prefix_splt"}]]}])
    with pytest.raises(InputError, match=r"chains\[0\]: .* is not of type list of steps"):
        Chain.parse([{"kind": "mixture", "chains": [{"kind": "prefix_split"}]}])


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "mixture.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.mixture() == kept
