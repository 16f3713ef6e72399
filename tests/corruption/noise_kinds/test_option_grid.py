"""A-09 for the corruptions that choose tokens: every combination of options works, or is refused by their names."""

from __future__ import annotations

from itertools import product

import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.registry import parse_step
from tests.corruption.rows import MASK, UNK, VOCABULARY, batch

COUNTS = ("exact", "bernoulli", "stochastic")
RATES = (0.0, 0.15, 1.0)
LAWS = (
    None,
    {"kind": "ngram"},
    {"kind": "ngram", "longest": 1000},
    {"kind": "geometric", "p": 1.0},
    {"kind": "shares", "shares": [0, 1]},
)
ROWS = batch(
    [[], [7], [UNK], [MASK] * 3, [7, 8, UNK, 9, 10, 11], [5 + i % 50 for i in range(70)]],
    [[], [0], [1], [1, 0, 1], [0, 1, 0, 1, 0, 1], [int(i % 3 == 0) for i in range(70)]],
)


def made(fields):
    """The step, or None when it was refused before any row was seen. The message is one line."""
    try:
        return parse_step(fields), ""
    except InputError as error:
        assert "\n" not in str(error)
        return None, str(error)


def works(step):
    """It runs over rows of every sort and keeps them, within its bounds."""
    chain = Chain((step,))
    chain.check(VOCABULARY, 70)
    out = chain.apply(ROWS, seed=1, epoch=0, vocabulary=VOCABULARY)
    assert len(out) == len(ROWS)
    for n, length in zip(out.tokens.lengths, ROWS.tokens.lengths):
        assert n <= step.bounds(int(length))["tokens"]


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_A_09_mask(unit):
    decides = (None, "span", "word", "token")
    shares = ((0.8, 0.1), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.9, 0.2))
    for count, rate, decide, law, (mask_share, random_share) in product(COUNTS, RATES, decides, LAWS, shares):
        fields = {"unit": unit, "count": count, "rate": rate, "decide": decide, "lengths": law}
        step, said = made({"kind": "mask", **fields, "mask_share": mask_share, "random_share": random_share})
        if mask_share + random_share > 1:
            names = ("mask_share", "random_share")
        elif law is not None and unit != "span":
            names = ("lengths", "unit")
        elif decide is not None and (unit == "token" or (unit == "word" and decide == "span")):
            names = ("decide", "unit")
        else:
            assert step is not None, said
            works(step)
            continue
        assert step is None and all(name in said for name in names), said


@pytest.mark.parametrize("kind", ["delete", "replace_random"])
def test_A_09_delete_and_replace(kind):
    for unit, count, rate in product(("token", "word"), COUNTS, RATES):
        step, said = made({"kind": kind, "unit": unit, "count": count, "rate": rate})
        assert step is not None, said
        works(step)
    step, said = made({"kind": kind, "unit": "span"})
    assert step is None and f"{kind}.unit" in said and "token, word" in said


def test_A_09_insert():
    for mask_share, count, rate in product((0.0, 0.5, 1.0), COUNTS, RATES):
        step, said = made({"kind": "insert_random", "mask_share": mask_share, "count": count, "rate": rate})
        assert step is not None, said
        works(step)
