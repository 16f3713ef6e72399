"""[CLS] A [SEP] B [SEP]: two segments, as BERT reads them; also one alone, where B is empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corruption.frames.layout import Layout, Mark, Stretch, column, edge
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS, PATTERNS
from corruption.vocabulary import Vocabulary

_WHY = "framing two segments"

SEGMENT_IDS = {
    "bidirectional": (0, 1),
    "left_to_right": (2, 2),
    "right_to_left": (3, 3),
    "sequence_to_sequence": (4, 5),
}
"""Types of A and B for each attention pattern: UniLM tells the model by them which task it is given.

Source: the released UniLM code's 0/1, 2 and 4/5; 3 is what is left for right to left.
"""


@dataclass(frozen=True)
class Pair:
    """Two segments, split where the column `segment` turns from 0 to 1; a row without a B has one [SEP].

    `token_type_ids` are 0 up to the first [SEP] and 1 behind it, or those of `SEGMENT_IDS` where the batch
    has attention patterns.
    """

    columns: tuple[str, ...] = (
        "input_ids",
        "token_type_ids",
        "labels",
        "next_sentence_label",
        "attention_pattern",
    )
    extra: ClassVar[int] = 3
    sequences: ClassVar[Mapping[str, str]] = {}
    sources: ClassVar[Mapping[str, str | None]] = {"input_ids": None, "token_type_ids": "segment"}

    def lengths(self, bounds: Mapping[str, int]) -> dict[str, int]:
        """The input with [CLS] and two [SEP]."""
        return {"input": bounds["tokens"] + self.extra}

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks [CLS] and BOS, [SEP] and EOS, or the pad token."""
        edge(vocabulary, "cls", "bos", _WHY)
        edge(vocabulary, "sep", "eos", _WHY)
        vocabulary.need("pad", "padding")

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns, ragged int32 under one offsets array, and those of one number an example."""
        segment = column(batch, "segment")
        first = _zeros(segment)
        a, b = Stretch.whole(batch.tokens).cut(first)
        behind_b = Mark((b.lengths > 0).astype(np.int64))
        layout = Layout.of((Mark(), a, Mark(), b, behind_b), len(batch))
        framed: dict[str, Ragged] = {}
        for name in self.columns:
            if name == "input_ids":
                cls, sep = edge(vocabulary, "cls", "bos", _WHY), edge(vocabulary, "sep", "eos", _WHY)
                framed[name] = layout.fill((cls, batch.tokens.values, sep, batch.tokens.values, sep))
            elif name == "token_type_ids":
                types = layout.fill((0, np.zeros_like(segment.values), 0, np.ones_like(segment.values), 1))
                framed[name] = _patterned(types, batch) if "attention_pattern" in batch.columns else types
            else:
                given = column(batch, name)
                fill = int(COLUMNS[name].pad)
                per_row = COLUMNS[name].per == "row"
                framed[name] = given if per_row else layout.fill((fill, given.values, fill, given.values, fill))
        return framed


def _zeros(segment: Ragged) -> np.ndarray:
    """int64[rows]: how many of a row's flags are 0."""
    ones = np.append(0, np.cumsum(segment.values, dtype=np.int64))
    found: np.ndarray = segment.lengths - (ones[segment.offsets[1:]] - ones[segment.offsets[:-1]])
    return found


def _patterned(types: Ragged, batch: Batch) -> Ragged:
    table = np.array([SEGMENT_IDS[name] for name in PATTERNS], np.int32)
    pattern = np.repeat(batch.columns["attention_pattern"].values, types.lengths)
    return types.with_values(table[pattern, types.values])
