"""Masked language modelling: predict the original token wherever a label is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from corruption.vocabulary import Vocabulary
from trainers.losses import cross_entropy_sum, hits
from trainers.microbatch import Microbatch
from trainers.models.masked_lm import build_masked_lm
from trainers.models.spec import ModelSpec
from trainers.objectives.columns import OBJECTIVE_COLUMNS, ObjectiveColumns
from trainers.objectives.protocol import LossOutput


@dataclass(frozen=True)
class MaskedLanguageModel:
    """Cross-entropy of the original token at labelled positions, and the accuracy there.

    Source: Devlin et al. 2019, section 3.1, task 1, without next sentence prediction (Liu et al. 2019,
    section 4.2).
    """

    kind: ClassVar[str] = "mlm"
    data: ClassVar[ObjectiveColumns] = OBJECTIVE_COLUMNS["mlm"]
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)

    @property
    def weights(self) -> Mapping[str, float]:
        """One term of weight 1."""
        return {"mlm": 1.0}

    def build(self, spec: ModelSpec, vocabulary: Vocabulary, *, max_tokens: int, seed: int) -> nn.Module:
        """A MaskedLM on the CPU, drawn from the seed or loaded; fails as `build_masked_lm` does."""
        return build_masked_lm(spec, vocabulary, max_tokens=max_tokens, seed=seed)

    def loss(self, module: nn.Module, microbatch: Microbatch) -> LossOutput:
        """The summed cross-entropy of a microbatch and its accuracy; calls the module once."""
        columns = microbatch.columns
        logits, targets = module(
            input_ids=columns["input_ids"], attention_mask=microbatch.attention_mask, labels=columns["labels"]
        )
        total, _ = cross_entropy_sum(logits, targets)
        return LossOutput({"mlm": total}, {"accuracy": hits(logits, targets)})
