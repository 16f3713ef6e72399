"""A module's gradients in a few flat buffers of fixed layout, so that reducing them repeats to the bit."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import torch
from torch import Tensor, nn

from trainers.collectives import World

BUCKET = 1 << 23
"""Entries of a bucket: 32 MiB of float32. A larger parameter has one to itself."""

_ALIGN = 64
"""Each gradient starts at a multiple of this many entries, for vectorised kernels."""


class GradientBuckets:
    """Flat buffers that the parameters' `.grad` are views of.

    The layout depends on the order and shapes of the parameters only, never on the number of trainers, the
    step or a resume; a ring reduction of the same layout adds in the same order, so the weights after a
    resume are the same bits for any number of trainers. Nobody may set a `.grad` to None.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        trained = [p for p in parameters if p.requires_grad]
        self.buckets: list[Tensor] = []
        for (dtype, device), same in groupby(trained, key=lambda p: (p.dtype, p.device)):
            for group in _fill(list(same)):
                bucket = torch.zeros(sum(_room(p) for p in group), dtype=dtype, device=device)
                start = 0
                for parameter in group:
                    parameter.grad = bucket[start : start + parameter.numel()].view_as(parameter)
                    start += _room(parameter)
                self.buckets.append(bucket)

    def zero(self) -> None:
        """Set all gradients to zero."""
        for bucket in self.buckets:
            bucket.zero_()

    def reduce(self, world: World) -> None:
        """Sum all gradients over the trainers."""
        for bucket in self.buckets:
            world.sum_in_place(bucket)

    def norm(self) -> float:
        """The global L2 norm, in float64 so that large gradients do not overflow on the way."""
        squares = [torch.linalg.vector_norm(bucket, dtype=torch.float64) ** 2 for bucket in self.buckets]
        return float(torch.stack(squares).sum().sqrt())

    def clip(self, norm: float, limit: float | None) -> None:
        """Scale all gradients so that their global norm, now `norm`, is at most `limit` (None: never)."""
        if limit is not None and norm > limit:
            for bucket in self.buckets:
                bucket.mul_(limit / norm)


def _room(parameter: Tensor) -> int:
    return -(-parameter.numel() // _ALIGN) * _ALIGN


def _fill(parameters: list[nn.Parameter]) -> Iterable[list[nn.Parameter]]:
    group: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        if group and size + _room(parameter) > BUCKET:
            yield group
            group, size = [], 0
        group.append(parameter)
        size += _room(parameter)
    if group:
        yield group
