"""Pure tensor functions that return a sum and its count, so that the divisor is applied once, by the loop."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from corruption.schema import IGNORE


def cross_entropy_sum(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(sum, count) of the cross-entropy of logits float[N, V] against labels int64[N], IGNORE left out.

    Each position is computed in float32 and the sum kept in float64 (0-d, with gradient), so that how
    positions are split into microbatches does not show in it; the count is int64. Nothing to count gives 0
    with a zero gradient, never NaN.
    """
    each = functional.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="none")
    return each.sum(dtype=torch.float64), (labels != IGNORE).sum()


@torch.no_grad()
def hits(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(right, all), 0-d float64: how often the largest of logits float[N, V] is the label int64[N]."""
    counted = labels != IGNORE
    right = (logits.argmax(-1) == labels) & counted
    return right.sum(dtype=torch.float64), counted.sum(dtype=torch.float64)
