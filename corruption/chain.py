"""A chain of named corruptions, applied in the order written, each with noise of its own name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from corruption.errors import InputError
from corruption.noise import stream
from corruption.ragged import Batch
from corruption.schema import FOREIGN, LAST, PASSAGES
from corruption.vocabulary import Vocabulary

if TYPE_CHECKING:
    from corruption.batched import Batched


@dataclass(frozen=True)
class Noise:
    """Where a step's randomness starts: the stream of (seed, step name, epoch), before key and copy."""

    prefix: np.uint64

    @staticmethod
    def of(seed: int, name: str, epoch: int) -> Noise:
        """The noise of the step called `name` in this epoch."""
        return Noise(np.uint64(stream(seed, name, epoch)))


class Corruption(Protocol):
    """What a chain asks of a corruption: a frozen dataclass whose fields are its configuration.

    kind: its name in recipes. provides: the columns it adds. moves: whether it may change the number or the
    order of tokens. breaks: columns that mean nothing after it; "labels" where it invents ordinary tokens, which
    no later step may then ask for.
    """

    kind: ClassVar[str]
    provides: ClassVar[tuple[str, ...]]
    moves: ClassVar[bool]
    breaks: ClassVar[tuple[str, ...]]

    def needs(self) -> tuple[str, ...]:
        """The columns it reads."""
        ...

    def bounds(self, length: int) -> Mapping[str, int]:
        """The most tokens that "tokens", and each unaligned column it provides, can have after it."""
        ...

    def check(self, vocabulary: Vocabulary, longest: int | None) -> None:
        """Raise InputError when the tokenizer lacks what rows of up to `longest` tokens need (None: unknown)."""
        ...

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """The rows changed; never their number, keys or copies."""
        ...


@dataclass(frozen=True)
class Chain:
    """Corruptions in order. Each has a name, its kind unless given: the name enters its noise, not its place.

    Raises InputError for every combination that cannot work: two steps of one name or that provide one
    column, a column that nothing provides or that an earlier step left without meaning, a step that moves
    tokens which must stay.
    """

    steps: tuple[Corruption, ...]
    names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        names = self.names or tuple(step.kind for step in self.steps)
        object.__setattr__(self, "names", names)
        if len(names) != len(self.steps):
            raise ValueError("give a name for each step, or none")
        have = {*PASSAGES.names, *FOREIGN}
        maker: dict[str, str] = {}
        breaker: dict[str, str] = {}
        for place, (name, step) in enumerate(zip(names, self.steps)):
            where = f"corruption step {place + 1}"
            if names.index(name) != place:
                raise InputError(where, f"a second step is called {name!r}", "add name: to tell them apart")
            where = f"{where} ({name})"
            for column in step.needs():
                if column in breaker:
                    by = breaker[column]
                    given = f"it needs the column {column!r}, which {by!r} before it leaves without meaning"
                    raise InputError(where, given, f"put it before {by!r}")
                if column not in have:
                    given = f"it needs the column {column!r}, which nothing before it provides"
                    raise InputError(where, given, f"put a step that provides {column!r} before it")
            if place and FOREIGN[0] in step.needs():
                given = "it pairs the passage with another document's, which no step before it has touched"
                raise InputError(where, given, "put it first")
            for column in step.provides:
                if column in maker:
                    given = f"it provides the column {column!r}, as {maker[column]!r} before it does"
                    raise InputError(where, given, "keep one of the two")
                if column in breaker:
                    by = breaker[column]
                    given = f"it provides {column!r}, and would ask for tokens that {by!r} before it has invented"
                    raise InputError(where, given, f"put it before {by!r}")
            for column, reason in LAST.items():
                if column in maker and (step.moves or column == "positive"):
                    given = f"it comes after {maker[column]!r}, when {reason}"
                    raise InputError(where, given, f"put it before {maker[column]!r}")
            have |= set(step.provides)
            maker |= {column: name for column in step.provides}
            breaker |= {column: name for column in step.breaks}

    @staticmethod
    def parse(steps: Sequence[Mapping[str, Any]], where: str = "corruption") -> Chain:
        """From a recipe's list of `{kind: ..., name?: ..., ...}`."""
        from corruption.registry import parse_step

        parsed = tuple(parse_step(step, f"{where}[{i}]") for i, step in enumerate(steps))
        return Chain(parsed, tuple(str(step.get("name", made.kind)) for step, made in zip(steps, parsed)))

    def columns(self) -> tuple[str, ...]:
        """The passage columns that must be read for this chain, those of `schema.FOREIGN` among them."""
        found = {"tokens": None}
        provided: set[str] = set()
        for step in self.steps:
            found |= {name: None for name in step.needs() if name not in provided}
            provided |= set(step.provides)
        return tuple(found)

    @property
    def foreign(self) -> bool:
        """Whether it needs a passage of another document beside each."""
        return FOREIGN[0] in self.columns()

    @property
    def moves(self) -> bool:
        """Whether a step may change the number or order of tokens."""
        return any(step.moves for step in self.steps)

    def provides(self) -> frozenset[str]:
        """The columns a corrupted example has besides its tokens."""
        return frozenset(name for step in self.steps for name in step.provides)

    def bounds(self, length: int) -> dict[str, int]:
        """The most tokens in "original", "tokens" and each unaligned column, for a passage of `length` tokens."""
        found = {"original": length, "tokens": length}
        for step in self.steps:
            found |= step.bounds(found["tokens"])
        return found

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks what passages of up to `longest` tokens need."""
        for step in self.steps:
            step.check(vocabulary, longest)
            longest = None if longest is None else step.bounds(longest)["tokens"]

    def batched(self, tokenizer: Any, *, seed: int = 0, epoch: int = 0, frame: str | None = None) -> Batched:
        """A function for `datasets.Dataset.map(..., batched=True)`; see `corruption.batched.Batched`."""
        from corruption.batched import Batched

        return Batched(self, tokenizer, seed=seed, epoch=epoch, frame=frame)

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
