"""The local part of a step: forward and backward over the lanes a trainer holds."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import torch
from torch import Tensor, nn

from corruption.schema import IGNORE
from trainers.digest import InputDigest, lane_words
from trainers.microbatch import Microbatch
from trainers.objectives.protocol import Objective
from trainers.seeding import seeded
from trainers.settings import TrainSettings
from trainers.step import Step


def run_lanes(
    module: nn.Module,
    objective: Objective,
    step: Step,
    *,
    settings: TrainSettings,
    seed: int,
    pad_id: int,
    device: torch.device,
) -> dict[str, float | Tensor]:
    """Add this trainer's share of the step's gradient to the parameters' `.grad`; return its sums.

    Each term is divided by its count over the whole step, so that the shares of all lanes and trainers add
    up to the gradient of one large batch. Fillers are passed over. Dropout is drawn from (seed, step, lane),
    so it does not depend on who holds a lane. A step without any label runs nothing.

    The names are the same on every trainer: "loss/<term>", "metric/<name>" and its count "of/<name>",
    "have/<term>" (positions counted here), and the words of every lane's digest.
    """
    sums: dict[str, float | Tensor] = defaultdict(float)
    sums |= {f"loss/{term}": 0.0 for term in objective.data.counted}
    sums |= {f"have/{term}": 0.0 for term in objective.data.counted}
    sums |= {f"{part}/{metric}": 0.0 for metric in objective.metrics for part in ("metric", "of")}
    for number in range(settings.lanes):
        sums |= lane_words(number)
    for lane in step.lanes:
        if not len(lane.lengths):
            continue
        for term, column in objective.data.counted.items():
            sums[f"have/{term}"] += float(np.count_nonzero(lane.columns[column] != IGNORE))
        if not any(step.counts.values()):
            continue
        microbatch = Microbatch.from_flat(lane.columns, lane.lengths, pad_id, device)
        with seeded(seed, "dropout", step.number, lane.number, device=device), InputDigest(module) as digest:
            with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
                output = objective.loss(module, microbatch)
            torch.stack(
                [
                    objective.weights[term] * total / step.counts[term]
                    for term, total in output.terms.items()
                    if step.counts[term]
                ]
            ).sum().backward()  # type: ignore[no-untyped-call]
        sums |= lane_words(lane.number, digest.words())
        for term, total in output.terms.items():
            sums[f"loss/{term}"] += total.detach().double()
        for metric, (total, count) in output.metrics.items():
            sums[f"metric/{metric}"] += total.double()
            sums[f"of/{metric}"] += count.double()
    return dict(sums)


def check_counts(step: Step, totals: dict[str, float]) -> None:
    """Raise RuntimeError unless the counts announced for the step are what the lanes of all trainers hold."""
    for term, announced in step.counts.items():
        if (found := int(totals[f"have/{term}"])) != announced:
            raise RuntimeError(
                f"step {step.number}: {announced} positions announced for {term!r}, {found} found"
            )
