"""Folders that are there whole or not at all: written beside their place, flushed to disk, then renamed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PARTIAL = ".partial-"
"""Prefix of a folder being written or removed; whoever finds one may delete it."""


def beside(folder: Path) -> Path:
    """An empty folder next to `folder` to write into, on the same file system; a left-over one is emptied."""
    partial = folder.parent / f"{PARTIAL}{folder.name}"
    remove(partial)
    partial.mkdir(parents=True)
    return partial


def flush(folder: Path) -> None:
    """Force all files of a folder, and their names, to the disk."""
    for path in [*sorted(path for path in folder.rglob("*")), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def put(partial: Path, folder: Path) -> None:
    """Give the written folder its name; a folder that has the name already is replaced."""
    if folder.exists():
        old = folder.parent / f"{PARTIAL}old-{folder.name}"
        remove(old)
        os.replace(folder, old)
        os.replace(partial, folder)
        remove(old)
    else:
        os.replace(partial, folder)
    handle = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(folder: Path) -> None:
    """Delete a folder if it is there; its name goes first, so that half of it is never taken for whole."""
    if folder.is_dir():
        doomed = folder
        if not folder.name.startswith(PARTIAL):
            doomed = folder.parent / f"{PARTIAL}gone-{folder.name}"
            remove(doomed)
            os.replace(folder, doomed)
        shutil.rmtree(doomed)
