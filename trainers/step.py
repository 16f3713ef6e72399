"""What a trainer is fed: its lanes of one global step, with the numbers that belong to the whole step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


class StepsBroken(RuntimeError):
    """The next steps cannot be had, for a reason that no restart mends; its text is the line for the user."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One microbatch, still ragged: flat int32 columns and the examples' lengths. No lengths: a filler.

    number: its lane in the step, from 0, the same whoever holds it.
    """

    number: int
    columns: Mapping[str, npt.NDArray[np.int32]]
    lengths: npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Step:
    """This trainer's share of global step `number` (from 0).

    counts: for each loss term the positions that count, over all lanes of all trainers. cursor: address
    (epoch, window, number) of the first microbatch after the step. tokens: real positions of the whole step.
    """

    number: int
    lanes: Sequence[Lane]
    counts: Mapping[str, int]
    cursor: tuple[int, int, int]
    tokens: int
