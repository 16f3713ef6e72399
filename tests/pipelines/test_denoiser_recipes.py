"""The shipped recipes t5, prefix-lm and ul2: what they draw, and that what they make fits."""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np
import pytest
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Mixture, PrefixSplit, SpanSentinel
from pipelines.recipe import load_recipe
from tests.corruption.rows import MODES, RICH, batch, lists

LENGTH = 510
SENTINELS = np.array(RICH.sentinels)
DENOISERS = [
    SpanSentinel(0.15, 3.0, mode="[R]"),
    SpanSentinel(0.15, 8.0, mode="[R]"),
    PrefixSplit(0.25, mode="[S]"),
    SpanSentinel(0.5, 3.0, mode="[X]"),
    SpanSentinel(0.5, 8.0, mode="[X]"),
    SpanSentinel(0.15, 64.0, mode="[X]"),
    SpanSentinel(0.5, 64.0, mode="[X]"),
]


def passages(n, length=LENGTH):
    return batch([np.arange(length) % 55 + 5] * n)


def spans_of(step):
    return 0 if isinstance(step, PrefixSplit) else step.most_spans(LENGTH)


def test_C12_ul2_is_the_seven_denoisers_of_the_paper():
    (mixture,) = load_recipe("ul2").chain().steps
    assert mixture == Mixture(tuple(Chain((step,)) for step in DENOISERS))


def test_C12_ul2_draws_the_seven_equally_often_and_each_with_its_mode():
    out = load_recipe("ul2").chain().apply(passages(7000), seed=3, epoch=0, vocabulary=RICH)
    assert out.usable.all()
    seen = Counter()
    for tokens, targets in zip(lists(out.tokens), lists(out.columns["targets"])):
        there = int(np.isin(tokens, SENTINELS).sum())
        assert there == np.isin(targets, SENTINELS).sum()
        # The number of sentinels tells the denoisers of one mode apart, so mode and denoiser belong together.
        (step,) = (
            step
            for step in DENOISERS
            if tokens[0] == MODES[step.mode] and there in {spans_of(step), max(spans_of(step) - 1, 0)}
        )
        seen[step] += 1
    assert stats.chisquare([seen[step] for step in DENOISERS]).pvalue > 1e-3


def span_lengths(step, n):
    """The spans of each row of a chain of this step alone; those that meet at the ends are one."""
    out = Chain((step,)).apply(passages(n), seed=1, epoch=0, vocabulary=RICH)
    for targets in lists(out.columns["targets"]):
        places = np.flatnonzero(np.isin(targets, SENTINELS))
        lengths = np.diff([*places, len(targets)]) - 1
        if len(lengths) == step.most_spans(LENGTH):
            lengths = np.append(lengths[1:-1], lengths[0] + lengths[-1])
        yield lengths


@pytest.mark.parametrize("step", [s for s in DENOISERS if isinstance(s, SpanSentinel)], ids=str)
def test_B25_the_mean_is_a_mean_and_not_the_shortest_span(step):
    n = 4000
    rows = np.array(list(span_lengths(step, n)))
    hidden, spans = round(step.rate * LENGTH), step.most_spans(LENGTH) - 1
    assert (rows.sum(axis=1) == hidden).all() and rows.shape == (n, spans)
    if spans == 1:
        return
    longest = hidden - spans + 1
    assert rows.min() == 1 and rows.max() <= longest
    law = np.array([comb(hidden - k - 1, spans - 2) / comb(hidden - 1, spans - 1) for k in range(1, longest + 1)])
    assert np.dot(law, np.arange(1, longest + 1)) == pytest.approx(hidden / spans)
    for part in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = int(np.searchsorted(np.cumsum(law), part)) + 1
        share = (rows <= at).mean(axis=1)
        error = max(share.std() / np.sqrt(n), 1e-9)
        assert abs(share.mean() - law[:at].sum()) < 4.5 * error


@pytest.mark.parametrize("name", ["t5", "prefix-lm", "ul2"])
def test_C12_nothing_made_is_longer_than_asked(name):
    recipe = load_recipe(name)
    chain, frame, most = recipe.chain(), recipe.frame(), recipe.content_tokens()
    lengths = frame.lengths(chain.bounds(most))
    assert most >= 510 and max(lengths.values()) <= recipe.corpus.max_tokens == 512
    framed = frame.apply(chain.apply(passages(1500, most), seed=0, epoch=0, vocabulary=RICH), RICH)
    longest = {"input": framed["input_ids"].lengths.max(), "decoder": framed["labels"].lengths.max()}
    assert all(0.95 * lengths[name] <= longest[name] <= lengths[name] for name in lengths)


def test_the_sentinels_and_modes_asked_of_the_tokenizer_are_enough():
    for name in ("t5", "ul2"):
        recipe = load_recipe(name)
        recipe.chain().check(recipe.tokenizer.train.promised(), recipe.content_tokens())
    with pytest.raises(InputError, match=r"it has 80 sentinels .* a row of 510 tokens can need 86"):
        load_recipe("ul2", ["tokenizer.train.sentinels=80"])
    with pytest.raises(InputError, match=r"it has no token '\[S\]'"):
        load_recipe("ul2", ["tokenizer.train.modes=['[R]', '[X]']"])


def test_they_only_make_data():
    for name in ("t5", "prefix-lm", "ul2"):
        with pytest.raises(InputError, match=rf"recipe {name}: model: .* nothing can be trained"):
            load_recipe(name).for_training()


def test_what_is_inside_a_mixture_enters_the_identity():
    recipe = load_recipe("ul2")
    chains = recipe.plain()["corruption"][0]["chains"]
    assert chains[2] == [{"kind": "prefix_split", "rate": 0.25, "mode": "[S]", "name": "prefix_split"}]
    assert Chain.parse(recipe.plain()["corruption"]) == recipe.chain()
    assert recipe.flat()["corruption.mixture.chains.6.span_sentinel.mean_length"] == 64.0
