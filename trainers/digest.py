"""A hash of every tensor byte the module receives, per lane and for a whole step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

WORDS = 4
"""A lane's digest as 32-bit words: each is exact in the float64 sums the trainers exchange."""


class InputDigest:
    """While entered, hashes what the module is called with: each tensor's name, dtype, shape and bytes.

    Positional arguments are named by their place. What is hashed is what arrived, on the device, after
    padding.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._hash = hashlib.blake2b(digest_size=4 * WORDS)

    def __enter__(self) -> InputDigest:
        self._handle = self._module.register_forward_pre_hook(self._receive, with_kwargs=True)
        return self

    def __exit__(self, *exception: object) -> None:
        self._handle.remove()

    def _receive(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in [*((str(i), arg) for i, arg in enumerate(args)), *sorted(kwargs.items())]:
            if isinstance(value, Tensor):
                self._hash.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
                self._hash.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)

    def words(self) -> list[int]:
        """The digest of all that was received, as 32-bit words."""
        raw = self._hash.digest()
        return [int.from_bytes(raw[4 * i : 4 * i + 4], "little") for i in range(WORDS)]


def lane_words(lane: int, words: Sequence[int] = (0,) * WORDS) -> dict[str, float]:
    """A lane's digest as named numbers to be summed; zeros for a lane this trainer did not run."""
    return {f"digest/{lane}/{i}": float(word) for i, word in enumerate(words)}


def step_digest(totals: Mapping[str, float], lanes: int) -> str:
    """The step's digest, 32 hex characters: the lanes' digests hashed in lane order, whoever held which."""
    whole = hashlib.blake2b(digest_size=16)
    for lane in range(lanes):
        for i in range(WORDS):
            whole.update(int(totals[f"digest/{lane}/{i}"]).to_bytes(4, "little"))
    return whole.hexdigest()
