"""Text infilling: the overlapping placement, cases that people have reported elsewhere, and the golden bytes."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.lengths import Geometric, Poisson, Shares
from corruption.noise_kinds import Infill, Rotate, ShuffleSentences
from corruption.registry import parse_step
from corruption.vocabulary import Vocabulary
from tests.corruption import golden_values
from tests.corruption.noise_kinds.moving import moved, origins, with_sentences
from tests.corruption.rows import MASK, VOCABULARY, batch, digest, lists


def passage(n, rows):
    return batch([[5 + i % 50 for i in range(n)]] * rows)


def overlapping(n, rate, mean, rows, seed=0):
    """The origin of each row, and how many of its masks are insertions: told in sets of positions."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(rows):
        wanted = int(np.ceil(rate * n))
        drawn = random.poisson(mean, 20 + 4 * n)
        drawn = drawn[: np.searchsorted(drawn.cumsum(), wanted) + 1]
        drawn[-1] -= drawn.sum() - wanted
        spans = drawn[drawn > 0]
        starts = random.choice(n, len(spans), replace=False)
        behind = {p for s, length in zip(starts, spans) for p in range(s + 1, min(n, s + length))}
        left = [-1 if p in starts else p for p in range(n) if p not in behind]
        zeros = min(len(drawn) - len(spans), n - len(left))
        inserted = set(random.choice(len(left) + zeros, zeros, replace=False).tolist())
        rest = iter(left)
        made.append((tuple(-1 if p in inserted else next(rest) for p in range(len(left) + zeros)), zeros))
    return made


def counts(found):
    """Of each row the tokens kept and the tokens invented."""
    return np.array([(sum(i >= 0 for i in origin), origin.count(-1)) for origin in found]).T


def test_B6_overlapping_spans_cover_less_than_the_rate_and_disjoint_ones_all_of_it():
    kept, _ = counts(origins(Infill(placement="overlapping"), passage(510, 2000), seed=5))
    assert abs((1 - kept / 510).mean() - 0.267) < 0.005
    kept, _ = counts(origins(Infill(), passage(510, 50)))
    assert set(kept.tolist()) == {510 - 153}


def test_B6_about_forty_masks_survive_beside_two_or_three_insertions():
    kept, invented = counts(origins(Infill(placement="overlapping"), passage(510, 2000), seed=6))
    expected = overlapping(510, 0.3, 3.0, 1000)
    insertions = np.array([zeros for _, zeros in expected])
    expected_kept, expected_invented = counts([origin for origin, _ in expected])
    assert abs((expected_invented - insertions).mean() - 40) < 1 and abs(insertions.mean() - 2.6) < 0.2
    assert abs(invented.mean() - 42.6) < 1 and abs((kept + invented).mean() - 416) < 2
    assert stats.ks_2samp(kept, expected_kept).pvalue > 1e-4
    assert stats.ks_2samp(invented, expected_invented).pvalue > 1e-4


def test_B6_every_overlapping_outcome_comes_as_often_as_sets_of_positions_say():
    """Six tokens, three to cover: which stand where, swallowed spans and insertions included."""
    step = Infill(0.5, Poisson(1.5), placement="overlapping")
    found = Counter(origins(step, passage(6, 40_000), seed=7))
    expected = Counter(origin for origin, _ in overlapping(6, 0.5, 1.5, 40_000))
    used = [origin for origin, often in expected.items() if often > 100]
    assert len(used) > 60
    table = [[*(c[origin] for origin in used), sum(c.values()) - sum(c[o] for o in used)] for c in (found, expected)]
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_B6_insertions_stand_wherever_sets_of_positions_say():
    """Many insertions a row: how often each place of the new row holds an invented token."""
    found = origins(Infill(0.5, Poisson(1.2), placement="overlapping"), passage(40, 8000), seed=8)
    expected = [origin for origin, _ in overlapping(40, 0.5, 1.2, 8000)]
    shares = np.array([np.mean([[i < 0 for i in o[:9] + o[-9:]] for o in rows], axis=0) for rows in (found, expected)])
    assert (np.abs(shares[0] - shares[1]) < 5 * np.sqrt(2 * 0.25 / 8000)).all()


def test_overlapping_spans_start_at_different_tokens_each_set_equally_likely():
    """Two starts of five, spans of one token: ten ways."""
    step = Infill(0.4, Shares((1.0,)), placement="overlapping")
    counts = Counter(origins(step, passage(5, 20_000)))
    assert len(counts) == 10 and stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_overlapping_rounds_up_what_floats_have_not_spoilt():
    """0.55 * 100 is 55.00000000000001 in floats, and that is 55."""
    for rate, n, wanted in ((0.55, 100, 55), (0.3, 510, 153), (0.3, 11, 4), (0.001, 10, 1)):
        for origin in origins(Infill(rate, Shares((1.0,)), placement="overlapping"), passage(n, 20)):
            assert n - sum(i >= 0 for i in origin) == wanted


def test_overlapping_insertions_are_random_by_their_number_rounded_up():
    """Of any insertions one at least is a random token, however small the share; masks of spans follow the share."""
    law = Poisson(1.5)
    rows = passage(10, 20_000)
    plain = moved(Infill(0.5, law, placement="overlapping"), rows)
    found = moved(Infill(0.5, law, placement="overlapping", random_share=1e-6), rows)
    assert [origin for _, _, origin in found] == [origin for _, _, origin in plain]
    random = [sum(t != MASK for t, i in zip(tokens, origin) if i < 0) for _, tokens, origin in found]
    assert set(random) == {0, 1}
    with_insertions = sum(zeros > 0 for _, zeros in overlapping(10, 0.5, 1.5, 20_000))
    table = [[sum(random), 20_000 - sum(random)], [with_insertions, 20_000 - with_insertions]]
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_B2_the_noise_is_the_keys_own_whatever_any_global_generator_does():
    rows = passage(100, 20)
    backwards = batch(lists(rows.tokens), keys=list(range(20, 0, -1)))
    for placement in ("disjoint", "overlapping"):
        chain = Chain((Infill(placement=placement, random_share=0.2),))

        def run(batch_of, chain=chain):
            return chain.apply(batch_of, seed=1, epoch=4, vocabulary=VOCABULARY)

        np.random.seed(1)
        first = run(rows)
        np.random.seed(2)
        state = np.random.get_state()[1].copy()
        assert digest(run(rows)) == digest(first)
        assert np.array_equal(np.random.get_state()[1], state)
        assert lists(run(backwards).tokens) == lists(first.tokens)[::-1]


def test_A_09_every_combination_works_or_is_refused_naming_both_options():
    laws = [{"kind": "poisson"}, {"kind": "geometric"}, {"kind": "ngram"}, {"kind": "shares", "shares": [1, 2]}]
    rows = with_sentences(passage(40, 3), [[1] + [0] * 19 + [1] + [0] * 19] * 3)
    grid = product(("disjoint", "overlapping"), ("exact", "stochastic"), (0.0, 1.0), ("token", "word"), laws, (0, 1))
    for placement, count, random_share, unit_of, law, rotate in grid:
        fields = {
            "kind": "infill", "placement": placement, "count": count, "random_share": random_share, "unit": unit_of,
            "lengths": law,
        }  # fmt: skip
        if placement == "overlapping" and count == "stochastic":
            with pytest.raises(InputError, match=r"infill\.placement \+ infill\.count: 'overlapping'"):
                parse_step(fields)
            continue
        steps = (ShuffleSentences(), parse_step(fields), *((Rotate(),) if rotate else ()))
        out = Chain(steps).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
        assert all(0 < n <= 40 for n in out.tokens.lengths)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rate": -0.1}, "infill.rate: -0.1 is outside 0 to 1; give a share between 0 and 1"),
        ({"rate": 30.0}, "infill.rate: 30.0 is outside 0 to 1; give a share between 0 and 1"),
        ({"rate": float("nan")}, "infill.rate: nan is outside 0 to 1; give a share between 0 and 1"),
        ({"random_share": 1.5}, "infill.random_share: 1.5 is outside 0 to 1; give a share between 0 and 1"),
        ({"random_share": -1.0}, "infill.random_share: -1.0 is outside 0 to 1; give a share between 0 and 1"),
        (
            {"placement": "overlapping", "count": "stochastic"},
            "infill.placement + infill.count: 'overlapping' rounds the count up, so 'stochastic' does nothing; "
            "use count: exact, or placement: disjoint",
        ),
    ],
)
def test_A_09_bad_options_are_refused(fields, says):
    with pytest.raises(InputError) as raised:
        Infill(**fields)
    assert str(raised.value) == says


def test_A_09_options_of_a_recipe_are_refused_by_name():
    for fields, says in (
        ({"lengths": {"kind": "poison"}}, "infill.lengths: unknown kind 'poison'; did you mean 'poisson'?"),
        ({"lengths": 3.0}, "infill.lengths: 3.0 is not what it takes"),
        ({"placement": "overlap"}, "infill.placement: unknown value 'overlap'; did you mean 'overlapping'?"),
        ({"count": "bernoulli"}, "infill.count: unknown value 'bernoulli'"),
        ({"ratio": 0.3}, "infill.ratio: unknown field; did you mean 'rate'?"),
    ):
        with pytest.raises(InputError) as raised:
            parse_step({"kind": "infill", **fields})
        assert says in str(raised.value)


def test_A_19_a_missing_mask_token_is_named_with_what_needs_it():
    without = Vocabulary.from_ids(50, ids={"eos": 0}, special={0}, name="gpt2")
    with pytest.raises(InputError) as raised:
        Infill(random_share=0.9).check(without)
    said = str(raised.value)
    assert "gpt2" in said and "mask_token" in said and "'infill'" in said and "\n" not in said
    step = Infill(random_share=1.0)
    step.check(without)
    assert all(0 not in found for _, found, _ in moved(step, passage(30, 5), vocabulary=without))


def test_what_it_asks_for():
    assert parse_step({"kind": "infill", "lengths": {"kind": "poisson", "mean": 3.0}}) == Infill()
    assert Infill(lengths=Geometric(0.5)).needs() == ("tokens",)
    assert Infill(unit="word").needs() == ("tokens", "word_start")
    assert Infill().bounds(17) == {"tokens": 17} and Infill().bounds(0) == {"tokens": 1}


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "infill.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.infill() == kept
