"""Held-out loss over all trainers, the same however the examples are split into microbatches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from corruption.schema import IGNORE
from trainers.collectives import World
from trainers.meter import averages
from trainers.microbatch import Microbatch
from trainers.objectives.protocol import Objective


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module in evaluation mode, without gradients; every submodule's own mode is put back after."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def evaluate(
    module: nn.Module, objective: Objective, microbatches: Iterable[Microbatch], world: World
) -> dict[str, float]:
    """Losses and metrics over the microbatches of all trainers; a trainer's own share may be empty.

    Returns `loss`, `loss/<term>`, the objective's metrics, `count/<term>`, and `perplexity`, the exponential
    of the objective's own term, where it has one. Sums and divides once, in float64, in float32 arithmetic
    whatever the training precision. Without a single counted position there is no loss, only `count/<term>`
    0. Nothing is random.
    """
    names = [f"{part}/{term}" for term in objective.data.counted for part in ("loss", "count")]
    names += [f"{part}/{metric}" for metric in objective.metrics for part in ("metric", "of")]
    sums: dict[str, float | Tensor] = defaultdict(float, dict.fromkeys(names, 0.0))
    with evaluating(module):
        for microbatch in microbatches:
            if not len(microbatch):
                continue
            output = objective.loss(module, microbatch)
            for term, total in output.terms.items():
                sums[f"loss/{term}"] += total.double()
            for term, column in objective.data.counted.items():
                sums[f"count/{term}"] += (microbatch.columns[column] != IGNORE).sum().double()
            for metric, (total, count) in output.metrics.items():
                sums[f"metric/{metric}"] += total.double()
                sums[f"of/{metric}"] += count.double()
    totals = world.sum_named(sums)
    counts = {term: totals[f"count/{term}"] for term in objective.data.counted}
    out = averages(totals, counts, objective.weights)
    out |= {f"count/{term}": count for term, count in counts.items()}
    loss = out.get(f"loss/{objective.data.perplexity}")
    if loss is not None:
        out["perplexity"] = math.exp(loss) if loss < 700 else math.inf
    return out
