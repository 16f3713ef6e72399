"""The folder of a data set while it is made: hidden beside its place, put there only when everything is in it.

`.<name>.partial/` holds `.request` (the identity of what was asked for), `.records/` (one file for each finished
shard), `.data_set/` (what becomes the folder) and, while another data set is replaced, that one as `.replaced`. All
names are hidden, so that a reader that looks for data files below a folder finds none here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from corruption.errors import InputError
from pipelines.data_set import MANIFEST, PARTS, BrokenDataSet, DataSet, open_data_set, partial_of
from pipelines.out_folder import is_empty
from pipelines.readable import shown
from pipelines.store import write_atomically

REQUEST, RECORDS, MADE, REPLACED = ".request", ".records", ".data_set", ".replaced"


def recover(folder: Path) -> None:
    """Complete what a kill cut short when everything was made: a replacement, or the removal of what was left over."""
    partial = partial_of(folder)
    shutil.rmtree(_doomed(partial), ignore_errors=True)
    if (partial / REPLACED).exists():
        if not folder.exists():
            os.rename(partial / MADE, folder)
        discard(partial)


def existing(folder: Path, *, overwrite: bool) -> DataSet | None:
    """The data set in the folder; None where nothing is, or where `overwrite` may replace a broken one.

    Raises InputError when something else lies there, or beside ours: replacing it would take that away.
    """
    if is_empty(folder):
        return None
    where = f"--out {shown(folder)}"
    if not (folder / MANIFEST).exists():
        raise InputError(where, "the folder holds no data set of ours", "give an empty or new folder")
    if strangers := sorted(path.name for path in folder.iterdir() if path.name not in PARTS):
        what = f"the folder holds {strangers[0]}, which is no part of a data set"
        raise InputError(where, what, "take it out, or give an empty or new folder")
    try:
        return open_data_set(folder)
    except BrokenDataSet:
        if overwrite:
            return None
        raise


def claim(folder: Path, identity: str, *, overwrite: bool) -> Path:
    """The partial folder for this request, new or gone on with.

    Raises InputError when another, unfinished data set lies there, unless `overwrite` discards it.
    """
    partial = partial_of(folder)
    marker = partial / REQUEST
    if marker.exists():
        if marker.read_text("utf-8").strip() == identity:
            return partial
        if not overwrite:
            raise InputError(
                f"--out {shown(folder)}",
                f"another, unfinished data set lies in {partial.name} beside it",
                "finish it with the command that began it, use another --out, or discard it with --overwrite",
            )
        discard(partial)
    elif partial.exists() and any(not _temporary(path) for path in partial.iterdir()):
        raise InputError(f"--out {shown(folder)}", f"{partial.name} beside it is not ours", "use another --out")
    write_atomically(marker, f"{identity}\n".encode())
    return partial


def put(folder: Path) -> None:
    """Give the finished folder its name, moving away first what it replaces, and remove what is left over."""
    partial = partial_of(folder)
    _flush(partial / MADE)
    replaces = folder.exists() and any(folder.iterdir())
    if replaces:
        os.rename(folder, partial / REPLACED)
    try:
        os.rename(partial / MADE, folder)
    except OSError:
        if replaces:
            os.rename(partial / REPLACED, folder)
        raise
    _fsync(folder.parent)
    discard(partial)


def discard(partial: Path) -> None:
    """Remove a partial folder; its name goes first, so that half of it is never gone on with."""
    if partial.exists():
        os.rename(partial, _doomed(partial))
    shutil.rmtree(_doomed(partial), ignore_errors=True)


def tidy(folder: Path, wanted: set[str]) -> None:
    """Remove files that a killed job left in a folder."""
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()


def same_request(folder: Path, identity: str) -> bool:
    """Whether the partial folder, if there is one, is of this request."""
    marker = partial_of(folder) / REQUEST
    return marker.exists() and marker.read_text("utf-8").strip() == identity


def _doomed(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.gone")


def _temporary(path: Path) -> bool:
    return path.name.startswith(f".{REQUEST}.") and path.name.endswith(".tmp")


def _flush(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        _fsync(path)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
