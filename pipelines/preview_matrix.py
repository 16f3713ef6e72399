"""Who sees whom in an example, where a column of it says so: as a small matrix over the framed tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from corruption.frames import Frame
from corruption.ragged import Batch, Ragged
from corruption.schema import PATTERNS
from corruption.visibility import pattern_visibility, permutation_visibility
from corruption.vocabulary import Vocabulary
from pipelines.preview_spelling import BLANK, Spelling

MOST = 64
"""Rows and columns that are looked at; what a token sees depends on no token behind these."""


@dataclass(frozen=True)
class Matrix:
    """Which token (row) sees which (column): bool[n, n], how each is written, and how many the example has in all."""

    name: str
    sees: npt.NDArray[np.bool_]
    tokens: tuple[str, ...]
    total: int

    def crop(self, most: int) -> Matrix:
        """The first tokens of it."""
        return replace(self, sees=self.sees[:most, :most], tokens=self.tokens[:most])


def matrices_of(
    batch: Batch, frame: Frame | None, vocabulary: Vocabulary, spelling: Spelling
) -> dict[int, tuple[Matrix, ...]]:
    """The matrices of each row that can be used, by its place; none where no column is about who sees whom.

    frame: how examples are framed; without one the matrices are of the content alone.
    """
    columns = [name for name in ("permutation_order", "attention_pattern") if name in batch.columns]
    if not columns:
        return {}
    places = np.flatnonzero(batch.usable)
    used = batch.take(places)
    framed: dict[str, Ragged] = {} if frame is None else frame.apply(used, vocabulary)
    tokens = framed.get("input_ids", used.tokens)
    order = framed.get("permutation_order", used.columns.get("permutation_order"))
    found = {}
    for row, place in enumerate(places.tolist()):
        ids = tokens.row(row)
        names = tuple(spelling.text([token]) or BLANK for token in ids[:MOST].tolist())
        made: list[Matrix] = []
        if order is not None:
            streams = permutation_visibility(order.row(row)[:MOST])
            made += (Matrix(name, sees, names, len(ids)) for name, sees in zip(STREAMS, streams))
        if "attention_pattern" in columns:
            pattern = PATTERNS[int(used.columns["attention_pattern"].row(row)[0])]
            sees = pattern_visibility(pattern, _second(used, row, ids, vocabulary, bool(framed))[:MOST])
            made.append(Matrix(f"attention {pattern.replace('_', ' ')}", sees, names, len(ids)))
        found[place] = tuple(made)
    return found


STREAMS = ("content stream", "query stream")


def _second(
    batch: Batch, row: int, ids: npt.NDArray[np.int32], vocabulary: Vocabulary, framed: bool
) -> npt.NDArray[np.bool_]:
    """bool[tokens]: which of them are of the second segment."""
    segment = batch.columns["segment"].row(row) if "segment" in batch.columns else np.zeros(len(ids), np.int32)
    if not framed:
        return np.asarray(segment == 1)
    ends = np.flatnonzero(ids == (vocabulary.eos if vocabulary.sep is None else vocabulary.sep))
    return np.arange(len(ids)) > (int(ends[0]) if len(ends) else len(ids))
