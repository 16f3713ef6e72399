"""The optimiser and its schedule."""

from __future__ import annotations

import math

import torch
from torch import nn

from trainers.settings import TrainSettings


def build_optimizer(module: nn.Module, settings: TrainSettings) -> torch.optim.AdamW:
    """AdamW whose weight decay spares biases and norms, that is every parameter of fewer than two dimensions.

    Embeddings are decayed, as in BERT and RoBERTa. Shared weights appear once; frozen ones not at all.
    Source: Loshchilov and Hutter 2019, algorithm 2; Devlin et al. 2019, appendix A.2.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.eps,
    )


def learning_rate(step: int, settings: TrainSettings) -> float:
    """The rate of global step `step` (from 0): a function of the step alone, so a resume cannot shift it.

    It rises linearly over the steps before `warmup_steps`, from above 0 to the peak at that step, then falls
    to `final_learning_rate` at step `decay_steps`, and stays there.
    """
    peak, final = settings.learning_rate, settings.final_learning_rate
    warmup, end = settings.warmup_steps, settings.decay_steps
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if step >= end:
        return final
    done = (step - warmup) / (end - warmup)
    left = 1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return final + (peak - final) * left


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every parameter group the rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate
