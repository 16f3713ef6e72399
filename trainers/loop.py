"""One worker's loop: eat a step's lanes, add up over all trainers, update, report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Literal

import torch
from torch import nn

from trainers.buckets import GradientBuckets
from trainers.collectives import World
from trainers.digest import step_digest
from trainers.hooks import Hooks
from trainers.lanes import check_counts, run_lanes
from trainers.meter import Meter
from trainers.objectives.protocol import Objective
from trainers.optim import build_optimizer, learning_rate, set_learning_rate
from trainers.settings import TrainSettings
from trainers.state import TrainState, restore, weights_of
from trainers.step import Step, StepsBroken

Status = Literal["finished", "stopped", "broken data", "nothing to learn from", "not finite"]

NOTHING = "nothing to learn from: no trainable tokens"
BROKEN = "the data of step {} cannot be had"
NOT_FINITE = "the loss or its gradient is not finite in step {}; the weights are those after step {}"


@dataclass(frozen=True)
class Outcome:
    """How a run ended, in one line, and where it stands."""

    status: Status
    message: str
    state: TrainState


def train(
    module: nn.Module,
    objective: Objective,
    steps: Iterable[Step],
    *,
    settings: TrainSettings,
    state: TrainState | None = None,
    world: World,
    seed: int,
    pad_id: int,
    device: torch.device | str = "cpu",
    hooks: Hooks = Hooks(),  # noqa: B008  frozen, so it can be shared
    nothing_limit: int = 50,
) -> Outcome:
    """Train until `settings.steps` steps are done; each trainer brings its own lanes of the same steps.

    steps: from `state.step` on (from 0 without a state), endless or long enough. The module, already on
    `device`, is left in training mode. What is random: dropout, a function of (seed, step, lane); the
    caller's generators are left as they were. A step without any label is skipped by all trainers together;
    when there was none in the first `nothing_limit` steps, or in all, there is nothing to learn from. A loss
    or gradient that is not finite ends the run before the update it would have spoilt. Steps that raise StepsBroken
    on any trainer end it on all, after a checkpoint of the steps before.

    Raises RuntimeError when the steps are not the ones due, or the trainers do not start from the same
    weights.
    """
    device = torch.device(device)
    optimizer = build_optimizer(module, settings)
    if state is None:
        state = TrainState(0, (0, 0, 0))
    else:
        restore(state, module, optimizer)
    world.check_equal_weights(module)
    gradients = GradientBuckets(module.parameters())
    meter = Meter(objective.weights)
    source = iter(steps)
    module.train()

    while state.step < settings.steps:
        started = perf_counter()
        step, fault = _due(source, state)
        waited = perf_counter() - started

        gradients.zero()
        sums = run_lanes(module, objective, step, settings=settings, seed=seed, pad_id=pad_id, device=device)
        sums["stop"] = float(hooks.should_stop is not None and hooks.should_stop())
        sums["broken"] = float(fault is not None)
        totals = world.sum_named(sums)
        if totals["broken"]:
            if hooks.save and state.step:
                hooks.save(_whole(state, module, optimizer))
            return Outcome("broken data", fault or BROKEN.format(state.step + 1), state)
        check_counts(step, totals)
        skipped = not any(step.counts.values())
        rate = learning_rate(step.number, settings)
        if not skipped:
            norm = _update(gradients, optimizer, totals, rate, settings, world)
            if norm is None:
                return Outcome("not finite", NOT_FINITE.format(step.number + 1, state.step), state)
            totals |= {"metric/grad_norm": norm, "of/grad_norm": 1.0}
        spent = perf_counter() - started
        meter.add(totals, step.counts, tokens=step.tokens, seconds=spent, waited=waited, skipped=skipped)
        state = replace(
            state,
            step=state.step + 1,
            cursor=step.cursor,
            tokens=state.tokens + step.tokens,
            seconds=state.seconds + spent,
            skipped=state.skipped + skipped,
        )

        last = state.step == settings.steps
        if state.skipped == state.step and (last or state.step >= nothing_limit):
            return Outcome("nothing to learn from", NOTHING, state)
        if hooks.digest and world.rank == 0 and not skipped:
            hooks.digest(state.step, step_digest(totals, settings.lanes))
        if hooks.log and world.rank == 0 and (last or state.step % settings.log_every == 0):
            run = {"learning_rate": rate, "tokens": float(state.tokens), "seconds": state.seconds}
            hooks.log(state.step, meter.take() | run)
        if hooks.evaluate and (last or state.step % settings.evaluate_every == 0):
            state = _evaluate(state, hooks, world)
        stop = totals["stop"] > 0 and not last
        if hooks.save and (last or stop or state.step % settings.checkpoint_every == 0):
            hooks.save(_whole(state, module, optimizer))
        if stop:
            return Outcome("stopped", f"stopped after step {state.step} of {settings.steps}", state)
    return Outcome("finished", f"at step {state.step} of {settings.steps}", state)


def _due(source: Iterator[Step], state: TrainState) -> tuple[Step, str | None]:
    """The step that is due and None; or, when the data are broken, one without lanes and why."""
    try:
        step = next(source, None)
    except StepsBroken as error:
        return Step(state.step, (), {}, state.cursor, 0), str(error)
    if step is None or step.number != state.step:
        given = step.number if step else "no more"
        raise RuntimeError(f"step {state.step} is due, the data gave {given}")
    return step, None


def _whole(state: TrainState, module: nn.Module, optimizer: torch.optim.Optimizer) -> TrainState:
    """The state with what a checkpoint keeps beside it."""
    return replace(state, weights=weights_of(module), optimizer=optimizer.state_dict())


def _update(
    gradients: GradientBuckets,
    optimizer: torch.optim.Optimizer,
    totals: dict[str, float],
    rate: float,
    settings: TrainSettings,
    world: World,
) -> float | None:
    """Reduce, clip and apply the gradients; their norm before clipping, or None if a number is not finite.

    Every trainer sees the same bits here, so all decide alike.
    """
    if not all(math.isfinite(value) for name, value in totals.items() if name.startswith("loss/")):
        return None
    gradients.reduce(world)
    norm = gradients.norm()
    if not math.isfinite(norm):
        return None
    gradients.clip(norm, settings.clip_norm)
    set_learning_rate(optimizer, rate)
    optimizer.step()
    return norm


def _evaluate(state: TrainState, hooks: Hooks, world: World) -> TrainState:
    assert hooks.evaluate is not None
    metrics = hooks.evaluate(state.step)
    if hooks.log and world.rank == 0:
        hooks.log(state.step, {f"heldout/{name}": float(value) for name, value in metrics.items()})
    loss = metrics.get("loss", math.inf)
    if loss < (state.best[1] if state.best else math.inf):
        state = replace(state, best=(state.step, loss))
    return state
