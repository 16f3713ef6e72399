"""All that a run needs to go on: taken from the live module and optimiser, and put back into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class TrainState:
    """Where a run stands after `step` updates.

    cursor: address (epoch, window, number) of the next microbatch. tokens: real positions eaten. seconds:
    time spent training. skipped: steps that had no label. best: (step, held-out loss) of the lowest so far.
    weights: parameters, shared ones once, and persistent buffers. optimizer: its state_dict. Tensors taken
    from a live module go on changing with it: write or copy them before the next step.
    """

    step: int
    cursor: tuple[int, int, int]
    tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0
    best: tuple[int, float] | None = None
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's live tensors: each parameter once (shared ones under their first name) and saved buffers."""
    saved = module.state_dict()
    named = {name: parameter.detach() for name, parameter in module.named_parameters()}
    return named | {name: buffer for name, buffer in module.named_buffers() if name in saved}


@torch.no_grad()
def restore(state: TrainState, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put the state's weights and optimiser state back, bit for bit.

    Raises RuntimeError, with nothing changed, when the names or shapes are not the module's.
    """
    live = weights_of(module)
    wrong = live.keys() ^ state.weights.keys()
    wrong |= {name for name in live.keys() - wrong if live[name].shape != state.weights[name].shape}
    if wrong:
        raise RuntimeError(
            f"the checkpoint is of another module: {len(wrong)} weights differ, first {min(wrong)}"
        )
    for name, tensor in live.items():
        tensor.copy_(state.weights[name])
    optimizer.load_state_dict(dict(state.optimizer))
