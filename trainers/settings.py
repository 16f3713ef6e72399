"""The `train` section of a recipe: geometry of a step, optimiser, schedule, and how often to report."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, model_validator

from corruption.errors import InputError


class TrainSettings(BaseModel, extra="forbid", frozen=True):
    """How to train; raises InputError for numbers that do not fit together.

    Steps count updates. Rates are those of AdamW. `tokens_per_step` and `microbatch_tokens` are padded
    positions; a step has `lanes` microbatches, whatever the number of trainers.
    """

    steps: int = Field(gt=0)
    decay_steps: int = Field(gt=0)
    tokens_per_step: int = Field(gt=0)
    microbatch_tokens: int = Field(gt=0)
    learning_rate: float = Field(gt=0)
    final_learning_rate: float = Field(default=0.0, ge=0)
    warmup_steps: int = Field(default=0, ge=0)
    schedule: Literal["linear", "cosine"] = "linear"
    weight_decay: float = Field(default=0.01, ge=0)
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    clip_norm: float | None = Field(default=1.0, gt=0)
    precision: Literal["fp32", "bf16"] = "fp32"
    log_every: int = Field(default=10, gt=0)
    evaluate_every: int = Field(default=500, gt=0)
    checkpoint_every: int = Field(default=500, gt=0)
    keep_checkpoints: int = Field(default=2, gt=0)

    @model_validator(mode="after")
    def _fit(self) -> TrainSettings:
        if self.tokens_per_step % self.microbatch_tokens:
            below = self.tokens_per_step // self.microbatch_tokens * self.microbatch_tokens
            choices = [n for n in (below, below + self.microbatch_tokens) if n]
            raise InputError(
                "train.tokens_per_step",
                f"{self.tokens_per_step} is no multiple of train.microbatch_tokens {self.microbatch_tokens}",
                f"use {' or '.join(map(str, choices))}",
            )
        if self.warmup_steps >= self.decay_steps:
            raise InputError(
                "train.warmup_steps",
                f"{self.warmup_steps} is not below train.decay_steps {self.decay_steps}",
                "warm up for fewer steps or decay later",
            )
        if self.final_learning_rate > self.learning_rate:
            raise InputError(
                "train.final_learning_rate",
                f"{self.final_learning_rate} is above train.learning_rate {self.learning_rate}",
                "use a rate to decay to that is no higher than the peak",
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(
                "train.betas", f"{list(self.betas)} are not both in [0, 1)", "use e.g. [0.9, 0.999]"
            )
        return self

    @property
    def lanes(self) -> int:
        """Microbatches in a step."""
        return self.tokens_per_step // self.microbatch_tokens
