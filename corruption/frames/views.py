"""Two views of a passage, each [CLS] tokens [SEP], as contrastive objectives compare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from corruption.frames.layout import Layout, Mark, Stretch, column, edge
from corruption.ragged import Batch, Ragged
from corruption.vocabulary import Vocabulary

_WHY = "framing a view"


@dataclass(frozen=True)
class ViewPair:
    """`input_ids` is the anchor, `positive_input_ids` the other view."""

    columns: tuple[str, ...] = ("input_ids", "positive_input_ids")
    extra: ClassVar[int] = 2
    sequences: ClassVar[Mapping[str, str]] = {"positive_input_ids": "positive"}
    sources: ClassVar[Mapping[str, str | None]] = {"input_ids": None, "positive_input_ids": "positive"}

    def lengths(self, bounds: Mapping[str, int]) -> dict[str, int]:
        """Both views with [CLS] and [SEP]."""
        other = bounds.get("positive", bounds["tokens"])
        return {"input": bounds["tokens"] + self.extra, "positive": other + self.extra}

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks [CLS] and BOS, [SEP] and EOS, or the pad token."""
        edge(vocabulary, "cls", "bos", _WHY)
        edge(vocabulary, "sep", "eos", _WHY)
        vocabulary.need("pad", "padding")

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns; each view has its own offsets."""
        cls, sep = edge(vocabulary, "cls", "bos", _WHY), edge(vocabulary, "sep", "eos", _WHY)
        views = {"input_ids": batch.tokens, "positive_input_ids": column(batch, "positive")}
        return {
            name: Layout.of((Mark(), Stretch.whole(views[name]), Mark()), len(batch)).fill(
                (cls, views[name].values, sep)
            )
            for name in self.columns
        }
