"""Laws against noise that repeats: two shards, or two epochs of a passage, must not be corrupted in the same places."""

from __future__ import annotations

import numpy as np

from corruption.audit.align import equal
from corruption.audit.chance import LEVEL, Trial
from corruption.audit.finding import Bools, Finding, Place
from corruption.audit.sentinels import counts
from corruption.chain import Chain, Corruption
from corruption.noise_kinds import (
    Crop,
    Delete,
    Infill,
    InsertRandom,
    Mixture,
    PrefixSplit,
    ReplaceRandom,
    Rotate,
    ShuffleTokens,
    SpanSentinel,
)
from corruption.ragged import Int64, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

REPEATED = "noise not repeated"
MOST = 0.5
"""How far rows may agree beyond chance; 1 is full agreement. Whole words and odd choices agree a little by nature."""

_LONG, _WAYS, _FEW = 32, 8, 2


def choices(original: Ragged, labels: Ragged, vocabulary: Vocabulary) -> Ragged:
    """int32, aligned: 2 where a token was chosen, 1 where it could have been, 0 at special tokens."""
    free = vocabulary.fixed[np.clip(original.values, 0, vocabulary.size - 1)] == 0
    chosen = labels.values != IGNORE
    return original.with_values(free.astype(np.int32) + (free & chosen))


def overlap(what: str, one: Ragged, other: Ragged) -> Trial:
    """Rows paired up: how many positions were chosen in both, where both could have been.

    Given how many are chosen in each, their overlap is hypergeometric.
    """
    lengths = np.minimum(one.lengths, other.lengths)
    row = np.repeat(np.arange(len(one)), lengths)
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    a, b = one.values[one.offsets[row] + place], other.values[other.offsets[row] + place]
    both = (a > 0) & (b > 0)

    def per_row(flags: np.ndarray) -> np.ndarray:
        return np.bincount(row, flags & both, len(lengths))

    m, x, y = per_row(both), per_row(a == 2), per_row(b == 2)
    hits, of = int(((a == 2) & (b == 2) & both).sum()), int(np.minimum(x, y).sum())
    return Trial(REPEATED, what, hits, of, 0.0, float((x * y / np.maximum(m, 1)).sum()))


def equal_rows(what: str, one: Ragged, other: Ragged, lively: Bools) -> Trial:
    """Rows of one passage under two noises: how many are the same. Only those that are `lively` count, see there."""
    rows = np.flatnonzero(lively)
    hits = int(equal(one.take(rows), other.take(rows)).sum())
    return Trial(REPEATED, what, hits, len(rows), 0.0, len(rows) / 2)


def lively(chain: Chain, lengths: Int64) -> Bools:
    """bool[rows]: where noise of another epoch gives another row more often than not, by the passages' lengths.

    Some noise is the same twice by nature: a single span that is always the last, two sentences in two orders, a cut
    at the one place there is. Those rows do not count, nor do kinds of which that cannot be told by length.
    """
    found: Bools = np.zeros(len(lengths), np.bool_)
    for step in chain.steps:
        found |= _lively(step, lengths)
    return found & (lengths >= _LONG)


def _lively(step: Corruption, n: Int64) -> Bools:
    found: Bools = np.full(len(n), isinstance(step, Rotate))
    if isinstance(step, Mixture):
        found = np.logical_and.reduce([lively(chain, n) for chain in step.chains])
    elif isinstance(step, SpanSentinel):
        found = counts(n, step)[1] > (1 if step.placement == "anchored" else 0)
    elif isinstance(step, PrefixSplit):
        found = 2.0 * min(step.rate, 1.0 - step.rate) * n >= _WAYS
    elif isinstance(step, Crop):
        found = np.minimum(step.rate, 1.0 - step.rate) * n >= _WAYS
    elif isinstance(step, (Delete, Infill, ReplaceRandom, InsertRandom)):
        found = np.minimum(step.rate, 1.0 - step.rate) * n >= _FEW
    elif isinstance(step, ShuffleTokens):
        found = np.full(len(n), step.window is None or step.window >= _FEW)
    return found


def repeated(trial: Trial, level: float = LEVEL) -> tuple[Finding, ...]:
    """A finding where rows agree far beyond chance."""
    beyond, room = trial.hits - trial.high, trial.of - trial.high
    if room <= 0 or beyond / room <= MOST or trial.chance() >= level:
        return ()
    given = f"{trial.what}: {trial.hits:,} of {trial.of:,} choices are the same, by chance {trial.high:,.0f} would be"
    return (Finding(REPEATED, Place(), given),)
