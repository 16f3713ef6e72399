"""Writes that fail, as a command tells them: a full disk or one that refuses is no bug and needs no traceback."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corruption.errors import InputError
from pipelines.outcome import JobFailed

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DENIED = (errno.EROFS, errno.EACCES, errno.EPERM)


def not_written(error: OSError, where: str, done: str = "") -> Exception:
    """What the command raises for a failed write to `where`: InputError or JobFailed; `done` says what is kept."""
    why, again = error.strerror or str(error), "run the same command again, which goes on from there"
    if error.errno in DENIED:
        return InputError(where, f"it cannot be written to ({why}){done}", f"allow it and {again}")
    if error.errno in FULL:
        return JobFailed(f"{where}: the disk is full ({why}){done}; free some space and {again}")
    return JobFailed(f"{where}: writing failed ({why}){done}; mend the disk and {again}")


def fault_of(error: OSError) -> dict[str, Any]:
    """A failed write as data: an exception out of a task comes wrapped in the traceback of all that waited for it."""
    return {"errno": error.errno or 0, "why": error.strerror or str(error)}


def error_of(fault: dict[str, Any]) -> OSError:
    """The error that `fault_of` told."""
    return OSError(fault["errno"], fault["why"])


@contextmanager
def writing(where: str, done: str = "") -> Iterator[None]:
    """A failed write becomes the one line that says so."""
    try:
        yield
    except OSError as error:
        raise not_written(error, where, done) from error
