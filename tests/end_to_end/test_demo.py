"""The shipped demo recipe on the real dump, cut short: what is made, what plain Python loads, what a rerun does."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.tiny import environment, losses, papermoth, runs_in

STEPS = 30
LOAD = """
import sys
from transformers import AutoModelForMaskedLM, AutoTokenizer
model, info = AutoModelForMaskedLM.from_pretrained(sys.argv[1], output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
logits = model(**tokenizer("anarchism is a political [MASK]", return_tensors="pt")).logits
assert logits.shape[-1] == len(tokenizer) == 4000
assert not {"pipelines", "trainers", "corruption", "ray"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """(working folder, output, seconds) of the first run."""
    folder = tmp_path_factory.mktemp("demo")
    began = time.monotonic()
    done = papermoth("pretrain", "demo", "--set", f"train.steps={STEPS}", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout, time.monotonic() - began


def test_the_model_loads_in_a_plain_python(demo: tuple[Path, str, float]) -> None:
    (model,) = (demo[0] / "runs").glob("demo-*/model")
    assert (model / "model.safetensors").exists()
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, model], cwd="/", capture_output=True, text=True, env=environment(), check=False
    )
    assert loaded.returncode == 0, loaded.stderr
    card = (model / "README.md").read_text()
    assert "Wikipedia" in card and "Attribution-ShareAlike" in card and f"| steps | {STEPS} of" in card


def test_mlflow_holds_one_finished_run_with_the_curve(demo: tuple[Path, str, float]) -> None:
    assert runs_in(demo[0] / "runs" / "mlflow.db") == ["FINISHED"]
    (run,) = (demo[0] / "runs").glob("demo-*")
    curve = losses(run)
    assert sorted(curve) == [10, 20, 30] and all(len(values) == 1 for values in curve.values())
    assert curve[30][0] < curve[10][0]


def test_running_again_reuses_everything(demo: tuple[Path, str, float]) -> None:
    folder, output, seconds = demo
    assert "106 documents" in output and "100 redirect" in output
    began = time.monotonic()
    again = papermoth("pretrain", "demo", "--set", f"train.steps={STEPS}", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "reusing the tokenizer" in again.stdout and "reusing the store" in again.stdout
    assert f"already at step {STEPS} of {STEPS}" in again.stdout
    # It only has to look: on any machine that is less work than starting Ray and training.
    assert time.monotonic() - began < 0.7 * seconds


def test_evaluate_prints_the_yardsticks(demo: tuple[Path, str, float]) -> None:
    (run,) = (demo[0] / "runs").glob("demo-*")
    done = papermoth("evaluate", run, cwd=demo[0])
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("model  ", "model, context tokens shuffled", "unigram (token frequencies only)", "labelled positions"):
        assert line in done.stdout
    scores = json.loads((run / "evaluation.json").read_text())
    assert scores["step"] == STEPS and scores["labels"] > 1000


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_whole_demo_learns_more_than_frequencies(tmp_path: Path) -> None:
    """Perplexity at least 15 % below the unigram model's, and clearly worse with shuffled context."""
    done = papermoth("demo", cwd=tmp_path, timeout=1700)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "runs").glob("demo-*")
    scores = json.loads((run / "evaluation.json").read_text())
    assert math.exp(scores["loss"] - scores["unigram_loss"]) < 0.85
    assert scores["shuffled_loss"] > scores["loss"] + 0.5
    for part in ("loss by step", "held-out perplexity before training", "three masks", "mlflow ui", "the model: runs/"):
        assert part in done.stdout
