"""A mixture: each row goes through one of several chains, drawn at random.

A row's draw 0 chooses its chain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.chain import Chain, Noise
from corruption.errors import InputError
from corruption.lengths import Float64, Shares, length_at
from corruption.noise import draw, fold, stream, unit
from corruption.ragged import Batch, Int64, Ragged, UInt64, copy_rows, offsets_of
from corruption.registry import register
from corruption.vocabulary import Vocabulary


@njit(cache=True, nogil=True)
def choose_chains(table: Float64, prefix: np.uint64, keys: UInt64, copies: UInt64, chosen: Int64) -> None:
    """The number of each row's chain; `table` is P(number <= n)."""
    for row in range(len(keys)):
        chosen[row] = length_at(table, unit(draw(fold(fold(prefix, keys[row]), copies[row]), np.uint64(0))))


@register
@dataclass(frozen=True)
class Mixture:
    """Send each row through one of several chains.

    chains: two or more, which all provide the same columns. weights: how often each is drawn, above 0 and scaled
    to add up to 1; equally often unless given.

    Random: the chain of each row, from the step's stream of the example. A step inside a chain draws from the
    stream of (the mixture's noise, the step's own name): as a row goes through one chain only, steps of different
    chains may share a name, and the order of the chains does not enter their noise.
    Raises InputError when the chains are too few or differ in what they provide, or the weights do not fit.
    Source: Tay et al. 2022 (UL2), section 3.1.2, for whose seven denoisers see the recipe `ul2`.
    """

    kind: ClassVar[str] = "mixture"

    chains: tuple[Chain, ...] = ()
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        n = len(self.chains)
        if n < 2:
            raise InputError("mixture.chains", f"{n} given", "give two or more lists of steps")
        first = self.chains[0].provides()
        for number, chain in enumerate(self.chains):
            if (found := chain.provides()) != first:
                given = f"it provides {_listed(found)}, and mixture.chains[0] {_listed(first)}"
                raise InputError(f"mixture.chains[{number}]", given, "give chains that provide the same columns")
        if self.weights is None:
            return
        if len(self.weights) != n:
            given = f"{len(self.weights)} given for {n} chains"
            raise InputError("mixture.weights", given, "give one for each chain, or leave them out")
        if not all(0.0 < weight < math.inf for weight in self.weights):
            given = f"{list(self.weights)} are not all above 0"
            raise InputError("mixture.weights", given, "leave out a chain that should never be drawn")

    @property
    def provides(self) -> tuple[str, ...]:
        """The columns that every chain adds."""
        return tuple(sorted(self.chains[0].provides()))

    @property
    def moves(self) -> bool:
        """Whether a chain may change the number or order of tokens."""
        return any(chain.moves for chain in self.chains)

    @property
    def breaks(self) -> tuple[str, ...]:
        """The columns that a step of any chain leaves without meaning."""
        return tuple(sorted({name for chain in self.chains for step in chain.steps for name in step.breaks}))

    def needs(self) -> tuple[str, ...]:
        """What the chains read."""
        return tuple(dict.fromkeys(name for chain in self.chains for name in chain.columns()))

    def bounds(self, length: int) -> Mapping[str, int]:
        """The most that any chain makes of such a row."""
        found = [chain.bounds(length) for chain in self.chains]
        names = {name: None for bounds in found for name in bounds if name != "original"}
        return {name: max(bounds.get(name, 0) for bounds in found) for name in names}

    def check(self, vocabulary: Vocabulary, longest: int | None = None) -> None:
        """Raise InputError when the tokenizer lacks what any chain needs."""
        for chain in self.chains:
            chain.check(vocabulary, longest)

    def apply(self, batch: Batch, noise: Noise, vocabulary: Vocabulary) -> Batch:
        """The rows in their old order, each as its chain has made it; what the chains keep aligned stays so."""
        weights = self.weights or (1.0,) * len(self.chains)
        chosen = np.empty(len(batch), np.int64)
        choose_chains(Shares(weights).table()[1:], noise.prefix, batch.keys, batch.copies, chosen)
        parts, places = [], []
        for number, chain in enumerate(self.chains):
            rows = np.flatnonzero(chosen == number)
            if len(rows) or (number == 0 and not len(batch)):
                part = batch.take(rows)
                for name, step in zip(chain.names, chain.steps):
                    part = step.apply(part, Noise(np.uint64(stream(int(noise.prefix), name))), vocabulary)
                # Chains that move nothing keep no origin; beside others that do they need one.
                parts.append(part.put(origin=part.origin()) if self.moves else part)
                places.append(rows)
        unusable = np.empty_like(batch.unusable)
        for part, rows in zip(parts, places):
            unusable[rows] = part.unusable
        return replace(batch, columns=_joined(parts, places), unusable=unusable)


def _joined(parts: Sequence[Batch], places: Sequence[npt.NDArray[np.int64]]) -> dict[str, Ragged]:
    """The columns of all parts, row i of a part at `places[part][i]`; those aligned in every part still are."""
    offsets: dict[tuple[int, ...], Int64] = {}
    columns = {}
    for name in parts[0].columns:
        own = [part.columns[name] for part in parts]
        shared = tuple(id(column.offsets) for column in own)
        if shared not in offsets:
            lengths = np.empty(sum(map(len, own)), np.int64)
            for column, rows in zip(own, places):
                lengths[rows] = column.lengths
            offsets[shared] = offsets_of(lengths)
            offsets[shared].flags.writeable = False
        values = np.empty(offsets[shared][-1], np.int32)
        for column, rows in zip(own, places):
            copy_rows(column.values, column.offsets[:-1], column.lengths, offsets[shared][rows], values)
        values.flags.writeable = False
        columns[name] = Ragged(values, offsets[shared])
    return columns


def _listed(names: frozenset[str]) -> str:
    return ", ".join(map(repr, sorted(names))) or "nothing"
