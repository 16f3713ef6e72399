"""The folder a user names for what a job writes: a link is followed, a file is refused, nothing foreign is touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corruption.errors import InputError


def located(out: Path) -> Path:
    """The folder itself: absolute, a leading ~ expanded, links followed, so that replacing it keeps the link."""
    return out.expanduser().resolve()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder against other processes of this machine; the lock file lies beside it and goes with its owner.

    Raises InputError when another command works in the folder.
    """
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        do = "wait for it, or use another --out"
        raise InputError(f"folder {folder}", "another command works in it", do) from None
    try:
        yield
    finally:
        lock.release()


def is_empty(folder: Path) -> bool:
    """Whether nothing lies there, a missing folder included. Raises InputError when it is a file."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}", "it is a file", "give an empty or new folder")
    return not folder.exists() or not any(folder.iterdir())
