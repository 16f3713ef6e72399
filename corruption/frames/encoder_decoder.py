"""An encoder's input and what the decoder must write, as BART and T5 read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from corruption.frames.layout import Layout, Mark, Stretch, column
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS
from corruption.vocabulary import Vocabulary

_WHY = "framing an encoder's input"


@dataclass(frozen=True)
class EncoderDecoder:
    """`input_ids` is the corrupted passage, `labels` the step's `targets` or else the whole original.

    Both begin with [CLS] or BOS where the tokenizer has one (BART's does, T5's has not) and end with [SEP] or
    EOS. The model shifts `labels` itself to make its decoder's input.
    """

    columns: tuple[str, ...] = ("input_ids", "labels")
    extra: ClassVar[int] = 2
    sequences: ClassVar[Mapping[str, str]] = {"labels": "decoder"}
    sources: ClassVar[Mapping[str, str | None]] = {"input_ids": None, "labels": None}

    def lengths(self, bounds: Mapping[str, int]) -> dict[str, int]:
        """The encoder's and the decoder's sequence, each with BOS and EOS."""
        written = bounds.get("targets", bounds["original"])
        return {"input": bounds["tokens"] + self.extra, "decoder": written + self.extra}

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer has neither EOS nor [SEP], or no pad token."""
        _last(vocabulary)
        vocabulary.need("pad", "padding")

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns; input and labels have each their own offsets."""
        tokens, written = batch.tokens, batch.columns.get("targets", batch.original)
        first = vocabulary.bos if vocabulary.bos is not None else vocabulary.cls
        begin = () if first is None else (Mark(),)
        layout = Layout.of((*begin, Stretch.whole(tokens), Mark()), len(batch))
        decoder = Layout.of((*begin, Stretch.whole(written), Mark()), len(batch))
        edges, last = (() if first is None else (first,)), _last(vocabulary)
        framed: dict[str, Ragged] = {}
        for name in self.columns:
            if name == "input_ids":
                framed[name] = layout.fill((*edges, tokens.values, last))
            elif name == "labels":
                framed[name] = decoder.fill((*edges, written.values, last))
            else:
                fill = int(COLUMNS[name].pad)
                framed[name] = layout.fill((*(fill for _ in edges), column(batch, name).values, fill))
        return framed


def _last(vocabulary: Vocabulary) -> int:
    if vocabulary.eos is not None:
        return vocabulary.eos
    return vocabulary.sep if vocabulary.sep is not None else vocabulary.need("eos", _WHY)
