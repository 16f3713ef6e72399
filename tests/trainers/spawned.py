"""Run a function on several trainers, each a process of its own, joined by gloo over loopback."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing

from trainers.collectives import World


def run_on(size: int, function: Callable[[World, Path], Any], folder: Path) -> list[Any]:
    """What `function(world, folder)` returned on each of `size` trainers, in order of rank."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.trainers.tiny", "trainers.objectives.mlm"])  # import torch once
    folder.mkdir(parents=True, exist_ok=True)
    multiprocessing.start_processes(
        _trainer, (size, function, folder), nprocs=size, join=True, start_method="forkserver"
    )
    return [torch.load(folder / f"result-{rank}.pt", weights_only=False) for rank in range(size)]


def _trainer(rank: int, size: int, function: Callable[[World, Path], Any], folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),
    )
    try:
        torch.save(function(World.current(), folder), folder / f"result-{rank}.pt")
        distributed.barrier()
    finally:
        distributed.destroy_process_group()
