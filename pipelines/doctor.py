"""First checks of a machine and a recipe: each line says what is well, or what is wrong and what to do."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from pipelines.finding import Finding, one_line
from pipelines.outcome import JobFailed
from pipelines.recipe import Recipe

PACKAGES = (
    "ray",
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "pyarrow",
    "numpy",
    "numba",
    "mlflow",
    "pydantic",
)
FREE_BYTES = 5 << 30
SHARED_MEMORY_BYTES = 512 << 20


def doctor(
    recipe: Recipe | None,
    *,
    address: str | None = None,
    cluster: Path | None = None,
    say: Callable[[str], None] = typer.echo,
) -> None:
    """Say one line for each check. Raises JobFailed when any of them found a fault."""
    wrong = 0
    total = 0
    for finding in findings(recipe, address, cluster):
        say(str(finding))
        total += 1
        wrong += bool(finding.do)
    if wrong:
        raise JobFailed(f"{wrong} of {total} checks found something to mend")


def findings(recipe: Recipe | None, address: str | None = None, cluster: Path | None = None) -> Iterator[Finding]:
    """The checks of this machine in order, then of a running Ray, of the recipe, and of a file for `ray up`."""
    yield from machine_findings()
    if address is not None:
        from pipelines.doctor_ray import reached

        nodes, told = reached(address)
        yield from told
    else:
        nodes = None
    if recipe is not None:
        from pipelines.doctor_recipe import recipe_findings

        yield from recipe_findings(recipe, nodes, remote=address is not None or cluster is not None)
    if cluster is not None:
        from pipelines.doctor_cluster import cluster_findings

        yield from cluster_findings(cluster, recipe)


def machine_findings() -> Iterator[Finding]:
    """The checks of this machine."""
    yield check_python(sys.version_info[:2])
    for package in PACKAGES:
        yield check_package(package)
    yield check_torch()
    yield check_ray()
    yield check_folder(Path.cwd())
    yield check_space(
        "the working directory", Path.cwd(), FREE_BYTES, "free some space or work on another disk"
    )
    if Path("/dev/shm").is_dir():
        yield check_space(
            "/dev/shm", Path("/dev/shm"), SHARED_MEMORY_BYTES, "start the container with --shm-size=4g"
        )
    yield check_numba_cache()


def check_python(found: tuple[int, int]) -> Finding:
    """Python is new enough."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    text = f"Python {platform.python_version()} on {machine}"
    return Finding(text, "" if found >= (3, 11) else "install Python 3.11 or newer")


def check_package(name: str) -> Finding:
    """The package is installed; Ray is the release that Papermoth was built for."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(f"{name} is not installed", "pip install papermoth")
    if name == "ray" and not found.startswith("2.60."):
        return Finding(
            f"ray {found}, but Papermoth is built for 2.60", "pip install 'ray[train,data]>=2.60,<2.61'"
        )
    return Finding(f"{name} {found}")


def check_torch() -> Finding:
    """torch can be imported, and which GPUs it sees; an NVIDIA driver without a usable GPU is a fault."""
    try:
        import torch
    except Exception as fault:
        return Finding(f"torch cannot be imported ({one_line(fault)})", "reinstall torch")
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return Finding(f"torch sees {names}")
    if Path("/proc/driver/nvidia/version").exists():
        built = torch.version.cuda or "no CUDA"
        return Finding(
            f"there is an NVIDIA driver, but torch ({built}) sees no GPU",
            "install a matching torch",
        )
    return Finding("torch works on the CPU; no GPU here")


def check_ray() -> Finding:
    """Ray Data and Ray Train can be imported; no Ray is started."""
    try:
        import ray
        import ray.data
        import ray.train.torch  # noqa: F401
    except Exception as fault:
        return Finding(f"Ray cannot be imported ({one_line(fault)})", "pip install 'ray[train,data]'")
    address = os.environ.get("RAY_ADDRESS")
    return Finding(f"Ray can be imported{f', RAY_ADDRESS is {address}' if address else ''}")


def check_folder(folder: Path) -> Finding:
    """A file can be made in the folder."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return Finding(f"{folder} can be written to")
    except OSError as fault:
        return Finding(
            f"{folder} cannot be written to ({fault.strerror})", "work in another folder or give --out"
        )


def check_space(name: str, folder: Path, wanted: int, do: str) -> Finding:
    """At least `wanted` bytes are free."""
    free = shutil.disk_usage(folder).free
    return Finding(f"{name} has {free / 2**30:.1f} GiB free", "" if free >= wanted else do)


def check_numba_cache() -> Finding:
    """Compiled kernels can be kept: beside the package, or in numba's or the user's cache folder."""
    import corruption

    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(corruption.__file__).parent
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in [Path(given)] if given else [beside, user]:
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if os.access(nearest, os.W_OK):
            return Finding(f"compiled kernels are kept under {folder}")
    return Finding(
        "compiled kernels cannot be kept, so each process compiles anew", "set NUMBA_CACHE_DIR to a folder"
    )
