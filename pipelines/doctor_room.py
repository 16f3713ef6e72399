"""The doctor's arithmetic of room: trainers, corruptors and memory against what there is, here or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from pipelines.finding import Finding
from pipelines.ray_session import PLUMBING
from pipelines.readable import amount, counted
from pipelines.recipe import Recipe


def on_gpus(recipe: Recipe, gpus: float) -> bool:
    """Whether trainers take GPUs where there are this many, as a run decides it."""
    asked = recipe.cluster.gpus
    return gpus >= recipe.cluster.trainers if asked == "auto" else bool(asked)


def cpus_needed(recipe: Recipe, gpus: float) -> int:
    """CPUs that a cluster must have: one for each trainer without a GPU, the corruptors, and what moves blocks."""
    corruptors = recipe.cluster.corruptors
    trainers = 0 if on_gpus(recipe, gpus) else recipe.cluster.trainers
    return trainers + (1 if corruptors == "auto" else int(corruptors)) + PLUMBING


def check_resources(recipe: Recipe, cpus: float, gpus: float, where: str) -> Iterator[Finding]:
    """GPUs for the trainers and CPUs for the rest; `where` names who has them."""
    trainers = recipe.cluster.trainers
    use = on_gpus(recipe, gpus)
    if use and gpus < trainers:
        yield Finding(
            f"{where}: {gpus:g} GPUs for {counted(trainers, 'trainer')}",
            f"set cluster.trainers to {gpus:g} or add GPUs" if gpus else "set cluster.gpus to false or add GPUs",
        )
    elif gpus and not use and recipe.cluster.gpus == "auto":
        yield Finding(
            f"{where}: {gpus:g} GPUs for {counted(trainers, 'trainer')}, so all would train on CPUs",
            f"set cluster.trainers to {gpus:g}, add GPUs, or set cluster.gpus to false",
        )
    else:
        yield Finding(f"{where}: {counted(trainers, 'trainer')} on {'GPUs' if use else 'CPUs'}")
    if cpus < (needed := cpus_needed(recipe, gpus)):
        yield Finding(
            f"{where}: {cpus:g} CPUs, but trainers, corruptors and {PLUMBING} stages that move blocks need {needed}",
            "add CPU nodes, or lower cluster.trainers or cluster.corruptors",
        )


def here_findings(recipe: Recipe, memory: int | None) -> Iterator[Finding]:
    """This machine against the recipe; a Ray of our own is told of the CPUs it needs, so only GPUs and memory count."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # A Ray of our own counts as many CPUs as the run needs.
    yield from check_resources(recipe, cpus_needed(recipe, gpus), gpus, f"this machine, {os.cpu_count()} CPUs")
    if memory is None:
        return
    if on_gpus(recipe, gpus) and gpus:
        least = min(torch.cuda.get_device_properties(number).total_memory for number in range(gpus))
        yield check_memory(memory, least, "the smallest GPU")
    elif not on_gpus(recipe, gpus):
        trainers = recipe.cluster.trainers
        yield check_memory(memory * trainers, psutil.virtual_memory().available, "this machine", trainers)


def check_memory(needed: int, there: int, where: str, trainers: int = 1) -> Finding:
    """The trainers of one place fit into its memory."""
    who = counted(trainers, "trainer")
    text = f"{where} has {amount(there, 'B')} of memory, {who} there need {amount(needed, 'B')}"
    return Finding(text, "" if needed <= there else "lower train.microbatch_tokens, the trainers or the model's size")
