"""Scores of a run, from its newest checkpoint or its model, beside the two yardsticks."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from corruption.errors import InputError
from pipelines.evaluate import EVALUATION, Evaluation, evaluate, load_module, scored, table
from pipelines.held_out_batches import HeldOutBatches
from pipelines.job import OUTCOME, Job
from pipelines.run_folder import RUN
from pipelines.store import json_bytes
from pipelines.unigram import unigram_counts, unigram_loss
from tests.pipelines.small_run import Heard, module_of
from trainers import checkpoint
from trainers.objectives import objective
from trainers.optim import build_optimizer
from trainers.state import TrainState, weights_of


@pytest.fixture
def run(small: Job, tmp_path: Path) -> Path:
    """A copy of the small run's folder, finished, without checkpoints."""
    shutil.copytree(small.folder, tmp_path / "run")
    (tmp_path / "run" / OUTCOME).write_bytes(json_bytes({"status": "finished", "step": 4}))
    return tmp_path / "run"


def save_checkpoint(job: Job, run: Path, step: int, shift: float = 0.0) -> None:
    module = module_of(job)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += shift
    state = TrainState(
        step, (0, 0, 0), weights=weights_of(module), optimizer=build_optimizer(module, job.recipe.train).state_dict()
    )
    checkpoint.save(replace(job, folder=str(run)).checkpoints, state, job.identity)


def test_the_finished_model_is_scored_and_the_record_kept(small: Job, run: Path) -> None:
    heard = Heard()
    found = evaluate(run, console=heard.console)
    # It has learnt nothing: about as bad as guessing among all ids, and the order of its context is nothing to it.
    assert found.loss == pytest.approx(math.log(small.vocabulary.size), abs=0.3)
    assert found.shuffled_loss == pytest.approx(found.loss, abs=0.05) and found.shuffled_loss != found.loss
    assert 0 <= found.accuracy < 0.1
    labels = [framed["labels"].values for framed in HeldOutBatches(small).framed()]
    counts = unigram_counts(small.opened_store(), small.vocabulary.size)
    assert (found.unigram_loss, found.labels) == unigram_loss(counts, labels)
    assert found.unigram_loss < found.loss and found.below_unigram() < 0
    record = json.loads((run / EVALUATION).read_text())
    assert record["loss"] == found.loss and record["labels"] == found.labels and record["step"] == 4
    assert "after 4 steps" in heard.out and "above the unigram model's at the same" in heard.out
    assert evaluate(run, console=Heard().console) == found


def test_the_newest_checkpoint_goes_before_the_model(small: Job, run: Path) -> None:
    plain, _ = scored(run)
    save_checkpoint(small, run, 2)
    save_checkpoint(small, run, 3, shift=0.05)
    found, what = scored(run)
    assert "step_0000003" in what and "after 3 steps" in what
    assert found.loss != plain.loss and found.unigram_loss == plain.unigram_loss
    shutil.rmtree(run / "checkpoints" / "step_0000003")
    assert scored(run)[0].loss == pytest.approx(plain.loss, rel=1e-6), "the exported model is the one of the seed"


def test_a_run_with_nothing_to_score_is_refused(small: Job, run: Path) -> None:
    shutil.rmtree(run / "model")
    with pytest.raises(InputError, match="it has neither a model nor a checkpoint yet; let pretrain go on"):
        evaluate(run, console=Heard().console)
    assert not (run / EVALUATION).exists()
    with pytest.raises(InputError, match=rf"it holds no {RUN}"):
        evaluate(run / "nothing", console=Heard().console)


def test_a_corruption_that_labels_nothing_is_refused(small: Job, run: Path) -> None:
    record = json.loads((run / RUN).read_text())
    record["recipe"]["corruption"][0] |= {"rate": 0.0, "count": "bernoulli"}
    (run / RUN).write_bytes(json_bytes(record))
    with pytest.raises(InputError, match="the held-out passages carry no label; raise the corruption's rate"):
        evaluate(run, console=Heard().console)


def test_the_module_has_the_checkpoints_weights(small: Job, run: Path) -> None:
    save_checkpoint(small, run, 2, shift=0.25)
    loaded = load_module(replace(small, folder=str(run)), objective("mlm"))
    expected = {
        name: tensor + 0.25 for name, tensor in weights_of(module_of(small)).items() if tensor.is_floating_point()
    }
    assert loaded.step == 2 and expected
    for name, tensor in expected.items():
        assert torch.equal(weights_of(loaded.module)[name], tensor), name


@pytest.mark.parametrize(
    ("loss", "said"), [(math.log(90), "10.0% below"), (math.log(100), "0.0% below"), (math.log(150), "50.0% above")]
)
def test_the_table_compares_perplexities(loss: float, said: str) -> None:
    lines = table(Evaluation(1234, loss, 0.25, loss + 1, math.log(100)))
    assert said in lines[-1] and "1,234 labelled positions" in lines[-1] and "accuracy 25.0%" in lines[-1]
    assert [line.split()[-1] for line in lines[1:4]] == [f"{math.exp(x):.2f}" for x in (loss, loss + 1, math.log(100))]


@pytest.mark.parametrize("loss", [1e4, math.inf, math.nan])
def test_a_model_that_went_astray_still_has_a_table(loss: float) -> None:
    assert len(table(Evaluation(10, loss, 0.0, loss, 5.0))) == 5
    assert np.isnan(loss) or Evaluation(10, loss, 0.0, loss, 5.0).below_unigram() < 0
