"""The doctor's checks of a file for `ray up`: Ray's own schema, and what that lets through and a cloud does not."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipelines.doctor_scale import scale_findings
from pipelines.finding import Finding, one_line
from pipelines.recipe import Recipe

NEEDED = {"aws": ("region",), "gcp": ("region", "availability_zone", "project_id"), "azure": ("location",)}
"""What a provider must be told, and Ray's schema does not ask for."""
MOST = 2
"""Nodes beside the head where max_workers is not given: Ray's own default."""


def cluster_findings(path: Path, recipe: Recipe | None) -> Iterator[Finding]:
    """The checks of the file in order; those of a recipe's demands only where one is given."""
    config, fault = read(path)
    if fault is not None:
        yield fault
        return
    config.setdefault("max_workers", MOST)
    schema = check_schema(config, path.name)
    yield schema
    if schema.do:
        return
    yield check_provider(config)
    yield check_counts(config)
    yield check_head(config)
    yield check_mode(config)
    yield from check_images(config, version("ray"))
    yield from scale_findings(config, recipe)


def read(path: Path) -> tuple[dict[str, Any], Finding | None]:
    """The file as Ray reads it, or why it cannot be."""
    import yaml

    try:
        config = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        return {}, Finding(f"{path}: {error.strerror}", "give the file that ray up is to take")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return {}, Finding(f"{path}: it is no YAML ({one_line(error)})", "correct it")
    if not isinstance(config, dict) or not isinstance(config.get("available_node_types"), dict):
        return {}, Finding(f"{path}: it names no available_node_types", "give a file for ray up, such as cluster.yaml")
    return config, None


def check_schema(config: Mapping[str, Any], name: str) -> Finding:
    """Ray's own schema and checks, which `ray up` asks before it starts anything.

    They are a private door of Ray 2.60; the public one starts machines.
    """
    from ray.autoscaler._private.util import prepare_config, validate_config

    logging.getLogger("ray.autoscaler").setLevel(logging.ERROR)
    try:
        validate_config(prepare_config(copy.deepcopy(dict(config))))
    except Exception as error:
        where = ".".join(str(part) for part in getattr(error, "absolute_path", ()))
        text = one_line(ValueError(getattr(error, "message", str(error))))
        return Finding(f"{name}: {f'{where}: ' if where else ''}{text}", "correct it; Ray refuses it")
    return Finding(f"{name}: Ray takes it")


def check_provider(config: Mapping[str, Any]) -> Finding:
    """The provider knows where to start machines."""
    provider = config["provider"]
    kind = provider["type"]
    missing = [f"provider.{key}" for key in NEEDED.get(kind, ()) if not provider.get(key)]
    if missing:
        return Finding(f"{', '.join(missing)} missing for {kind}", "say where machines are to be started")
    return Finding(f"provider {kind}, {provider.get('region') or provider.get('location') or 'no region needed'}")


def check_counts(config: Mapping[str, Any]) -> Finding:
    """Fewest and most nodes of each type, and of all, agree."""
    most = config["max_workers"]
    least = 0
    for name, kind in config["available_node_types"].items():
        low, high = kind.get("min_workers", 0), kind.get("max_workers", most)
        if low > high:
            return Finding(f"{name}: min_workers {low} is above max_workers {high}", "raise max_workers of the type")
        least += low
    if least > most:
        return Finding(f"min_workers are {least} in sum, max_workers is {most}", "raise max_workers")
    return Finding(f"{least} to {most} nodes beside the head")


def check_head(config: Mapping[str, Any]) -> Finding:
    """Nothing is scheduled on the head, beside the control plane."""
    name = config.get("head_node_type", "")
    resources = config["available_node_types"].get(name, {}).get("resources", {})
    if resources.get("CPU") != 0 or resources.get("GPU", 0):
        found = resources.get("CPU", "those of its machine")
        return Finding(f"{name}: the head has CPUs to give away ({found})", "set its resources to {CPU: 0}")
    return Finding(f"{name}: the head does no work")


def check_mode(config: Mapping[str, Any]) -> Finding:
    """Head and workers say which authentication they use, the same one, and have its token."""
    docker = config.get("docker") or {}
    modes = []
    for side in ("head", "worker"):
        options = [docker.get("run_options"), docker.get(f"{side}_run_options")]
        text = _flat([*options, config.get("setup_commands"), config.get(f"{side}_start_ray_commands")])
        modes.append(sorted(set(re.findall(r"RAY_AUTH_MODE=[\"']?(\w+)", text))))
    head, worker = modes
    if len(head) != 1 or head != worker:
        given = f"head {' and '.join(head) or 'unsaid'}, workers {' and '.join(worker) or 'unsaid'}"
        return Finding(f"authentication: {given}", "add --env RAY_AUTH_MODE=token to docker.run_options")
    text = _flat([list(config.get("file_mounts") or {}), docker])
    if head == ["token"] and not re.search(r"auth_token|RAY_AUTH_TOKEN", text):
        return Finding("authentication: token, but no node gets one", "mount ~/.ray/auth_token in file_mounts")
    return Finding(f"authentication: {head[0]}, said on every node")


def check_images(config: Mapping[str, Any], ray: str) -> Iterator[Finding]:
    """Every image brings the Ray that is installed here, and one Python."""
    docker = config.get("docker") or {}
    images = [docker.get(key) for key in ("image", "head_image", "worker_image")]
    images += [(kind.get("docker") or {}).get("worker_image") for kind in config["available_node_types"].values()]
    named = sorted({image for image in images if image})
    if not named:
        yield Finding(f"no docker image; see to it that setup_commands install ray {ray}")
    for image in named:
        found = re.search(r"\d+\.\d+\.\d+", image.rpartition(":")[2])
        said = found.group() if found else "no release"
        yield Finding(f"{image}: {said} of Ray in its tag", "" if said == ray else f"use an image of Ray {ray}")
    pythons = {found.group() for image in named if (found := re.search(r"\bpy3\d+", image))}
    if len(pythons) > 1:
        yield Finding(f"images of {' and '.join(sorted(pythons))}", "use images of one Python")


def _flat(value: Any) -> str:
    """All text in nested lists, mappings and strings."""
    if isinstance(value, Mapping):
        return _flat([*value, *value.values()])
    if isinstance(value, list | tuple):
        return "\n".join(map(_flat, value))
    return "" if value is None else str(value)
