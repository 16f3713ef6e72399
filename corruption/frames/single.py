"""[CLS] tokens [SEP]: one segment, as BERT, RoBERTa and ModernBERT read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from corruption.frames.layout import Layout, Mark, Stretch, column, edge
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS
from corruption.vocabulary import Vocabulary

_WHY = "framing one segment"


@dataclass(frozen=True)
class Single:
    """One segment. Any aligned column can be asked for; at [CLS] and [SEP] it has its padding."""

    columns: tuple[str, ...] = ("input_ids", "labels")
    extra: ClassVar[int] = 2
    sequences: ClassVar[Mapping[str, str]] = {}
    sources: ClassVar[Mapping[str, str | None]] = {"input_ids": None}

    def lengths(self, bounds: Mapping[str, int]) -> dict[str, int]:
        """The input with [CLS] and [SEP]."""
        return {"input": bounds["tokens"] + self.extra}

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks [CLS] and BOS, [SEP] and EOS, or the pad token."""
        edge(vocabulary, "cls", "bos", _WHY)
        edge(vocabulary, "sep", "eos", _WHY)
        vocabulary.need("pad", "padding")

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns, ragged int32 under one offsets array."""
        layout = Layout.of((Mark(), Stretch.whole(batch.tokens), Mark()), len(batch))
        framed: dict[str, Ragged] = {}
        for name in self.columns:
            if name == "input_ids":
                first, last = edge(vocabulary, "cls", "bos", _WHY), edge(vocabulary, "sep", "eos", _WHY)
                framed[name] = layout.fill((first, batch.tokens.values, last))
            else:
                fill = int(COLUMNS[name].pad)
                framed[name] = layout.fill((fill, column(batch, name).values, fill))
        return framed
