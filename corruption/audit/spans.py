"""Laws of spans of words: as many runs of chosen words, of each length, as the asked-for noise leaves."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from corruption.audit.chance import Total
from corruption.audit.finding import Evidence
from corruption.audit.sentinels import SPANS
from corruption.audit.words import Words
from corruption.chain import Noise
from corruption.ragged import Batch, Ragged
from corruption.vocabulary import Vocabulary

_CONTROLS = (0x5EED0, 0x5EED1, 0x5EED2, 0x5EED3)
_LONGEST = 5


class _Labels(Protocol):
    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch: ...


def run_laws(before: Batch, labels: Ragged, vocabulary: Vocabulary, step: _Labels) -> Evidence:
    """The passages are put through the step again under noise of other seeds, and runs of chosen words are counted in
    both, by length: spans may touch each other or be cut, so their lengths cannot be read off the labels one by one.
    """
    seen = _runs(before, labels, vocabulary)
    controls = [
        _runs(before, step.apply(before, Noise(np.uint64(seed)), vocabulary).columns["labels"], vocabulary)
        for seed in _CONTROLS
    ]
    expected = np.mean(controls, axis=0)
    trials = tuple(
        Total.of(
            SPANS,
            f"runs of {n + 1}{' or more' if n + 1 == _LONGEST else ''} chosen words",
            seen[:, n],
            expected[:, n],
            float(seen[:, n].max(initial=1) + expected[:, n].max(initial=1)),
        )
        for n in range(_LONGEST)
    )
    return Evidence(trials=trials, laws=frozenset({SPANS}))


def _runs(before: Batch, labels: Ragged, vocabulary: Vocabulary) -> np.ndarray:
    """int64[rows, _LONGEST]: runs of chosen words of 1, 2, ... words."""
    words = Words.of(before.tokens, labels, before.columns["word_start"], vocabulary)
    taken = words.chosen > 0
    found = np.zeros((len(before), _LONGEST), np.int64)
    if not taken.any():
        return found
    begins = taken & ~np.append(False, taken[:-1] & (words.row[1:] == words.row[:-1]))
    run = np.cumsum(begins)[taken] - 1
    length = np.minimum(np.bincount(run), _LONGEST)
    np.add.at(found, (words.row[begins], length - 1), 1)
    return found
