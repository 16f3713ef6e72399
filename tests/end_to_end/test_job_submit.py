"""`ray job submit` as the page on clusters shows it, to a head of our own: the local run's batches, tracked once."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Made
from tests.end_to_end.head import Head, outsider, ray_head
from tests.end_to_end.tiny import digests, losses, runs_in, write_corpus, write_recipe

ROOT = Path(__file__).parents[2]
SEEN = """
import os, pathlib
pathlib.Path({folder!r}, str(os.getpid())).write_text(__file__)
"""
"""Added to the submitted code: each process that imports it leaves word of where it came from."""

pytestmark = [pytest.mark.cluster, pytest.mark.soak]


def shown_on_the_page() -> list[str]:
    """The words of the page's command to pretrain, whose environment is set a line before."""
    text = (ROOT / "docs" / "clusters.md").read_text("utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^export RAY_AUTH_MODE=token\n(ray job submit .* papermoth pretrain .*)$", text, re.MULTILINE)
    return shlex.split(line)


def submit(words: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command with the Ray and the papermoth of this environment; the head has the same PATH."""
    tools = Path(sys.executable).parent
    return subprocess.run(
        [str(tools / words[0]), *words[1:]], cwd=cwd, env=env, capture_output=True, text=True, timeout=280
    )


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with ray_head(cpus=8) as found:
        yield found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user's checkout holds, elsewhere, so that the code that runs there can be told from this one."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "seen").mkdir()
    for package in ("corruption", "trainers", "pipelines"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "pipelines" / "__init__.py").open("a") as file:
        file.write(SEEN.format(folder=str(folder / "seen")))
    shutil.copy(ROOT / "runtime_env.yaml", folder)
    return folder


def test_without_the_token_nothing_is_taken(head: Head, checkout: Path) -> None:
    done = submit(["ray", "job", "submit", "--address", head.dashboard, "--", "true"], checkout, outsider())
    assert done.returncode == 1 and "Missing authentication token" in done.stderr


def test_the_doctor_asks_the_cluster_from_inside(head: Head, checkout: Path, tmp_path: Path) -> None:
    write_recipe(checkout / "my-run.yaml", write_corpus(tmp_path / "corpus", documents=3), trainers=2)
    words = ["ray", "job", "submit", "--address", head.dashboard, "--runtime-env", "runtime_env.yaml", "--"]
    done = submit([*words, "papermoth", "doctor", "my-run.yaml", "--address", "auto"], checkout, head.environment())
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "ok RAY_AUTH_MODE is token" in done.stdout and "!! " not in done.stdout
    assert "ok 1 node: the code runs, and each sees what the recipe reads" in done.stdout


def test_a_submitted_run_eats_what_the_local_one_ate(
    undisturbed: Made, head: Head, checkout: Path, tmp_path: Path
) -> None:
    (store,) = (path.parent for path in undisturbed.folder.glob("stores/*/manifest.json"))
    text = undisturbed.recipe.read_text("utf-8")
    text = re.sub(r'source: "[^"]*", format: \w+', f"store: {store}", text)
    text = re.sub(r"tokenizer: .*\n", "", text)
    text = text.replace("trainers: 1", "trainers: 2").replace(
        "tracking:   {", f"tracking: {{uri: 'sqlite:///{tmp_path}/mlflow.db', "
    )
    (checkout / "my-run.yaml").write_text(text, "utf-8")
    stand_ins = {"http://localhost:8265": head.dashboard, "/mnt/shared/runs/my-run": str(tmp_path / "run")}
    words = [stand_ins.get(word, word) for word in shown_on_the_page()]
    assert set(stand_ins.values()) <= set(words)

    done = submit(words, checkout, head.environment())

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line["steps"] for line in said if line.get("event") == "done"] == [50]
    assert digests(tmp_path / "run") == digests(undisturbed.run)
    assert runs_in(tmp_path / "mlflow.db") == ["FINISHED"]
    found = losses(tmp_path / "run")
    assert sorted(found) == list(range(1, 51)) and {len(values) for values in found.values()} == {1}
    places = {path.read_text() for path in (checkout / "seen").iterdir()}
    assert len(list((checkout / "seen").iterdir())) >= 3, "driver and two trainers"
    assert all("/runtime_resources/working_dir_files/" in place for place in places), places
