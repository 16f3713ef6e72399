"""A Ray to work on: the one already running in this process, a cluster by address, or our own here, kept quiet."""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import threading
import warnings
from typing import Any

from corruption.errors import InputError
from pipelines.quiet import local_ray, quiet

_MB = 1 << 20

PLUMBING = 5
"""CPUs that a local Ray counts for the stages of a stream that only move blocks.

Ray Data sets one CPU aside for each stage before it lets any stage have more; with fewer than there are stages, the
last ones wait until the first have read everything. They use next to no time, so these are shares and no cores.
"""


class RaySession:
    """Ray for the jobs of one command: started when the first needs it, used by all, and shut down at the end.

    A Ray that already runs in this process is used and left as it was. Use it as a context manager.
    """

    def __init__(self, address: str | None = None, *, cpus: int | None = None, gpus: int | None = None) -> None:
        """cpus and gpus: how many our own local Ray counts (None: all there are)."""
        self.address, self._cpus, self._gpus = address, cpus, gpus
        self._ours = False

    def start(self) -> None:
        """Make sure that Ray is up. Raises InputError when no cluster answers at the address."""
        quiet()
        if self.address is None:
            local_ray()
        import ray

        if not ray.is_initialized():
            handlers = _signal_handlers()
            logging.getLogger("ray").setLevel(logging.ERROR)
            try:
                if self.address is None:
                    self._start_local()
                else:
                    ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
            except ConnectionError as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"--address {self.address}", reason, "start the cluster or correct it") from error
            self._ours = True
            # Ray puts its own in their place, under which a signal ends in a C++ stack trace.
            for number, handler in handlers.items():
                signal.signal(number, handler)
        _hush()

    def _start_local(self) -> None:
        import ray

        _without_startup_warning()
        ray.init(
            address="local",
            num_cpus=self._cpus,
            num_gpus=self._gpus,
            resources={CORES: 1.0},
            include_dashboard=False,
            object_store_memory=object_store_bytes(),
            log_to_driver=False,
            logging_level=logging.ERROR,
        )

    def close(self) -> None:
        """Shut down what `start` started."""
        if self._ours:
            import ray

            ray.shutdown()
            self._ours = False

    def __enter__(self) -> RaySession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


CORES = "papermoth-cores"
"""A resource of a local Ray of ours, 1 in all: a task that keeps a core busy takes its share of it."""


def on_cores(workers: int | None) -> dict[str, Any]:
    """Options of `map_batches` for tasks that keep a core busy, on `workers` cores (None: as Ray sees fit).

    Ray Data looks only ten times a second for tasks that have ended. Therefore twice as many are handed to Ray as run:
    a worker goes from one straight to the next. In a cluster that others started, no resource says how many run; there
    two share a core.
    """
    import ray

    if workers is None:
        return {}
    options: dict[str, Any] = {"num_cpus": 0.5, "concurrency": 2 * workers}
    if CORES in ray.cluster_resources():  # type: ignore[no-untyped-call]
        # Ray counts in ten-thousandths; rounded up, the last worker would find too little left.
        options["resources"] = {CORES: math.floor(10_000 / workers) / 10_000}
    return options


def _signal_handlers() -> dict[int, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def _hush() -> None:
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    # That a job of one part cannot keep two workers busy is no news for the user.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"ray\.data\..*")
    for name in ("ray.data", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _without_startup_warning() -> None:
    """Drop one line of Ray's: that more workers start than there are cores, which PLUMBING makes so on purpose.

    Ray prints what a raylet reports straight to standard output, without a logger that could be told; this is the
    function of Ray 2.60 that does.
    """
    import ray._private.worker as worker

    told = getattr(worker, "print_to_stdstream", None)
    if told is None or getattr(told, "papermoth", False):
        return

    def quieter(data: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        lines = [line for line in data.get("lines", ()) if "worker processes have been started on node" not in line]
        if lines:
            told({**data, "lines": lines}, *args, **kwargs)

    quieter.papermoth = True  # type: ignore[attr-defined]
    worker.print_to_stdstream = quieter


def object_store_bytes() -> int:
    """Shared memory for a local Ray: half of what /dev/shm has free, 2 GiB at most, 128 MiB at least."""
    free = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else 1024 * _MB
    return max(128 * _MB, min(2048 * _MB, free // 2))
