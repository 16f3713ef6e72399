"""What the loop calls back, so that it knows no tracking, no Ray and no disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainers.state import TrainState


@dataclass(frozen=True)
class Hooks:
    """Callables, each optional. A step given to them is the number of steps done, so the first is 1.

    log(step, {name: float}): on trainer 0. digest(step, hex): on trainer 0, for each step that ran.
    evaluate(step): on all trainers together; returns the held-out metrics, which are logged as
    heldout/<name> and whose `loss` decides which checkpoint is the best. save(state): on all trainers
    together. should_stop(): on each trainer at each step; when one says yes all finish the step, save, and
    stop.
    """

    log: Callable[[int, dict[str, float]], None] | None = None
    digest: Callable[[int, str], None] | None = None
    evaluate: Callable[[int], dict[str, float]] | None = None
    save: Callable[[TrainState], None] | None = None
    should_stop: Callable[[], bool] | None = None
