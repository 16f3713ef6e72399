"""What the tests of masking share: a run over rows, the words of a row, and the count law."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from corruption.chain import Chain
from tests.corruption.rows import SPECIAL, VOCABULARY


def masked(mask, rows, seed=0, epoch=0, vocabulary=VOCABULARY):
    """[(tokens, input, labels)] of each row, as arrays."""
    out = Chain((mask,)).apply(rows, seed=seed, epoch=epoch, vocabulary=vocabulary)
    return [(rows.tokens.row(i), out.tokens.row(i), out.columns["labels"].row(i)) for i in range(len(rows))]


def words(tokens, starts):
    """The rows' words as ranges; position 0 starts one whatever its flag says."""
    edges = [i for i in range(len(tokens)) if i == 0 or starts[i]] + [len(tokens)]
    return [range(a, b) for a, b in pairwise(edges) if b > a]


def ordinary(tokens):
    """bool: the positions that may be chosen."""
    return np.array([t not in SPECIAL for t in tokens], bool)


def budget(n, rate):
    """The count law of "exact"; Python's round is half to even too."""
    return min(n, max(1, round(rate * n))) if n and rate > 0 else 0
