"""The files behind a path, folder, glob or list, in an order that depends on their names alone."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from corruption.errors import InputError
from pipelines.formats.dataset import HUB, is_saved_dataset
from pipelines.formats.unit import Source

_WHERE = "corpus.sources"


def listed(spec: Source, base: Path) -> list[tuple[str, str]]:
    """(relative path, absolute path) of each file, saved data set or hub name of the source, sorted, each
    once.

    Relative means below the deepest folder that all of the source's paths share, so moving that folder
    changes nothing. In folders, names that begin with "." or "_" are skipped; links are followed.

    Raises:
        InputError: a pattern or path matches nothing.
    """
    patterns = (spec.source,) if isinstance(spec.source, str) else spec.source
    hub = [pattern for pattern in patterns if pattern.startswith(HUB)]
    places = [_place(pattern, base) for pattern in patterns if not pattern.startswith(HUB)]
    root = os.path.commonpath([root for root, _ in places]) if places else ""
    found = {path: _relative(path, root) for _, paths in places for path in paths}
    files = sorted((relative, path) for path, relative in found.items())
    return [(f"{name.removeprefix(HUB)}/{spec.split}", name) for name in dict.fromkeys(hub)] + files


def _place(pattern: str, base: Path) -> tuple[str, list[str]]:
    """The folder that relative paths start from, and the absolute paths of the files."""
    if "://" in pattern:
        raise InputError(_WHERE, f"{pattern!r} is not on this machine", "mount or copy it and give a path")
    # Expanded once and made absolute here: a worker has another working directory. Links stay as given.
    path = os.path.abspath(os.path.join(base, os.path.expanduser(pattern)))
    if os.path.isdir(path):
        if is_saved_dataset(path):
            return os.path.dirname(path), [path]
        files = list(_walk(path, frozenset()))
        if not files:
            raise InputError(_WHERE, f"folder {pattern!r} holds no file", "check the path")
        return path, files
    if os.path.isfile(path) and not pattern.endswith("/"):
        return os.path.dirname(path), [path]
    if not glob.has_magic(pattern):
        raise InputError(_WHERE, f"there is no file {pattern!r} in {base}", "check the path")
    matches = sorted(glob.glob(path, recursive=True))
    files = [file for match in matches for file in _files_of(match)]
    if not files:
        raise InputError(_WHERE, f"no file matches {pattern!r} in {base}", "check the pattern")
    parts = path.split(os.sep)
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return os.sep.join(parts[:fixed]) or os.sep, files


def _files_of(match: str) -> list[str]:
    if _is_file(match) or is_saved_dataset(match):
        return [match]
    return list(_walk(match, frozenset())) if os.path.isdir(match) else []


def _walk(folder: str, above: frozenset[str]) -> Iterator[str]:
    real = os.path.realpath(folder)
    if real in above:  # a link back to a folder that leads here
        return
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(_WHERE, f"folder {folder!r}: {error.strerror}", "make it readable") from error
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith((".", "_")):
            continue
        if os.path.isdir(path) and not is_saved_dataset(path):
            yield from _walk(path, above | {real})
        elif _is_file(path) or os.path.isdir(path):
            yield path


def _is_file(path: str) -> bool:
    """Whether it is an ordinary file or a link to nothing, which reading will tell; pipes are left alone."""
    return os.path.isfile(path) or not os.path.exists(path)


def _relative(path: str, root: str) -> str:
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    return relative.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
