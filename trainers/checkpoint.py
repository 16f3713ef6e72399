"""Checkpoints on disk: one folder per step, whole or not there, and refused by a run of another identity."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from corruption.errors import InputError
from trainers.folders import PARTIAL, beside, flush, put, remove
from trainers.state import TrainState

WEIGHTS, OPTIMIZER, STATE, COMPLETE = "model.safetensors", "optimizer.pt", "state.json", "complete.json"
_NAME = re.compile(r"^step_(\d{7,})$")


def save(directory: Path, state: TrainState, identity: Mapping[str, str]) -> Path:
    """Write `<directory>/step_0000020/` for a state after 20 steps, and return it; one trainer does this.

    The folder appears under its name only when all of it, with the sizes and checksums in complete.json, is
    on the disk. A whole checkpoint of that step and identity is kept as it is, since it holds the same.
    Raises InputError when the directory holds a checkpoint of that step of another identity.
    """
    folder = directory / f"step_{state.step:07d}"
    if folder.exists() and damage(folder) is None:
        check_identity(folder, identity)
        return folder
    partial = beside(folder)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.weights.items()}
    save_file(weights, partial / WEIGHTS, metadata={"format": "pt"})
    torch.save(state.optimizer, partial / OPTIMIZER)
    scalars = {
        "step": state.step,
        "cursor": list(state.cursor),
        "tokens": state.tokens,
        "seconds": state.seconds,
        "skipped": state.skipped,
        "best": list(state.best) if state.best else None,
        "identity": dict(identity),
    }
    (partial / STATE).write_text(json.dumps(scalars, indent=1, sort_keys=True))
    flush(partial)
    contents = {path.name: [path.stat().st_size, _checksum(path)] for path in sorted(partial.iterdir())}
    (partial / COMPLETE).write_text(json.dumps(contents, indent=1, sort_keys=True))
    flush(partial)
    put(partial, folder)
    return folder


def load(folder: Path, identity: Mapping[str, str] | None = None) -> TrainState:
    """The state in a checkpoint folder, its tensors on the CPU.

    Raises InputError when the folder is not whole, or is of another identity (None: any), naming the keys
    that differ.
    """
    if problem := damage(folder):
        raise InputError(
            f"checkpoint {folder}", problem, "use another checkpoint, or start anew with --fresh"
        )
    if identity is not None:
        check_identity(folder, identity)
    scalars = json.loads((folder / STATE).read_text())
    epoch, window, number = scalars["cursor"]
    return TrainState(
        step=scalars["step"],
        cursor=(epoch, window, number),
        tokens=scalars["tokens"],
        seconds=scalars["seconds"],
        skipped=scalars["skipped"],
        best=tuple(scalars["best"]) if scalars["best"] else None,
        weights=load_file(folder / WEIGHTS),
        optimizer=torch.load(folder / OPTIMIZER, map_location="cpu", weights_only=True),
    )


def steps_in(directory: Path) -> dict[int, Path]:
    """The folders named like a checkpoint, by step, whole or not."""
    if not directory.is_dir():
        return {}
    found = {int(match[1]): path for path in directory.iterdir() if (match := _NAME.match(path.name))}
    return dict(sorted(found.items()))


def latest(directory: Path) -> tuple[Path | None, list[str]]:
    """The newest whole checkpoint of a directory, and a line for each newer one passed over as not whole."""
    warnings: list[str] = []
    for folder in reversed(steps_in(directory).values()):
        problem = damage(folder)
        if problem is None:
            return folder, warnings
        warnings.append(f"checkpoint {folder} is passed over: {problem}")
    return None, warnings


def damage(folder: Path) -> str | None:
    """Why a checkpoint folder is not whole (a file missing, of another size or checksum), or None."""
    try:
        contents = json.loads((folder / COMPLETE).read_text())
        for name, (size, checksum) in contents.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != size:
                return f"{name} has {path.stat().st_size} bytes instead of {size}"
            if _checksum(path) != checksum:
                return f"{name} has another checksum"
        if missing := {WEIGHTS, OPTIMIZER, STATE} - contents.keys():
            return f"{min(missing)} is missing"
    except FileNotFoundError:
        return f"{COMPLETE} is missing"
    except (ValueError, TypeError, AttributeError, OSError) as error:
        return f"{COMPLETE} cannot be read ({error})"
    return None


def check_identity(folder: Path, identity: Mapping[str, str]) -> None:
    """Raise InputError, naming the keys that differ, unless the checkpoint was made under this identity."""
    stored: dict[str, str] = json.loads((folder / STATE).read_text())["identity"]
    differing = sorted(k for k in stored.keys() | identity.keys() if stored.get(k) != identity.get(k))
    if differing:
        told = ", ".join(
            f"{k} ({stored.get(k, 'none')} there, {identity.get(k, 'none')} now)" for k in differing
        )
        raise InputError(
            f"checkpoint {folder}", f"made with another {told}", "change it back or start with --fresh"
        )


def prune(directory: Path, keep: int, best: int | None = None) -> list[Path]:
    """Remove all but the newest `keep` checkpoints and that of step `best`; also what broken-off saves left.

    Returns what is gone. Only call it when no save is under way.
    """
    steps = steps_in(directory)
    gone = [path for step, path in list(steps.items())[:-keep] if step != best]
    if directory.is_dir():
        gone += [path for path in directory.iterdir() if path.name.startswith(PARTIAL)]
    for path in gone:
        remove(path)
    return gone


def _checksum(path: Path) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def position(folder: Path) -> tuple[int, tuple[int, int, int]]:
    """(steps done, address of the next microbatch) of a checkpoint, without its tensors."""
    scalars = json.loads((folder / STATE).read_text())
    epoch, window, number = scalars["cursor"]
    return scalars["step"], (epoch, window, number)
