"""The environment is set before libraries look at it, and compiled kernels are never older than their source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import quiet as quiet_module
from pipelines.quiet import kernel_cache, local_ray, quiet

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment of its own in place of the process's."""
    fake: dict[str, str] = {"HOME": "/home/somebody"}
    monkeypatch.setattr(os, "environ", fake)
    return fake


def test_telemetry_is_off_and_what_the_user_set_stays(environment: dict[str, str]) -> None:
    environment["DO_NOT_TRACK"] = "mine"
    environment["NUMBA_CACHE_DIR"] = "/elsewhere"
    quiet()
    assert environment["DO_NOT_TRACK"] == "mine" and environment["NUMBA_CACHE_DIR"] == "/elsewhere"
    for name in ("RAY_USAGE_STATS_ENABLED",):
        assert environment[name] == "0"
    assert environment["MLFLOW_DISABLE_TELEMETRY"] == "true" and environment["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert "TOKENIZERS_PARALLELISM" not in environment, "forcing it would remove the guard of forked processes"
    assert "RAY_AUTH_MODE" not in environment
    local_ray()
    assert environment["RAY_AUTH_MODE"] == "disabled"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources that the cache's name is made from."""
    for folder in ("corruption", "pipelines"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(quiet_module, "__file__", str(tmp_path / "pipelines" / "quiet.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "corruption/spans.py",
        "corruption/noise.py",
        "corruption/noise_kinds/mask.py",
        "corruption/schema.py",
        "pipelines/plan.py",
    ],
)
def test_kernel_cache_has_another_name_for_other_sources(copied: Path, name: str) -> None:
    """spans.py is inlined into mask.py's kernel, and schema.py's IGNORE is a constant in it."""
    before = kernel_cache()
    assert before == kernel_cache() and before.parent == copied / "cache" / "papermoth"
    text = (copied / name).read_text()
    (copied / name).write_text(text + "\n# changed\n")
    assert kernel_cache() != before
    (copied / name).write_text(text)
    assert kernel_cache() == before


def test_code_that_holds_no_kernel_changes_nothing(copied: Path) -> None:
    before = kernel_cache()
    (copied / "pipelines" / "cli.py").write_text("# nothing left\n")
    assert kernel_cache() == before


def test_without_a_home_for_caches_it_lies_in_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kernel_cache().parent == tmp_path / ".cache" / "papermoth"


def test_it_is_set_before_numba_is_imported() -> None:
    """The command's first import: numba reads the name of its cache folder when it is imported."""
    code = (
        "import sys, os; os.environ.pop('NUMBA_CACHE_DIR', None); import pipelines.cli as cli; "
        "assert 'numba' not in sys.modules; cli.quiet(); import numba; "
        "assert numba.config.CACHE_DIR == os.environ['NUMBA_CACHE_DIR'], numba.config.CACHE_DIR"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
