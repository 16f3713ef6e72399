"""The environment that keeps libraries quiet and their telemetry off, set before any of them is imported."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_ALWAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else workers under `uv run` rebuild an environment
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a task that asks for no GPU still sees which there are
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}


def quiet() -> None:
    """Set what every command needs; a value that the user has set stays."""
    for name, value in _ALWAYS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("NUMBA_CACHE_DIR", str(kernel_cache()))


def kernel_cache() -> Path:
    """Where compiled kernels are kept: a folder named by the source of the kernels and of all they could use.

    Numba looks only at the file that a kernel stands in, so a kernel compiled before another file was changed, whose
    function it calls or whose constant it took in, would be taken for new. Another name for other sources makes that
    impossible.
    """
    digest = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parents[1]
    for path in [*sorted((root / "corruption").rglob("*.py")), *sorted((root / "pipelines").rglob("*.py"))]:
        source = path.read_bytes()
        if root / "corruption" in path.parents or b"njit" in source:
            digest.update(source)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "papermoth" / f"kernels-{digest.hexdigest()}"


def local_ray() -> None:
    """Say, before a Ray of our own is started on this machine, that it asks for no token.

    Ray turns token authentication on for `ray.init()` when nothing is said, and leaves a token file that
    changes what later `ray start` does. A cluster named by an address keeps its own mode: not called for one.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    # Ray would start a Python for every CPU it counts before anything needs one; that only costs the first seconds.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "false")


def quiet_transformers() -> None:
    """No progress bars while small models load, and no advice that is meant for other uses."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
