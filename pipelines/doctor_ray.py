"""The doctor's checks of a running Ray: who is there, and what each node sees of code, packages and storage."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from corruption.errors import InputError
from pipelines.doctor_room import check_memory, check_resources, on_gpus
from pipelines.finding import Finding, one_line, told
from pipelines.readable import counted
from pipelines.recipe import Recipe

ALIKE = ("torch", "transformers", "tokenizers", "pyarrow", "numba", "numpy")
"""Packages of which all nodes must have one version: what they compute or write is read by each other."""
PROBE_SECONDS = 120.0


@dataclass(frozen=True)
class Node:
    """A living node: its host's name, role (a label, or empty) and Ray's resources."""

    key: str
    host: str
    role: str
    resources: dict[str, float]


@dataclass(frozen=True)
class Nodes:
    """The nodes of a cluster that answered at an address."""

    address: str
    all: tuple[Node, ...]

    def sum(self, resource: str) -> float:
        """How much of a resource all nodes have together."""
        return sum(node.resources.get(resource, 0.0) for node in self.all)


def reached(address: str) -> tuple[Nodes | None, list[Finding]]:
    """The nodes of the cluster at the address, None where it does not answer, and what there is to say of it."""
    from pipelines.ray_session import RaySession

    found = [check_mode()]
    if closed := check_door(address):
        return None, [*found, closed]
    try:
        with RaySession(address) as session:
            session.start()
            nodes = Nodes(address, living())
    except InputError as fault:
        return None, [*found, told(fault)]
    except Exception as fault:
        do = "start the cluster, correct the address, or give the token (RAY_AUTH_TOKEN_PATH) and Ray's release of it"
        return None, [*found, Finding(f"--address {address}: {one_line(fault)}", do)]
    roles = Counter(node.role or "no role" for node in nodes.all)
    who = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    found.append(
        Finding(
            f"Ray at {address}: {counted(len(nodes.all), 'node')} ({who}), "
            f"{nodes.sum('CPU'):g} CPUs, {nodes.sum('GPU'):g} GPUs"
        )
    )
    return nodes, found


def check_mode() -> Finding:
    """The authentication mode is said aloud; which one Ray takes otherwise depends on a file in the home folder."""
    if said := os.environ.get("RAY_AUTH_MODE"):
        return Finding(f"RAY_AUTH_MODE is {said}")
    return Finding("RAY_AUTH_MODE is not set", "set it to the cluster's own mode: export RAY_AUTH_MODE=token")


def check_door(address: str) -> Finding | None:
    """Where an address names host and port, whether anybody listens: Ray itself would go on asking for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "/" in address:
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10):
            return None
    except (OSError, OverflowError) as fault:
        return Finding(f"--address {address}: nobody answers ({one_line(fault)})", "start the cluster or correct it")


def living() -> tuple[Node, ...]:
    """The living nodes of the Ray that this process has joined."""
    import ray

    return tuple(
        Node(
            node["NodeID"],
            node.get("NodeManagerHostname") or node["NodeID"][:8],
            (node.get("Labels") or {}).get("role", ""),
            dict(node["Resources"]),
        )
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"]
    )


def nodes_findings(nodes: Nodes, recipe: Recipe, memory: int | None) -> Iterator[Finding]:
    """The cluster against the recipe; memory: bytes that a trainer needs, None where there is none."""
    gpus = nodes.sum("GPU")
    if recipe.train is not None:
        yield from check_resources(recipe, nodes.sum("CPU"), gpus, f"Ray at {nodes.address}")
        if memory is not None and not on_gpus(recipe, gpus):
            largest = max(node.resources.get("memory", 0.0) for node in nodes.all)
            yield check_memory(memory, int(largest), "the largest node")
    from pipelines.ray_session import RaySession

    with RaySession(nodes.address) as session:
        session.start()
        answers = asked(nodes.all, places_of(recipe))
    yield from answer_findings(nodes.all, answers)


def places_of(recipe: Recipe) -> list[str]:
    """What every node must see: what the recipe reads, and the folder below which runs and stores go by default."""
    named = [recipe.corpus.store, recipe.tokenizer.located(), recipe.model.init if recipe.model is not None else None]
    paths = [Path(name).expanduser().absolute() for name in named if name and "://" not in name]
    # A name that is no path here is one of the hub.
    return [str(path) for path in (Path.cwd(), *paths) if path.exists()]


def probe(places: Sequence[str]) -> dict[str, Any]:
    """What a node sees: versions of packages (None: not there), and which of the places are missing."""
    import trainers.loop  # noqa: F401  the code, and torch with what it links to

    versions: dict[str, str | None] = {}
    for name in ALIKE:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {"versions": versions, "missing": [place for place in places if not os.path.exists(place)]}


def asked(nodes: Sequence[Node], places: Sequence[str]) -> list[dict[str, Any] | Exception]:
    """The probe's answer of each node, or why there is none."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(probe)
    waiting = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.key, soft=False)).remote(list(places))
        for node in nodes
    ]
    answers: list[dict[str, Any] | Exception] = []
    for one in waiting:
        try:
            answers.append(ray.get(one, timeout=PROBE_SECONDS))
        except Exception as fault:
            answers.append(fault)
    return answers


def answer_findings(nodes: Sequence[Node], answers: Sequence[dict[str, Any] | Exception]) -> Iterator[Finding]:
    """What the answers say: nodes without the code, with other packages, or without the storage."""
    pairs = list(zip(nodes, answers))
    for node, fault in pairs:
        if isinstance(fault, Exception):
            reason = str(fault).strip().splitlines()[-1:] or [type(fault).__name__]
            do = "submit with runtime_env.yaml, or install papermoth there with constraints.txt"
            yield Finding(f"node {node.host} cannot run the code ({reason[0][:160]})", do)
    well = [(node, answer) for node, answer in pairs if isinstance(answer, dict)]
    for name in ALIKE:
        by_version: dict[str, list[str]] = {}
        for node, answer in well:
            by_version.setdefault(answer["versions"][name] or "none", []).append(node.host)
        if len(by_version) > 1:
            who = ", ".join(f"{found} on {' '.join(hosts)}" for found, hosts in sorted(by_version.items()))
            yield Finding(f"{name} differs: {who}", "install all nodes with constraints.txt")
    for place in sorted({place for _, answer in well for place in answer["missing"]}):
        hosts = ", ".join(node.host for node, answer in well if place in answer["missing"])
        do = "put it on storage that every node sees under this path, and give --out there"
        yield Finding(f"{place} is not seen by {hosts}", do)
    if well and all(not answer["missing"] for _, answer in well) and len(well) == len(pairs):
        yield Finding(f"{counted(len(well), 'node')}: the code runs, and each sees what the recipe reads")
