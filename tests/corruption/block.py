"""One block of passages under every registered corruption: `python -m tests.corruption.block` prints the
digests.

The tests run it in other processes, compiled and as plain Python (NUMBA_DISABLE_JIT=1), and compare.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from corruption.chain import Chain, Corruption
from corruption.ragged import Batch
from corruption.registry import kinds, parse_step
from tests.corruption.rows import RICH, digest, paired, passages, random_rows

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "mask": [
        {"unit": unit, "count": count, "decide": decide, "rate": rate}
        for unit, decide in (("token", None), ("word", "word"), ("word", "token"))
        for count in ("exact", "bernoulli", "stochastic")
        for rate in (0.15, 0.5)
    ]
    + [
        {"unit": "span", "count": count, "decide": decide, "rate": rate, "lengths": lengths}
        for decide, lengths in (
            ("span", None),
            ("word", {"kind": "ngram"}),
            ("token", {"kind": "shares", "shares": [0, 0, 1]}),
        )
        for count in ("exact", "bernoulli", "stochastic")
        for rate in (0.15, 0.8)
    ],
    "delete": [
        {"unit": unit, "count": count, "rate": rate}
        for unit in ("token", "word")
        for count in ("exact", "bernoulli", "stochastic")
        for rate in (0.15, 0.9)
    ],
    "replace_random": [
        {"unit": unit, "count": count, "rate": rate}
        for unit in ("token", "word")
        for count in ("exact", "bernoulli", "stochastic")
        for rate in (0.15, 0.9)
    ],
    "insert_random": [
        {"mask_share": mask_share, "count": count, "rate": rate}
        for mask_share in (0.0, 0.4)
        for count in ("exact", "bernoulli", "stochastic")
        for rate in (0.1, 1.0)
    ],
    "span_sentinel": [
        {"rate": rate, "mean_length": mean_length, "placement": placement, "mode": mode}
        for rate, mean_length, placement, mode in (
            (0.15, 3.0, "uniform", None),
            (0.15, 1.0, "anchored", None),
            (0.5, 1.0, "uniform", "[X]"),
            (0.5, 2.5, "anchored", "[X]"),
            (0.5, 64.0, "uniform", None),
        )
    ],
    "prefix_split": [{"rate": rate, "mode": mode} for rate, mode in ((0.5, None), (0.25, "[S]"), (0.8, None))],
    "mixture": [
        {
            "chains": [
                [{"kind": "span_sentinel", "mode": "[R]"}],
                [{"kind": "span_sentinel", "rate": 0.5, "mean_length": 8.0, "mode": "[X]"}],
                [{"kind": "prefix_split", "rate": 0.25}],
            ],
            "weights": weights,
        }
        for weights in (None, [1.0, 2.0, 0.5])
    ]
    + [{"chains": [[{"kind": "mask"}], [{"kind": "mask", "rate": 0.5, "unit": "word"}]]}],
    "sentence_pair": [{"task": "nsp"}, {"task": "nsp", "cut": "foreign"}, {"task": "sop"}],
    "permutation_order": [{}, {"rate": 1.0}, {"rate": 0.3, "longest": 1}, {"rate": 0.05, "longest": 9}],
    "attention_pattern": [{}, {"shares": [1, 0, 0, 1]}, {"shares": [0, 2, 1, 0]}],
    "views": [
        {},
        {"first": [{"kind": "crop"}], "second": [{"kind": "crop"}]},
        {"second": [{"kind": "mask"}, {"kind": "crop", "rate": 0.4}]},
        {"first": [{"kind": "mask", "rate": 0.5, "unit": "word"}, {"kind": "crop", "name": "short", "rate": 1.0}]},
    ],
    "crop": [{}, {"rate": 0.5}, {"rate": 1.0}],
    "infill": [
        {},
        {"rate": 0.5, "lengths": {"kind": "poisson", "mean": 0.3}, "random_share": 0.3},
        {"unit": "word", "count": "stochastic", "lengths": {"kind": "geometric", "p": 0.5, "longest": 4}},
        {"rate": 0.9, "lengths": {"kind": "shares", "shares": [1, 1]}},
        {"placement": "overlapping"},
        {"placement": "overlapping", "unit": "word", "random_share": 0.5, "rate": 0.6, "lengths": {"kind": "poisson"}},
    ],
    "shuffle_sentences": [{}, {"share": 0.5}],
    "rotate": [{}],
    "shuffle_tokens": [
        {},
        {"unit": "word"},
        {"scope": "local"},
        {"scope": "local", "unit": "word", "window": 2.5},
        {"scope": "local", "window": 20.0},
    ],
}
"""Configurations worth trying of each kind, as a recipe has them; a kind that is not listed is tried as it comes."""

NOISELESS: frozenset[str] = frozenset({"views"})
"""Cases that draw nothing."""


def cases() -> dict[str, Corruption]:
    """Every kind in every variant, by a readable name."""
    return {
        kind if not fields else f"{kind}-{'-'.join(map(_short, fields.values()))}": parse_step({"kind": kind, **fields})
        for kind in kinds()
        for fields in VARIANTS.get(kind, [{}])
    }


def _short(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    return "".join(c for c in text if c not in ' "{}[]')


def block(chain: Chain) -> Batch:
    """300 passages: short ones, some beyond 255 tokens, an empty one, one of a single token, one of specials
    only.
    """
    rows, starts = random_rows(290, 30, seed=8)
    long, long_starts = random_rows(7, 700, seed=9)
    rows += [*long, *(np.array(row, np.int32) for row in ([], [7], [2, 3, 4]))]
    starts += [*long_starts, *(np.array(row, np.int32) for row in ([], [1], [1, 1, 1]))]
    keys = [(i * 0x9E3779B97F4A7C15) % 2**64 for i in range(len(rows))]
    return Batch.from_arrow(paired(passages(rows, starts, keys)), chain.columns())


def corrupted(step: Corruption, **change: Any) -> Batch:
    """The block under one step; `change` replaces seed or epoch."""
    chain = Chain((step,))
    return chain.apply(block(chain), **{"seed": 3, "epoch": 1, "vocabulary": RICH, **change})


def digests() -> dict[str, str]:
    """One digest for each case."""
    # Plain Python warns of the wrap-around that unsigned arithmetic is meant to have.
    with np.errstate(over="ignore"):
        return {name: digest(corrupted(step)) for name, step in cases().items()}


if __name__ == "__main__":
    json.dump(digests(), sys.stdout)
