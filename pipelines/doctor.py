"""First checks of a machine and a recipe: each line says what is well, or what is wrong and what to do."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from corruption.errors import InputError
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


@dataclass(frozen=True)
class Finding:
    """One checked thing: `what` was found, and, if that is wrong, what to `do`."""

    what: str
    do: str = ""

    def __str__(self) -> str:
        return f"!! {self.what}; {self.do}" if self.do else f"ok {self.what}"


def doctor(recipe: Recipe | None, say: Callable[[str], None] = typer.echo) -> None:
    """Say one line for each check. Raises JobFailed when any of them found a fault."""
    wrong = 0
    total = 0
    for finding in findings(recipe):
        say(str(finding))
        total += 1
        wrong += bool(finding.do)
    if wrong:
        raise JobFailed(f"{wrong} of {total} checks found something to mend")


def findings(recipe: Recipe | None) -> Iterator[Finding]:
    """The checks of the machine in order, then those of the recipe."""
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
    if recipe is not None:
        yield check_corpus(recipe)
        yield check_tokenizer(recipe)
        yield check_tracking(recipe)


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
        return Finding(f"torch cannot be imported ({_line(fault)})", "reinstall torch")
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
        return Finding(f"Ray cannot be imported ({_line(fault)})", "pip install 'ray[train,data]'")
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


def check_corpus(recipe: Recipe) -> Finding:
    """The corpus is there and its first usable document can be read."""
    try:
        if recipe.corpus.store is not None:
            from pipelines.store import open_store

            store = open_store(Path(recipe.corpus.store).expanduser())
            store.check_files()
            return Finding(f"corpus: store {store.folder}, {len(store.manifest['shards'])} shards")
        from pipelines.preview_passages import read_documents

        documents = read_documents(recipe, 1)
        if not documents:
            return Finding(
                "corpus: no usable document in it", "run papermoth prepare to see why each was rejected"
            )
        first = documents[0]
        return Finding(f"corpus: first document {first.title or first.key}, {len(first.text)} characters")
    except InputError as fault:
        return Finding(f"corpus: {fault.where}: {fault.given}", fault.do)


def check_tokenizer(recipe: Recipe) -> Finding:
    """The tokenizer loads and has what objective and corruptions need; one to train is only named."""
    asked = recipe.tokenizer.train
    if asked is not None:
        return Finding(f"tokenizer: {asked.kind} of {asked.vocab_size}, to be trained on the corpus")
    try:
        from corruption.vocabulary import Vocabulary
        from pipelines.preview_passages import find_tokenizer

        tokenizer, note = find_tokenizer(recipe)
        recipe.chain().check(Vocabulary.from_tokenizer(tokenizer), recipe.content_tokens())
        return Finding(f"{note}, {len(tokenizer)} tokens")
    except InputError as fault:
        return Finding(f"{fault.where}: {fault.given}", fault.do)


def check_tracking(recipe: Recipe) -> Finding:
    """The tracking store answers; the default one is only made when a run needs it."""
    uri = recipe.tracking.uri
    if uri is None:
        return Finding("tracking: runs/mlflow.db, made by the first run")
    try:
        from mlflow import MlflowClient

        MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
        return Finding(f"tracking: {uri} answers")
    except Exception as fault:
        return Finding(
            f"tracking: {uri} does not answer ({_line(fault)})", "mend tracking.uri or start the server"
        )


def _line(fault: Exception) -> str:
    return " ".join(str(fault).split())[:160] or type(fault).__name__
