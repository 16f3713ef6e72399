"""Torch's generators seeded for a while and then put back: nobody else's random state is read or altered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from corruption.noise import stream


@contextmanager
def seeded(seed: int, *parts: int | str, device: torch.device | str = "cpu") -> Iterator[None]:
    """Inside, torch draws on the CPU and `device` from stream (seed, parts...); after, from its old state."""
    state = stream(seed, *parts)
    generators = [torch.default_generator]
    place = torch.device(device)
    if place.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        generators.append(torch.cuda.default_generators[place.index or 0])
    before = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(state)
        yield
    finally:
        for generator, kept in zip(generators, before):
            generator.set_state(kept)
