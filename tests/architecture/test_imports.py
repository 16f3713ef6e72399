"""Who may import whom: corruption <- trainers <- pipelines, and no framework where it does not belong.

Each package is imported, module by module, in a fresh interpreter, and sys.modules is looked at afterwards.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"ray", "torch", "mlflow", "transformers", "datasets", "pandas"}

FORBIDDEN = {
    "corruption": HEAVY | {"trainers", "pipelines", "tokenizers"},
    "trainers": {"pipelines", "mlflow", "ray.data"},
}
"""What must not be in sys.modules once every module of the package is imported."""

LIGHT = {
    "pipelines.cli": HEAVY | {"numba", "pyarrow", "numpy", "pydantic"},
    "pipelines.recipe": HEAVY,
    "pipelines.preview": HEAVY,
    "pipelines.doctor": HEAVY,
    "trainers.settings": HEAVY,
    "trainers.models.spec": HEAVY,
    "trainers.objectives.columns": HEAVY,
}
"""Modules that are loaded before it is known that heavy work will follow."""


def modules_of(package: str, root: Path = ROOT) -> list[str]:
    """Dotted names of the package's modules."""
    paths = sorted((root / package).rglob("*.py"))
    return [".".join(p.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for p in paths]


def loaded_by(modules: list[str], root: Path = ROOT) -> set[str]:
    """Everything in sys.modules after importing `modules` in a fresh interpreter."""
    script = f"import importlib, json, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
    script += "print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def breaches(modules: list[str], forbidden: set[str], root: Path = ROOT) -> set[str]:
    """The forbidden ones among what `modules` load."""
    return loaded_by(modules, root) & forbidden


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_import_only_what_lies_below_them(package):
    modules = modules_of(package)
    assert len(modules) > 5
    forbidden = set(FORBIDDEN[package])
    if "ray.data" in forbidden:
        # ray.train loads ray.data by itself, so for `trainers` the text decides about that one
        forbidden.remove("ray.data")
        assert not imports_in(package, "ray.data")
    assert breaches(modules, forbidden) == set()


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_stay_light(module):
    assert breaches([module], LIGHT[module]) == set()


def imports_in(package: str, name: str, root: Path = ROOT) -> list[str]:
    """Files of the package with an import of `name`, or of something in it, anywhere in their text."""
    found = []
    for path in sorted((root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
            if any(imported == name or imported.startswith(f"{name}.") for imported in names):
                found.append(str(path.relative_to(root)))
    return sorted(set(found))


def test_imports_hidden_in_functions_obey_too():
    """sys.modules shows only what runs at import; the text shows the rest."""
    for package, names in {
        "corruption": FORBIDDEN["corruption"],
        "trainers": {"pipelines", "mlflow", "ray.data"},
    }.items():
        for name in names:
            assert imports_in(package, name) == [], f"{package} imports {name}"


def test_the_checks_can_fail(tmp_path):
    package = tmp_path / "corruption"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "early.py").write_text("import sqlite3\n")
    (package / "late.py").write_text("def f():\n    from sqlite3 import dbapi2\n    import os.path\n")
    assert breaches(modules_of("corruption", tmp_path), {"sqlite3", "trainers"}, tmp_path) == {"sqlite3"}
    assert breaches(["corruption.late"], {"sqlite3"}, tmp_path) == set()
    assert imports_in("corruption", "sqlite3", tmp_path) == ["corruption/early.py", "corruption/late.py"]
    assert imports_in("corruption", "os.path", tmp_path) == ["corruption/late.py"]
    assert imports_in("corruption", "sqlite", tmp_path) == []


def test_import_corruption_is_quick():
    """Warm and best of three: the machine may be shared."""
    seconds = []
    for _ in range(3):
        start = time.monotonic()
        loaded_by(["corruption"])
        seconds.append(time.monotonic() - start)
    assert min(seconds) < 1.5, f"best of {seconds}"
