"""The folder a user names for what a job writes: a link is followed, a file is refused, nothing foreign is touched."""

from __future__ import annotations

from pathlib import Path

from corruption.errors import InputError


def located(out: Path) -> Path:
    """The folder itself: absolute, a leading ~ expanded, links followed, so that replacing it keeps the link."""
    return out.expanduser().resolve()


def is_empty(folder: Path) -> bool:
    """Whether nothing lies there, a missing folder included. Raises InputError when it is a file."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}", "it is a file", "give an empty or new folder")
    return not folder.exists() or not any(folder.iterdir())
