"""Corrupted passages as texts, for a JSONL data set: what was done to them can be read, and trained on by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from corruption.frames import Frame
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS
from corruption.vocabulary import Vocabulary
from pipelines.data_set import TEXTS

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Texts:
    """How texts are made: by a tokenizer (the JSON of its backend), in these columns.

    corrupted: the input, special tokens of the noise among it. original: the passage. target: what a decoder must
    write, where that is not the original. positive: the other view. Then columns of one number a row. Nothing stands
    around a text that framing would put there, but [SEP] between two segments.
    """

    tokenizer_json: str
    columns: tuple[str, ...]

    @staticmethod
    def columns_of(frame: Frame, provides: frozenset[str]) -> tuple[str, ...]:
        """The columns that suit a chain and a frame."""
        more = [name for name, column in (("target", "targets"), ("positive", "positive")) if column in provides]
        return (*TEXTS, *more, *(name for name in frame.columns if COLUMNS[name].per == "row"))

    def of(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, list[Any]]:
        """Each column's values, one a row."""
        found: dict[str, list[Any]] = {}
        for name in self.columns:
            if name in COLUMNS and COLUMNS[name].per == "row":
                found[name] = batch.columns[name].values.tolist()
            else:
                found[name] = self._decoded(_ids(name, batch, vocabulary))
        return found

    def _decoded(self, rows: Sequence[list[int]]) -> list[str]:
        texts: list[str] = _tokenizer(self.tokenizer_json).decode_batch(rows, skip_special_tokens=False)
        return texts


def _ids(name: str, batch: Batch, vocabulary: Vocabulary) -> list[list[int]]:
    if name == "corrupted" and "segment" in batch.columns:
        return _segments(batch, vocabulary)
    column = {
        "corrupted": batch.tokens,
        "original": batch.original,
        "target": batch.columns.get("targets"),
        "positive": batch.columns.get("positive"),
    }[name]
    assert column is not None
    return _rows(column)


def _rows(column: Ragged) -> list[list[int]]:
    return [column.row(i).tolist() for i in range(len(column))]


def _segments(batch: Batch, vocabulary: Vocabulary) -> list[list[int]]:
    """The two segments with the separator between them, where there is a second one."""
    separator = vocabulary.sep if vocabulary.sep is not None else vocabulary.eos
    found = []
    for ids, segment in zip(_rows(batch.tokens), _rows(batch.columns["segment"])):
        first = int(np.searchsorted(segment, 1))
        between = [separator] if separator is not None and 0 < first < len(ids) else []
        found.append(ids[:first] + between + ids[first:])
    return found


@lru_cache(maxsize=2)
def _tokenizer(text: str) -> Tokenizer:
    """Parsed once a process."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(text)
