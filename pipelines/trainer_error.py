"""What a trainer's bug looks like to the user: the traceback of the trainer that failed first, whole and alone."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping

_KEPT = "papermoth_failed"


def keep_traceback(error: Exception) -> None:
    """Note on the exception being handled when it was raised and its traceback, which pickling would leave behind.

    Ray Train hands the driver the bare exceptions of all trainers, and a message with the last lines of each.
    """
    setattr(error, _KEPT, (time.time(), traceback.format_exc()))


def first_traceback(error: BaseException) -> str | None:
    """The traceback that was kept earliest among a group's failures; None when the error brings none.

    A trainer that fails takes the others with it, in collective calls that break off: those say nothing about the bug.
    """
    failures = getattr(error, "worker_failures", None)
    if not isinstance(failures, Mapping):
        return None
    kept = [(*found, rank) for rank, one in failures.items() if (found := getattr(one, _KEPT, None))]
    if not kept:
        return None
    _, told, rank = min(kept)
    return f"trainer {rank} failed first:\n{told}"
