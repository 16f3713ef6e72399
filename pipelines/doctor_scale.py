"""The doctor's check that a cluster at its largest has what a recipe asks for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.doctor_room import cpus_needed, on_gpus
from pipelines.finding import Finding
from pipelines.ray_session import PLUMBING
from pipelines.readable import counted
from pipelines.recipe import Recipe


def scale_findings(config: Mapping[str, Any], recipe: Recipe | None) -> Iterator[Finding]:
    """Roles are there; with a recipe also GPUs for its trainers and CPUs for the rest, all types at their largest."""
    roles = {role: most(config, role) for role in ("corrupt", "train")}
    for role, nodes in roles.items():
        text = f"at most {counted(nodes, 'node')} with the label role: {role}"
        yield Finding(text, "" if nodes else f"add a node type with labels {{role: {role}}} and max_workers above 0")
    if recipe is None or recipe.train is None or not all(roles.values()):
        return
    gpus = total(config, "GPU")
    trainers = recipe.cluster.trainers
    needed = 0
    if on_gpus(recipe, gpus) or (gpus and recipe.cluster.gpus == "auto"):
        if gpus < trainers:
            yield Finding(
                f"{counted(trainers, 'trainer')} of {recipe.name} need a GPU each, and there are at most {gpus}",
                "raise max_workers of the GPU nodes, or lower cluster.trainers",
            )
            return
        needed = nodes_for(config, "GPU", trainers)
        yield Finding(f"{counted(trainers, 'trainer')} of {recipe.name} on {counted(needed, 'node')} with GPUs")
    else:
        yield Finding(f"{counted(trainers, 'trainer')} of {recipe.name} on CPUs")
    if needed >= _all(config):
        yield Finding(
            f"max_workers {_all(config)} is used up by the trainers' nodes, none is left to corrupt",
            "raise max_workers",
        )
    cpus, wanted = total(config, "CPU"), cpus_needed(recipe, gpus)
    yield Finding(
        f"at most {cpus} CPUs; corruptors, trainers without GPUs and {PLUMBING} stages that move blocks need {wanted}",
        "" if cpus >= wanted else "raise max_workers of the CPU nodes",
    )


def _all(config: Mapping[str, Any]) -> int:
    return int(config["max_workers"])


def _workers(config: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """(most nodes, type) of each type that can be started beside the head."""
    return [
        (min(kind.get("max_workers", _all(config)), _all(config)), kind)
        for name, kind in config["available_node_types"].items()
        if name != config.get("head_node_type") or kind.get("max_workers", 0)
    ]


def most(config: Mapping[str, Any], role: str) -> int:
    """The most nodes with a role."""
    return sum(count for count, kind in _workers(config) if (kind.get("labels") or {}).get("role") == role)


def total(config: Mapping[str, Any], resource: str) -> int:
    """The most of a resource that the cluster can have, the nodes that bring most of it started first."""
    left, found = _all(config), 0
    for each, count in _largest(config, resource):
        found += each * min(count, left)
        left -= min(count, left)
    return found


def nodes_for(config: Mapping[str, Any], resource: str, wanted: int) -> int:
    """The fewest nodes that bring `wanted` of a resource, which must be there."""
    nodes = 0
    for each, count in _largest(config, resource):
        taken = min(count, math.ceil(wanted / each)) if each else 0
        nodes, wanted = nodes + taken, max(0, wanted - taken * each)
    return nodes


def _largest(config: Mapping[str, Any], resource: str) -> list[tuple[int, int]]:
    """(amount of the resource, most nodes) of each type, the largest first."""
    kinds = [(int(kind["resources"].get(resource, 0)), count) for count, kind in _workers(config)]
    return sorted(kinds, reverse=True)
