"""The same run on 1, 2 and 3 trainers, with unequal counts per lane and fillers (5 lanes on 2 or 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
import torch

from tests.trainers import tiny
from tests.trainers.spawned import run_on
from trainers.checkpoint import load, save
from trainers.collectives import World
from trainers.evaluation import evaluate
from trainers.hooks import Hooks
from trainers.objectives import objective
from trainers.objectives.mlm import MaskedLanguageModel
from trainers.objectives.protocol import LossOutput
from trainers.state import weights_of
from trainers.step import StepsBroken

STEPS = 6


@dataclass(frozen=True)
class Poisoned(MaskedLanguageModel):
    """Infinite loss where a microbatch holds 13 labels, which is lane 3 of each step and nowhere else."""

    def loss(self, module, microbatch):
        output = super().loss(module, microbatch)
        worse = math.inf if int((microbatch.columns["labels"] != -100).sum()) == 13 else 1.0
        return LossOutput({"mlm": output.terms["mlm"] * worse}, output.metrics)


def scenario(world: World, folder: Path) -> dict:
    """Everything that is asked of several trainers, in one go, since starting them is what costs."""
    rank, size = world.rank, world.size
    logged, digests = [], []

    def source(start=0):
        return tiny.steps(start, rank, size)

    hooks = Hooks(
        log=lambda step, m: logged.append((step, m)), digest=lambda step, d: digests.append((step, d))
    )
    module = tiny.build()
    outcome = tiny.run(module, source(), world=world, hooks=hooks)
    whole = tiny.copy_of(module)

    resumed = []
    for stop in range(1, STEPS):
        directory = folder / f"run-{stop}"

        def keep(state, directory=directory):
            if rank == 0:
                save(directory, state, {"seed": "7"})
            world.wait()

        first = tiny.build()
        tiny.run(first, source(), world=world, chosen=tiny.settings(stop), hooks=Hooks(save=keep))
        second = tiny.build(seed=99)  # what it holds must not matter
        state = load(directory / f"step_{stop:07d}", {"seed": "7"})
        tiny.run(second, source(stop), world=world, state=state)
        resumed.append(tiny.same(whole, tiny.copy_of(second)))

    parts = [tiny.lane(i, 1000, count) for i, count in enumerate((3, 5, 2, 8, 1))]
    measured = evaluate(module, objective("mlm"), map(tiny.microbatch, parts[rank::size]), world)
    one_part = evaluate(module, objective("mlm"), map(tiny.microbatch, parts[:1][rank::size]), world)

    saved = []
    one_says_so = Hooks(should_stop=iter([False, False, rank == size - 1]).__next__, save=saved.append)
    stopped = tiny.run(tiny.build(), source(), world=world, hooks=one_says_so)

    def damaged():
        yield from islice(source(), 3)
        if rank == size - 1:
            raise StepsBroken("shard 7: cannot be read")
        yield from source(3)

    kept = []
    module = tiny.build()
    broken = tiny.run(module, damaged(), world=world, hooks=Hooks(save=kept.append))

    module = tiny.build()
    before = tiny.copy_of(module)
    poisoned = tiny.run(module, source(), world=world, task=Poisoned())

    try:
        tiny.run(tiny.build(seed=rank), source(), world=world)
        unequal = "not noticed"
    except RuntimeError as error:
        unequal = str(error)
    return {
        "whole": whole,
        "logged": logged,
        "digests": digests,
        "status": outcome.status,
        "cursor": outcome.state.cursor,
        "resumed": resumed,
        "measured": measured,
        "one_part": one_part,
        "stopped": (stopped.status, stopped.state.step, [state.step for state in saved]),
        "broken": (broken.status, broken.message, broken.state.step, [state.step for state in kept]),
        "broken_weights": kept[0].weights,
        "poisoned": (poisoned.status, poisoned.state.step, tiny.same(before, tiny.copy_of(module))),
        "unequal": unequal,
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("trainers")
    alone = folder / "1"
    return {
        1: [scenario(World(), alone)],
        2: run_on(2, scenario, folder / "2"),
        3: run_on(3, scenario, folder / "3"),
    }


@pytest.mark.parametrize("size", [2, 3])
def test_H_01_any_number_of_trainers_learns_the_same(results, size):
    one, many = results[1][0], results[size]
    assert one["status"] == many[0]["status"] == "finished"
    for (_, mine), (_, theirs) in zip(one["logged"], many[0]["logged"], strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-6)
        assert theirs["grad_norm"] == pytest.approx(mine["grad_norm"], rel=1e-5)
        assert theirs["accuracy"] == mine["accuracy"] and theirs["tokens"] == mine["tokens"]
    for name, tensor in one["whole"].items():
        torch.testing.assert_close(many[0]["whole"][name], tensor, rtol=0, atol=1e-5)
    assert one["cursor"] == many[0]["cursor"] == (0, 0, STEPS * tiny.LANES)


@pytest.mark.parametrize("size", [2, 3])
def test_trainers_end_with_the_same_bits_and_only_the_first_reports(results, size):
    first, *others = results[size]
    for other in others:
        assert tiny.same(first["whole"], other["whole"])
        assert other["logged"] == other["digests"] == []


@pytest.mark.parametrize("size", [2, 3])
def test_what_the_module_receives_is_the_same_bytes(results, size):
    assert [step for step, _ in results[1][0]["digests"]] == list(range(1, STEPS + 1))
    assert results[size][0]["digests"] == results[1][0]["digests"]
    assert len({digest for _, digest in results[1][0]["digests"]}) == STEPS


@pytest.mark.parametrize("size", [1, 2, 3])
def test_resume_at_any_step_gives_the_same_bits(results, size):
    for result in results[size]:
        assert result["resumed"] == [True] * (STEPS - 1)


@pytest.mark.parametrize("size", [2, 3])
def test_A_22_evaluation_does_not_depend_on_the_number_of_trainers(results, size):
    for result in results[size]:
        assert result["measured"]["loss"] == pytest.approx(results[1][0]["measured"]["loss"], abs=1e-6)
        assert result["measured"]["count/mlm"] == 19
        alone = results[1][0]["one_part"]["loss"]  # only the first trainer has anything to evaluate
        assert result["one_part"]["loss"] == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_when_one_trainer_must_stop_all_save_and_stop(results, size):
    for result in results[size]:
        assert result["stopped"] == ("stopped", 3, [3])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_when_the_data_of_one_trainer_break_all_save_the_steps_before_and_stop(results, size):
    message = "shard 7: cannot be read"
    for rank, result in enumerate(results[size]):
        told = message if rank == size - 1 else "the data of step 4 cannot be had"
        assert result["broken"] == ("broken data", told, 3, [3])
        module = tiny.build()
        if size == 1:
            tiny.run(module, tiny.steps(), chosen=tiny.settings(3))
            assert tiny.same(weights_of(module), result["broken_weights"]), "the broken step left a trace"
        assert tiny.same(result["broken_weights"], results[size][0]["broken_weights"])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_loss_that_is_not_finite_anywhere_stops_all_before_the_update(results, size):
    for result in results[size]:
        assert result["poisoned"] == ("not finite", 0, True)


@pytest.mark.parametrize("size", [2, 3])
def test_trainers_that_start_from_other_weights_are_refused(results, size):
    for result in results[size]:
        assert result["unequal"] == f"trainers {list(range(1, size))} start from other weights than trainer 0"
    assert results[1][0]["unequal"] == "not noticed"
