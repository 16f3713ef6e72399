"""The machine's own numbers (processor, memory, disk, network, GPU) as metrics of the run."""

from __future__ import annotations

import contextlib
import importlib
import threading
from types import TracebackType
from typing import Any

from pipelines.tracking_store import RunHandle, Warn, client, log_warning, short_reason


class SystemMetrics:
    """Samples this machine every `interval` seconds between `start` and `stop`, also as a context manager.

    Logged as "system/..." ("system/<node>/..." with a node name), the step being the sample's number, which
    goes on after a resume. A machine without GPU, or without NVIDIA's library, is sampled without one,
    silently.
    """

    def __init__(
        self, handle: RunHandle, *, interval: float = 10.0, node: str | None = None, warn: Warn = log_warning
    ) -> None:
        self._handle, self._interval, self._node, self._warn = handle, interval, node, warn
        self._monitor: Any = None

    def start(self) -> None:
        """Begin sampling; warns and does nothing if that is impossible here."""
        if self._monitor is not None:
            return
        try:
            client(self._handle.uri)
            with contextlib.suppress(ImportError):
                importlib.import_module("pynvml")  # mlflow only looks at GPUs whose library is already loaded
            _need_psutil()
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

            kind: Any = SystemMetricsMonitor  # untyped
            self._monitor = kind(
                self._handle.run_id,
                sampling_interval=self._interval,
                resume_logging=True,
                node_id=self._node,
                tracking_uri=self._handle.uri,
            )
            self._monitor.start()
        except Exception as error:
            self._monitor = None
            self._warn(f"system metrics are off ({short_reason(error)}); the job goes on")

    def stop(self, timeout: float = 10.0) -> None:
        """End sampling; a store that does not answer is left behind after `timeout` seconds."""
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            ending = threading.Thread(target=monitor.finish, daemon=True, name="end of system metrics")
            ending.start()
            ending.join(timeout)

    def __enter__(self) -> SystemMetrics:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _need_psutil() -> None:
    try:
        importlib.import_module("psutil")
    except ImportError:
        importlib.import_module("ray")  # brings its own copy and makes it importable
        importlib.import_module("psutil")
