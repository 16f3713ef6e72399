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
    ],
}
"""Configurations worth trying of each kind, as a recipe has them; a kind that is not listed is tried as it comes."""

NOISELESS: frozenset[str] = frozenset()
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
