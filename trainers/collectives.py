"""What the trainers of a run tell each other: sums of named numbers, and whether their weights agree."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, distributed, nn


@dataclass(frozen=True)
class World:
    """`size` trainers, of which this is number `rank`; alone it needs no process group."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @staticmethod
    def current(device: torch.device | str = "cpu") -> World:
        """The default process group, or one trainer alone if there is none."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return World(device=torch.device(device))
        return World(distributed.get_rank(), distributed.get_world_size(), torch.device(device))

    def sum_in_place(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over all trainers, the same bits on each."""
        if self.size > 1:
            distributed.all_reduce(tensor)

    def sum_named(self, values: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Sums over all trainers of numbers (or 0-d tensors) in float64; all must give the same names."""
        names = sorted(values)
        numbers = [0.0 if isinstance(values[name], Tensor) else float(values[name]) for name in names]
        vector = torch.tensor(numbers, dtype=torch.float64).to(self.device)
        if tensors := {i: t for i, name in enumerate(names) if isinstance(t := values[name], Tensor)}:
            vector[list(tensors)] = torch.stack([t.detach().to(vector) for t in tensors.values()])
        self.sum_in_place(vector)
        return dict(zip(names, vector.tolist()))

    def wait(self) -> None:
        """Return when all trainers are here."""
        self.sum_named({"here": 1.0})

    def check_equal_weights(self, module: nn.Module) -> None:
        """Raise RuntimeError, on every trainer, unless all hold the same bytes in all weights."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in sorted(module.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        words = torch.frombuffer(bytearray(digest.digest()), dtype=torch.int32).to(torch.int64)
        slots = torch.zeros(self.size, len(words), dtype=torch.int64)
        slots[self.rank] = words
        slots = slots.to(self.device)
        self.sum_in_place(slots)
        if other := [rank for rank in range(self.size) if not torch.equal(slots[rank], slots[0])]:
            raise RuntimeError(f"trainers {other} start from other weights than trainer 0")
