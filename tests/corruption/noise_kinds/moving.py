"""What the tests of corruptions that move tokens share: a run over rows, sentences, and aligned columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from corruption.chain import Chain
from corruption.ragged import Batch
from corruption.schema import IGNORE
from tests.corruption.rows import VOCABULARY, lists


def moved(step, rows: Batch, seed=0, epoch=0, vocabulary=VOCABULARY) -> list[tuple[list[int], list[int], list[int]]]:
    """[(tokens, input, origin)] of each row."""
    out = Chain((step,)).apply(rows, seed=seed, epoch=epoch, vocabulary=vocabulary)
    return list(zip(lists(rows.tokens), lists(out.tokens), lists(out.origin())))


def origins(step, rows: Batch, seed=0, epoch=0) -> list[tuple[int, ...]]:
    """The origin of each row."""
    return [tuple(origin) for _, _, origin in moved(step, rows, seed, epoch)]


def with_sentences(rows: Batch, starts: list[list[int]]) -> Batch:
    """The rows with these sentence starts."""
    flat = np.array([flag for row in starts for flag in row], np.int32)
    return rows.put(sentence_start=rows.tokens.with_values(flat))


def sentences(starts: list[int]) -> list[range]:
    """The sentences of a row: what comes before the first start belongs to the first sentence."""
    edges = [i for i, flag in enumerate(starts) if flag]
    edges = [0, *edges[1:], len(starts)] if edges else [0, len(starts)]
    return [range(a, b) for a, b in pairwise(edges) if b > a]


def columns_follow(step, rows: Batch, seed=0) -> None:
    """Every aligned column of a kept token is its own; an invented one is filled. Assertion error if not."""
    marks = np.arange(len(rows.tokens.values), dtype=np.int32)
    rows = rows.put(labels=rows.tokens.with_values(marks), other=rows.tokens.with_values(marks + 1))
    out = Chain((step,)).apply(rows, seed=seed, epoch=0, vocabulary=VOCABULARY)
    assert set(out.columns) == {*rows.columns, "origin"}
    assert all(out.aligned(name) for name in out.columns)
    for name, fill in (("labels", IGNORE), ("other", 0)):
        for old, new, origin in zip(lists(rows.columns[name]), lists(out.columns[name]), lists(out.columns["origin"])):
            assert new == [old[i] if i >= 0 else fill for i in origin]
