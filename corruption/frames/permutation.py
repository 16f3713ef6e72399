"""tokens [SEP] [CLS]: one segment as XLNet reads it, [CLS] last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from corruption.frames.layout import Layout, Mark, Stretch, column
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS
from corruption.vocabulary import Vocabulary

_WHY = "framing for permutation language modelling"
_CLS_TYPE = 2


@dataclass(frozen=True)
class Permutation:
    """One segment and its order of prediction.

    `permutation_order` is -1 on context, which everything sees; 0, 1, ... on targets in the order of their
    prediction; then [SEP] and [CLS], which see all and are seen by no token before them. `token_type_ids` are
    0, and 2 at [CLS].
    """

    columns: tuple[str, ...] = ("input_ids", "token_type_ids", "permutation_order", "labels")
    extra: ClassVar[int] = 2
    sequences: ClassVar[Mapping[str, str]] = {}
    sources: ClassVar[Mapping[str, str | None]] = {"input_ids": None, "token_type_ids": None}

    def lengths(self, bounds: Mapping[str, int]) -> dict[str, int]:
        """The input with [SEP] and [CLS]."""
        return {"input": bounds["tokens"] + self.extra}

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks [SEP], [CLS] or the pad token."""
        vocabulary.need("sep", _WHY)
        vocabulary.need("cls", _WHY)
        vocabulary.need("pad", "padding")

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns, ragged int32 under one offsets array."""
        tokens = batch.tokens
        layout = Layout.of((Stretch.whole(tokens), Mark(), Mark()), len(batch))
        framed: dict[str, Ragged] = {}
        for name in self.columns:
            if name == "input_ids":
                parts = (tokens.values, vocabulary.need("sep", _WHY), vocabulary.need("cls", _WHY))
                framed[name] = layout.fill(parts)
            elif name == "token_type_ids":
                framed[name] = layout.fill((np.zeros_like(tokens.values), 0, _CLS_TYPE))
            elif name == "permutation_order":
                order = column(batch, name)
                filled = layout.fill((order.values, 0, 0))
                values, targets = filled.values.copy(), _targets(order)
                values[layout.places[1]] = targets
                values[layout.places[2]] = targets + 1
                framed[name] = filled.with_values(values)
            else:
                fill = int(COLUMNS[name].pad)
                framed[name] = layout.fill((column(batch, name).values, fill, fill))
        return framed


def _targets(order: Ragged) -> np.ndarray:
    """int64[rows]: how many positions of each row are targets."""
    found = np.append(0, np.cumsum(order.values >= 0))
    counts: np.ndarray = found[order.offsets[1:]] - found[order.offsets[:-1]]
    return counts
