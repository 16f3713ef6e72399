"""What a frame is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from corruption.ragged import Batch, Ragged
from corruption.vocabulary import Vocabulary


class Frame(Protocol):
    """A layout of examples.

    columns: what it makes, in order. extra: special tokens it adds to the longest sequence. sequences: the
    sequence that a column of one number a token lies over, where that is not the input's: "decoder" or
    "positive". Columns of one sequence share their offsets. sources: the column of the batch that one is made
    from, where that is not the column of its own name; None where nothing must provide it.
    """

    extra: ClassVar[int]
    sequences: ClassVar[Mapping[str, str]]
    sources: ClassVar[Mapping[str, str | None]]

    def __init__(self, columns: tuple[str, ...] = ...) -> None: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    def lengths(self, bounds: Mapping[str, int]) -> dict[str, int]:
        """Sequence -> its framed length, for `Chain.bounds`."""
        ...

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks a token that the frame adds, or padding."""
        ...

    def apply(self, batch: Batch, vocabulary: Vocabulary) -> dict[str, Ragged]:
        """The framed columns, ragged int32. Raises InputError when no corruption provides what one needs."""
        ...
