"""Two views of each passage, each with noise of its own, for contrastive objectives.

A step called X of the first view draws from the stream of this step folded with the hash of "first.X", one of
the second view with that of "second.X"; so equal chains make different views, and the views' noise does not
depend on one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from corruption.chain import Chain, Noise
from corruption.errors import InputError
from corruption.noise import folded
from corruption.ragged import Batch, Ragged
from corruption.registry import register
from corruption.schema import FOREIGN, IGNORE
from corruption.vocabulary import Vocabulary

_DROPPED = ("labels",)
"""Columns that a view's steps may provide and that go no further: a masked view is one without its answers."""

_AS_IT_IS = Chain(())


@register
@dataclass(frozen=True)
class Views:
    """Make two views of each passage by two chains: `tokens` is the first, the column `positive` the second.

    first, second: lists of steps, each applied to the tokens as they are so far; an empty list leaves them,
    so that dropout alone tells two such views apart. A view may crop, delete, shuffle, replace or mask; labels
    that a step in it provides are dropped, and what it hid or replaced counts as invented in `origin`.
    Nothing can come after this step. A row with an empty view is "too_short".

    Random: the steps' noise, see the module.
    Raises InputError when a step in a view provides columns other than labels, which would be lost, or needs
    a passage of another document.
    Source: Gao et al. 2021 (SimCSE), section 3 (no step); Chen et al. 2020 (SimCLR), section 2.1, whose image
    augmentations become steps on text.
    """

    kind: ClassVar[str] = "views"
    provides: ClassVar[tuple[str, ...]] = ("positive",)
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ()

    first: Chain = _AS_IT_IS
    second: Chain = _AS_IT_IS

    def __post_init__(self) -> None:
        for view in ("first", "second"):
            chain: Chain = getattr(self, view)
            for name, step in zip(chain.names, chain.steps):
                where = f"views.{view} ({name})"
                lost = [column for column in step.provides if column not in _DROPPED]
                if lost:
                    given = f"it provides the column {lost[0]!r}, which a view does not keep"
                    raise InputError(where, given, "take it out of the view")
                if set(FOREIGN) & set(step.needs()):
                    given = "it needs a passage of another document, which a view has not"
                    raise InputError(where, given, "take it out of the view")

    def needs(self) -> tuple[str, ...]:
        """What the two chains read."""
        return tuple(dict.fromkeys((*self.first.columns(), *self.second.columns())))

    def bounds(self, length: int) -> Mapping[str, int]:
        """The longest of each view."""
        return {"tokens": self.first.bounds(length)["tokens"], "positive": self.second.bounds(length)["tokens"]}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks what a step of a view needs."""
        self.first.check(vocabulary, longest)
        self.second.check(vocabulary, longest)

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """The first view in the batch's columns, those aligned moved with it, and the second in `positive`."""
        first = _view(batch, self.first, "first", noise, vocabulary)
        second = _view(batch, self.second, "second", noise, vocabulary)
        tokens, positive = first.tokens, second.tokens
        if positive.offsets is tokens.offsets:
            positive = Ragged.of(positive.values, positive.offsets.copy())  # or it would count as aligned
        unusable = np.where(first.unusable == 0, second.unusable, first.unusable)
        merged = replace(first.put(positive=positive), unusable=unusable)
        return merged.mark((tokens.lengths == 0) | (positive.lengths == 0), "too_short")


def _view(batch: Batch, chain: Chain, view: str, noise: Noise, vocabulary: Vocabulary) -> Batch:
    """The batch after a view's chain, with the columns it had, and `origin` where tokens changed."""
    found = batch
    for name, step in zip(chain.names, chain.steps):
        own = Noise(np.uint64(folded(int(noise.prefix), f"{view}.{name}")))
        found = step.apply(found, own, vocabulary)
        if "labels" in step.provides:
            found = _without_labels(found)
    return found


def _without_labels(batch: Batch) -> Batch:
    """The batch less its labels; tokens that hid or replaced another have no origin any more."""
    labels = batch.columns["labels"].values
    changed = (labels != IGNORE) & (labels != batch.tokens.values)
    origin = np.where(changed, np.int32(-1), batch.origin().values)
    kept = {name: column for name, column in batch.columns.items() if name != "labels"}
    return replace(batch, columns={**kept, "origin": batch.tokens.with_values(origin)})
