"""A vocabulary, models and steps small enough to train in milliseconds."""

from __future__ import annotations

import numpy as np
import torch

from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from trainers.collectives import World
from trainers.hooks import Hooks
from trainers.loop import Outcome, train
from trainers.microbatch import Microbatch
from trainers.models.spec import ModelSpec
from trainers.objectives import objective
from trainers.settings import TrainSettings
from trainers.state import TrainState
from trainers.step import Lane, Step

KINDS = ("bert", "roberta", "modernbert")
SIZE, PAD, MASK = 64, 1, 4
VOCABULARY = Vocabulary.from_ids(
    SIZE, ids={"pad": PAD, "mask": MASK, "cls": 2, "sep": 3, "unk": 0}, special=range(5)
)
TOKENS = 16
LANES = 5


def spec(kind: str = "bert", **fields) -> ModelSpec:
    return ModelSpec(**{"kind": kind, "layers": 2, "width": 32, "heads": 2, "dropout": 0.1} | fields)


def build(kind: str = "bert", seed: int = 0, **fields):
    return objective("mlm").build(spec(kind, **fields), VOCABULARY, max_tokens=TOKENS, seed=seed)


def settings(steps: int = 6, lanes: int = LANES, **fields) -> TrainSettings:
    return TrainSettings(
        **{
            "steps": steps,
            "decay_steps": 1000,
            "tokens_per_step": 64 * lanes,
            "microbatch_tokens": 64,
            "learning_rate": 1e-3,
            "warmup_steps": 2,
            "log_every": 1,
            "checkpoint_every": 10_000,
            "evaluate_every": 10_000,
        }
        | fields
    )


def lane(number: int, seed: int, labels: int, rows: int = 4) -> Lane:
    """Rows of unequal length of which `labels` positions in all are masked and labelled."""
    rng = np.random.default_rng([seed, number])
    lengths = rng.integers(4, TOKENS + 1, rows)
    ids = rng.integers(5, SIZE, lengths.sum()).astype(np.int32)
    at = rng.choice(len(ids), labels, replace=False)
    targets = np.full(len(ids), IGNORE, np.int32)
    targets[at] = ids[at]
    ids[at] = MASK
    return Lane(number, {"input_ids": ids, "labels": targets}, lengths)


def filler(number: int) -> Lane:
    empty = np.zeros(0, np.int32)
    return Lane(number, {"input_ids": empty, "labels": empty}, empty)


LABELS = (1, 9, 4, 13, 2)
"""Unequal counts, so that a mean of means would show."""


def step(number: int, rank: int = 0, size: int = 1, labels: tuple[int, ...] = LABELS) -> Step:
    """One trainer's share of a step: lanes dealt in runs of ceil(L / W), fillers at the end."""
    lanes = [lane(i, number, count) for i, count in enumerate(labels)]
    each = -(-len(lanes) // size)
    mine = lanes[rank * each : (rank + 1) * each]
    mine += [filler(rank * each + i) for i in range(len(mine), each)]
    tokens = sum(int(part.lengths.sum()) for part in lanes)
    return Step(number, mine, {"mlm": sum(labels)}, (0, 0, (number + 1) * len(lanes)), tokens)


def steps(start: int = 0, rank: int = 0, size: int = 1, labels: tuple[int, ...] = LABELS):
    number = start
    while True:
        yield step(number, rank, size, labels)
        number += 1


def microbatch(part: Lane, width: int | None = None) -> Microbatch:
    return Microbatch.from_flat(part.columns, part.lengths, PAD, width=width)


def run(
    module,
    source,
    *,
    world: World | None = None,
    state: TrainState | None = None,
    chosen: TrainSettings | None = None,
    hooks: Hooks | None = None,
    task=None,
    **more,
) -> Outcome:
    """`train` with everything tiny."""
    return train(
        module,
        task or objective("mlm"),
        source,
        settings=chosen or settings(),
        state=state,
        world=world or World(),
        seed=7,
        pad_id=PAD,
        hooks=hooks or Hooks(),
        **more,
    )


def copy_of(module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Equal to the bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
