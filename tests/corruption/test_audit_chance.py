"""The tests of chance that the audit rests on: exact where they say so, and never readier to alarm than they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.audit.chance import LEVEL, Total, Trial, at_least, at_most, interval, summed

COUNTS = st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(COUNTS, st.floats(1e-6, 1 - 1e-6))
def test_binomial_tails_are_those_of_scipy(counts: tuple[int, int], chance: float) -> None:
    of, hits = counts
    assert at_least(hits, of, chance) == pytest.approx(stats.binom.sf(hits - 1, of, chance), rel=1e-6, abs=1e-250)
    assert at_most(hits, of, chance) == pytest.approx(stats.binom.cdf(hits, of, chance), rel=1e-6, abs=1e-250)


@pytest.mark.parametrize("hits", [148_000_000, 150_100_000, 152_000_000])
def test_tails_of_a_billion_tries(hits: int) -> None:
    of, chance = 10**9, 0.15
    exact = (stats.binom.sf(hits - 1, of, chance), stats.binom.cdf(hits, of, chance))
    assert (at_least(hits, of, chance), at_most(hits, of, chance)) == pytest.approx(exact, rel=1e-4, abs=1e-300)


def test_tails_at_the_ends() -> None:
    assert at_least(0, 5, 0.3) == at_least(3, 5, 1.0) == at_most(5, 5, 0.3) == 1.0
    assert at_least(1, 5, 0.0) == at_least(6, 5, 0.3) == at_most(-1, 5, 0.3) == 0.0


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.sampled_from([LEVEL, 0.01]))
def test_the_interval_is_the_exact_one(counts: tuple[int, int], level: float) -> None:
    of, hits = counts
    wanted = stats.binomtest(hits, of).proportion_ci(1 - level, "exact")
    assert interval(hits, of, level) == pytest.approx((wanted.low, wanted.high), abs=1e-6)


def test_sums_of_unlike_coins_are_no_less_likely_than_said() -> None:
    """Poisson-binomial and hypergeometric counts lie closer to their mean than binomial ones."""
    random = np.random.default_rng(0)
    biases = random.random(200) * 0.6
    counts = (random.random((4000, 200)) < biases).sum(axis=1)
    mean = float(biases.sum())
    chances = np.array([Trial("", "", int(n), 200, mean, mean).chance() for n in counts])
    drawn = random.hypergeometric(15, 85, 20, 4000)
    overlaps = np.array([Trial("", "", int(n), 15, 3.0, 3.0).chance() for n in drawn])
    for level in (0.1, 0.01, 0.001):
        assert (chances <= level).mean() <= level and (overlaps <= level).mean() <= level


@pytest.mark.parametrize("law", ["even", "skewed", "rare"])
def test_totals_of_rows_are_no_less_likely_than_said(law: str) -> None:
    random = np.random.default_rng(1)
    n = 500
    draws = {
        "even": lambda: (random.random(n), 0.5, 1.0),
        "skewed": lambda: (np.minimum(random.exponential(1.0, n), 8.0), 1.0 - np.exp(-8.0), 8.0),
        "rare": lambda: ((random.random(n) < 0.002).astype(float), 0.002, 1.0),
    }[law]
    chances = []
    for _ in range(2000):
        seen, mean, reach = draws()
        chances.append(Total.of("", "", seen, np.full(n, mean), reach).chance())
    for level in (0.1, 0.01):
        assert (np.array(chances) <= level).mean() <= level


def test_totals_that_are_off_are_found() -> None:
    seen = np.random.default_rng(2).random(2000) * 0.8
    assert Total.of("", "", seen, np.full(2000, 0.5), 1.0).chance() < LEVEL
    assert Total.of("", "", np.full(9, 0.5), np.full(9, 0.5), 1.0).chance() == 1.0


def test_bounds_on_what_is_expected() -> None:
    assert Trial("", "", 15, 100, 10.0, 20.0).chance() == 1.0
    assert Trial("", "", 60, 100, 10.0, 20.0).chance() == Trial("", "", 60, 100, 0.0, 20.0).chance() < LEVEL
    assert Trial("", "", 0, 0, 0.0, 0.0).chance() == 1.0


def test_trials_of_one_thing_are_added_up() -> None:
    one, other = Trial("rate", "a", 1, 10, 2.0, 3.0), Trial("rate", "b", 1, 10, 2.0, 3.0)
    total = Total.of("rate", "c", np.array([1.0]), np.array([2.0]), 4.0)
    assert summed([one, other, total, one, total]) == [
        Trial("rate", "a", 2, 20, 4.0, 6.0),
        other,
        Total("rate", "c", 2, 2.0, 4.0, 2.0, 4.0),
    ]


def test_what_is_said_of_a_count() -> None:
    said = str(Trial("rate", "labelled tokens", 1350, 10_000, 1500.0, 1500.0))
    assert said.startswith("labelled tokens: 1,350 of 10,000, a share of 0.1350, asked for 0.1500; ")
    assert said.endswith("such a count comes of a share from 0.1150 to 0.1568")
    assert str(Trial("rate", "x", 0, 0, 0.0, 0.0)) == "x: none"
    assert "over 1 rows, where 2.0 are expected" in str(Total.of("", "x", np.array([1.0]), np.array([2.0]), 1.0))
