"""The runtime environment of a submitted job: code and settings, no secret and no place of one machine."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from pipelines.quiet import _ALWAYS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "runtime_env.yaml").read_text("utf-8")
GIVEN = yaml.safe_load(TEXT)


def test_ray_takes_it():
    from ray.runtime_env import RuntimeEnv

    RuntimeEnv(**{**GIVEN, "working_dir": None})
    assert all(isinstance(value, str) for value in GIVEN["env_vars"].values())


def test_code_comes_from_the_checkout_without_what_is_large_or_private():
    assert GIVEN["working_dir"] == "."
    assert {".git", ".venv", "/runs", "/stores", "/data"} <= set(GIVEN["excludes"])
    for package in ("corruption", "trainers", "pipelines"):
        assert not any(package in pattern for pattern in GIVEN["excludes"])


def test_the_mode_is_said_and_no_secret_or_absolute_path():
    assert GIVEN["env_vars"]["RAY_AUTH_MODE"] == "token"
    assert not re.search(r"TOKEN(_PATH)?|SECRET|PASSWORD|_KEY", " ".join(GIVEN["env_vars"]))
    values = [GIVEN["working_dir"], *GIVEN["env_vars"].values()]
    assert not any(value.startswith(("/", "~")) for value in values)


def test_workers_are_as_quiet_as_the_command():
    """What the driver sets for itself before its imports does not reach the workers of a cluster."""
    telemetry = {name: value for name, value in _ALWAYS.items() if "TELEMETRY" in name or name == "DO_NOT_TRACK"}
    assert telemetry.items() <= GIVEN["env_vars"].items()
