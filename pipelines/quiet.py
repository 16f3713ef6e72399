"""The environment that keeps libraries quiet and their telemetry off, set before any of them is imported."""

from __future__ import annotations

import os

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


def local_ray() -> None:
    """Say, before a Ray of our own is started on this machine, that it asks for no token.

    Ray turns token authentication on for `ray.init()` when nothing is said, and leaves a token file that
    changes what later `ray start` does. A cluster named by an address keeps its own mode: not called for one.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
