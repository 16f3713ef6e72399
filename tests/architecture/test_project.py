"""The project as others meet it: the wheel installs and works alone, and its papers agree with each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import typer

from pipelines.cli import app

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGES = ("corruption", "trainers", "pipelines")
INTERNAL = tuple("/" + name for name in ("work/", "root/", "Users/"))
"""Places that mean something on one machine only."""

TEXT = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".json", ".cfg", ""}


def repository_files() -> list[Path]:
    """Files that git knows or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True
    )
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def run(*command: str, cwd: Path, **environment: str) -> str:
    """Standard output of a command that must succeed, without this checkout on Python's path."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**inherited, **environment}, timeout=240
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing is left in the checkout; no index is asked."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    flags = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "wheel", *flags, "--wheel-dir", str(out), str(copy), cwd=copy)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel alone was installed."""
    target = tmp_path_factory.mktemp("installed")
    flags = ("--no-deps", "--no-index", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "install", *flags, "--target", str(target), str(wheel), cwd=target)
    return target


def test_the_wheel_holds_every_module_and_recipe_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix == ".py" or (path.parent == ROOT / "pipelines" / "recipes" and path.suffix == ".yaml")
    }
    assert held == wanted
    assert "pipelines/recipes/demo.yaml" in held


def test_the_wheel_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        folder = f"{PROJECT['name']}-{PROJECT['version']}.dist-info"
        about = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        commands = archive.read(f"{folder}/entry_points.txt").decode()
    assert about["License-Expression"] == "Apache-2.0"
    assert f"{folder}/licenses/LICENSE" in names
    assert about.get_payload().startswith("# Papermoth")
    assert "papermoth = pipelines.cli:main" in commands


def test_the_installed_wheel_works_alone(installed):
    places = (
        "import sys, corruption, trainers, pipelines\n"
        "print({'torch', 'ray', 'mlflow'} & set(sys.modules))\n"
        "print(*(package.__file__ for package in (corruption, trainers, pipelines)), sep='\\n')"
    )
    heavy, *files = run(sys.executable, "-c", places, cwd=installed, PYTHONPATH=str(installed)).splitlines()
    assert heavy == "set()"
    assert [Path(file).parents[1] for file in files] == [installed] * 3
    command = str(installed / "bin" / "papermoth")
    listed = run(sys.executable, command, "recipes", cwd=installed, PYTHONPATH=str(installed))
    shipped = sorted(path.stem for path in (ROOT / "pipelines" / "recipes").glob("*.yaml"))
    assert [line.split()[0] for line in listed.splitlines() if not line.startswith(" ")] == shipped


def test_the_changelog_knows_the_version():
    text = (ROOT / "docs" / "changelog.md").read_text("utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert versions[0] == PROJECT["version"]
    assert versions == sorted(versions, key=lambda v: [int(part) for part in v.split(".")], reverse=True)
    assert text.index("## [Unreleased]") < text.index(f"## [{versions[0]}]")


def test_every_direct_dependency_is_pinned_in_range():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            pins[canonicalize_name(name)] = version
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(need for extra in extras for need in extra)]
    faults = []
    for text in wanted:
        need = Requirement(text)
        name = canonicalize_name(need.name)
        if name == PROJECT["name"]:
            assert need.extras <= set(PROJECT["optional-dependencies"])
        elif name not in pins:
            faults.append(f"{need.name} has no pin")
        elif not need.specifier.contains(pins[name]):
            faults.append(f"{need.name} is pinned to {pins[name]}, outside {need.specifier}")
    assert faults == []


def test_commands_in_the_readme_exist():
    known = set(typer.main.get_command(app).commands)
    text = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    used = {name for block in blocks for name in re.findall(r"^papermoth ([a-z]+)", block, re.MULTILINE)}
    assert used and used <= known
    row = next(line for line in text.splitlines() if line.startswith("| commands"))
    today, later = (set(re.findall(r"`([a-z]+)`", cell)) for cell in row.split("|")[2:4])
    assert today == known
    assert not later & known


def test_make_targets_in_the_papers_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / ".ci" / "run"):
        named = set(re.findall(r"(?:`|^)make (?:[A-Z]+=\S+ )?([a-z]+)", path.read_text("utf-8"), re.MULTILINE))
        assert named <= targets, path


def internal_names(path: Path) -> list[str]:
    """Lines of a file that name a place of one machine."""
    if path.suffix not in TEXT or path == Path(__file__):
        return []
    lines = path.read_text("utf-8", "replace").splitlines()
    return [f"{path.name}:{i + 1}" for i, line in enumerate(lines) if any(place in line for place in INTERNAL)]


def test_no_file_names_a_place_of_one_machine():
    assert [found for path in repository_files() for found in internal_names(path)] == []


def test_nothing_made_by_a_run_is_in_the_repository():
    made = [
        path
        for path in repository_files()
        if path.suffix in {".db", ".safetensors", ".pt", ".nbi", ".nbc", ".parquet"} or path.stat().st_size > 1 << 20
    ]
    assert made == []


def test_the_check_of_places_can_fail(tmp_path):
    (tmp_path / "a.md").write_text("see " + INTERNAL[0] + "notes\nwell\n")
    assert internal_names(tmp_path / "a.md") == ["a.md:1"]
