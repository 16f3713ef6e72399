"""Rows laid out from pieces: special tokens and stretches of columns, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corruption.errors import InputError
from corruption.ragged import Batch, Int64, Ragged, copy_rows, offsets_of
from corruption.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of each row of some ragged columns: int64[rows] where it starts in the flat values, and how long
    it is."""

    starts: Int64
    lengths: Int64

    @staticmethod
    def whole(column: Ragged) -> Stretch:
        """All of every row."""
        return Stretch(column.offsets[:-1], column.lengths)

    def cut(self, first: npt.NDArray[np.integer]) -> tuple[Stretch, Stretch]:
        """Two stretches: the first so many tokens of each row, and the rest."""
        lengths = first.astype(np.int64)
        return Stretch(self.starts, lengths), Stretch(self.starts + lengths, self.lengths - lengths)


@dataclass(frozen=True, eq=False)
class Mark:
    """A special token in each row: in all of them, or in those where `present` is 1."""

    present: Int64 | None = None


@dataclass(frozen=True, eq=False)
class Layout:
    """Pieces in order, and where each comes to stand: `places` int64[rows] for each, under `offsets`."""

    pieces: tuple[Stretch | Mark, ...]
    places: tuple[Int64, ...]
    offsets: Int64

    @staticmethod
    def of(pieces: Sequence[Stretch | Mark], rows: int) -> Layout:
        """Lay the pieces out, for so many rows."""
        ones = np.ones(rows, np.int64)
        lengths = [
            piece.lengths if isinstance(piece, Stretch) else ones if piece.present is None else piece.present
            for piece in pieces
        ]
        offsets = offsets_of(np.sum(lengths, axis=0, dtype=np.int64) if rows else np.zeros(0, np.int64))
        places, at = [], offsets[:-1]
        for length in lengths:
            places.append(at)
            at = at + length
        offsets.flags.writeable = False
        return Layout(tuple(pieces), tuple(places), offsets)

    def fill(self, parts: Sequence[Any]) -> Ragged:
        """A column: for each stretch the flat values it is cut from, for each mark its number."""
        out = np.empty(self.offsets[-1], np.int32)
        for piece, places, part in zip(self.pieces, self.places, parts, strict=True):
            if isinstance(piece, Stretch):
                copy_rows(part, piece.starts, piece.lengths, places, out)
            else:
                out[places if piece.present is None else places[piece.present == 1]] = part
        out.flags.writeable = False
        return Ragged(out, self.offsets)


def edge(vocabulary: Vocabulary, role: str, instead: str, why: str) -> int:
    """The id of a special token, or of the one that takes its part in other models, or InputError."""
    found = getattr(vocabulary, role)
    if found is None:
        found = getattr(vocabulary, instead)
    return int(found) if found is not None else vocabulary.need(role, why)


def column(batch: Batch, name: str) -> Ragged:
    """A column of the batch, `origin` included. Raises InputError when nothing provides it."""
    if name == "origin":
        return batch.origin()
    if name not in batch.columns:
        raise InputError("objective", f"no corruption provides the column {name!r}", "add one to the chain")
    return batch.columns[name]
