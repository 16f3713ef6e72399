"""A chain of named corruptions, applied in the order written, each with noise of its own name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from corruption.errors import InputError
from corruption.noise import stream
from corruption.ragged import Batch
from corruption.schema import PASSAGES
from corruption.vocabulary import Vocabulary


@dataclass(frozen=True)
class Noise:
    """Where a step's randomness starts: the stream of (seed, step name, epoch), before key and copy."""

    prefix: np.uint64

    @staticmethod
    def of(seed: int, name: str, epoch: int) -> Noise:
        """The noise of the step called `name` in this epoch."""
        return Noise(np.uint64(stream(seed, name, epoch)))


class Corruption(Protocol):
    """What a chain asks of a corruption: a frozen dataclass whose fields are its configuration."""

    kind: ClassVar[str]
    provides: ClassVar[tuple[str, ...]]

    def needs(self) -> tuple[str, ...]: ...

    def bound(self, length: int) -> int: ...

    def check(self, vocabulary: Vocabulary) -> None: ...

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch: ...


@dataclass(frozen=True)
class Chain:
    """Corruptions in order. Each has a name, its kind unless given: the name enters its noise, not its place.

    Raises InputError when two steps share a name, or a step needs a column that nothing before it provides.
    """

    steps: tuple[Corruption, ...]
    names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        names = self.names or tuple(step.kind for step in self.steps)
        object.__setattr__(self, "names", names)
        if len(names) != len(self.steps):
            raise ValueError("give a name for each step, or none")
        have = set(PASSAGES.names)
        for place, (name, step) in enumerate(zip(names, self.steps)):
            if names.index(name) != place:
                raise InputError(
                    f"corruption step {place + 1}",
                    f"a second step is called {name!r}",
                    "add name: to tell them apart",
                )
            for column in step.needs():
                if column not in have:
                    raise InputError(
                        f"corruption step {place + 1} ({name})",
                        f"it needs the column {column!r}, which nothing before it provides",
                        f"put a step that provides {column!r} before it",
                    )
            have |= set(step.provides)

    @staticmethod
    def parse(steps: Sequence[Mapping[str, Any]], where: str = "corruption") -> Chain:
        """From a recipe's list of `{kind: ..., name?: ..., ...}`."""
        from corruption.registry import parse_step

        parsed = tuple(parse_step(step, f"{where}[{i}]") for i, step in enumerate(steps))
        return Chain(parsed, tuple(str(step.get("name", made.kind)) for step, made in zip(steps, parsed)))

    def columns(self) -> tuple[str, ...]:
        """The passage columns that must be read for this chain."""
        found = {"tokens": None}
        provided: set[str] = set()
        for step in self.steps:
            found |= {name: None for name in step.needs() if name not in provided}
            provided |= set(step.provides)
        return tuple(found)

    def provides(self) -> frozenset[str]:
        """The columns a corrupted example has besides its tokens."""
        return frozenset(name for step in self.steps for name in step.provides)

    def bound(self, length: int) -> int:
        """The longest row that can come out of one of `length` tokens."""
        for step in self.steps:
            length = step.bound(length)
        return length

    def check(self, vocabulary: Vocabulary) -> None:
        """Raise InputError when the tokenizer lacks what a step needs."""
        for step in self.steps:
            step.check(vocabulary)

    def apply(self, batch: Batch, *, seed: int, epoch: int, vocabulary: Vocabulary) -> Batch:
        """A corrupted copy of a batch, a function of its rows, the seed and the epoch alone.

        Raises InputError when a token id lies outside the vocabulary.
        """
        values = batch.tokens.values
        lowest, highest = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if lowest < 0 or highest >= vocabulary.size:
            raise InputError(
                "tokens",
                f"id {lowest if lowest < 0 else highest} is not one of {vocabulary.name}'s {vocabulary.size}",
                "use the tokenizer the passages were made with",
            )
        for name, step in zip(self.names, self.steps):
            batch = step.apply(batch, Noise.of(seed, name, epoch), vocabulary)
        return batch
