"""Killing Ray's workers in the middle of a task, and only ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def hunted(task: str, most: int) -> Iterator[list[int]]:
    """Kill the first `most` worker processes that are seen in the task of this name; yields their numbers."""
    killed: list[int] = []
    over = threading.Event()

    def hunt() -> None:
        while not over.is_set() and len(killed) < most:
            for process in workers(task):
                if process.pid not in killed:
                    process.kill()
                    killed.append(process.pid)
            time.sleep(0.005)

    hunter = threading.Thread(target=hunt)
    hunter.start()
    try:
        yield killed
    finally:
        over.set()
        hunter.join()


def workers(task: str) -> list[psutil.Process]:
    """Our own Ray's worker processes that are in the task now; an idle one has another title."""
    mine = psutil.Process().children(recursive=True)
    return [process for process in mine if any(task in part for part in _command(process))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
