"""What an objective is: a loss as named sums over a microbatch, from one call of the module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from torch import Tensor, nn

from corruption.vocabulary import Vocabulary
from trainers.microbatch import Microbatch
from trainers.models.spec import ModelSpec
from trainers.objectives.columns import ObjectiveColumns


@dataclass(frozen=True)
class LossOutput:
    """What a microbatch adds to a step.

    terms: each loss term summed over the positions that count, 0-d with gradient; its weight in the total is
    the objective's, and its count is not here, since that follows from the columns alone
    (`ObjectiveColumns.counted`) and is the whole step's, over all lanes and trainers. metrics: (sum, count)
    pairs, 0-d without gradient.
    """

    terms: Mapping[str, Tensor]
    metrics: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


class Objective(Protocol):
    """A learning task. `data` names columns and counts, `metrics` all that `loss` measures."""

    kind: ClassVar[str]
    data: ClassVar[ObjectiveColumns]
    metrics: ClassVar[tuple[str, ...]]

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of every loss term in the total."""
        ...

    def build(self, spec: ModelSpec, vocabulary: Vocabulary, *, max_tokens: int, seed: int) -> nn.Module:
        """The module to train, on the CPU, initialised from the seed or from `spec.init`."""
        ...

    def loss(self, module: nn.Module, microbatch: Microbatch) -> LossOutput:
        """The loss of one microbatch; calls the module once."""
        ...
