"""What the demo prints, and in which order, with every job replaced by one that has finished already."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines import demo as demo_module
from pipelines import tracking
from pipelines.demo import demo, lines_of
from pipelines.evaluate import Evaluation
from pipelines.fill import Filled
from tests.pipelines.small_run import Heard

FILLED = Filled("the cat [MASK] on the mat", "sat", (("lay", 0.42), ("sat", 0.304), ("##s", 0.001)))
FOUND = Evaluation(1000, math.log(50), 0.3, math.log(90), math.log(100))


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, object]]:
    """All jobs done; notes how `pretrain` was asked."""
    asked: list[dict[str, object]] = []
    job, run = SimpleNamespace(), {"tracking": {"uri": "sqlite:////x/mlflow.db", "run_id": "abc"}}
    curves = {
        "train/loss": [(step, 8.0 - step / 100) for step in range(10, 300, 10)],
        "held_out/loss": [(0, math.log(4000)), (100, 5.0), (300, math.log(50))],
    }

    def pretrain(recipe, **options):
        asked.append({"recipe": recipe.name, **options})
        options["console"].say("pretraining")
        return tmp_path / "runs" / "demo-1"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_module, "pretrain", pretrain)
    monkeypatch.setattr(demo_module, "reopen", lambda folder: (job, run))
    monkeypatch.setattr(demo_module, "scored", lambda folder: (FOUND, "the model"))
    monkeypatch.setattr(demo_module, "fill_masks", lambda given: [FILLED] * 3)
    monkeypatch.setattr(tracking, "metric_history", lambda handle, name: curves[name])
    return asked


def test_a_filled_mask_is_two_lines() -> None:
    first, second = lines_of(FILLED)
    assert first == "  ... the cat [MASK] on the mat ..."
    assert second == "      model: lay 42%, sat 30%, ##s 0%   (the text has: sat)"


def test_what_is_printed_comes_in_its_order(fakes: list[dict[str, object]], tmp_path: Path) -> None:
    heard = Heard()
    assert demo(out=Path("out"), fresh=True, console=heard.console) == tmp_path / "runs" / "demo-1"
    assert fakes == [{"recipe": "demo", "out": Path("out"), "fresh": True, "console": heard.console}]
    places = [
        heard.out.index(text)
        for text in (
            "papermoth demo",
            "pretraining",
            "loss by step",
            "held-out perplexity before training: 4000.0",
            "unigram (token frequencies only)",
            "perplexity 50.0% below the unigram model's",
            "three masks in held-out text",
            "(the text has: sat)",
            "the model: runs/demo-1/model",
            "the run in MLflow: ",
            "done in ",
        )
    ]
    assert places == sorted(places)
    assert heard.out.count("(the text has: sat)") == 3
    assert "mlflow" in heard.out.splitlines()[-2] and "/x/mlflow.db" in heard.out.splitlines()[-2]


def test_a_run_that_was_not_scored_before_training_says_nothing_of_it(
    fakes: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "metric_history", lambda handle, name: [(100, 5.0), (200, 4.0)])
    heard = Heard()
    demo(console=heard.console)
    assert "before training" not in heard.out and "loss by step" in heard.out
