import math
import random
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import ClassVar

import numpy as np
import pytest
import torch

from corruption.schema import IGNORE
from tests.trainers import tiny
from trainers.hooks import Hooks
from trainers.objectives import objective
from trainers.objectives.columns import ObjectiveColumns
from trainers.objectives.protocol import LossOutput
from trainers.step import Lane, Step


class Scale(torch.nn.Module):
    """One weight, 1 at first; the loss sum of a microbatch is that weight times the sum of its ids."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, ids):
        return (self.weight * ids).sum()


@dataclass(frozen=True)
class Sums:
    kind: ClassVar[str] = "sums"
    data: ClassVar[ObjectiveColumns] = ObjectiveColumns(
        ("input_ids", "labels"), {"sums": "labels"}, (), "bert"
    )
    metrics: ClassVar[tuple[str, ...]] = ()
    weights: ClassVar[dict[str, float]] = {"sums": 1.0}

    def loss(self, module, microbatch):
        return LossOutput({"sums": module(microbatch.columns["input_ids"])})


def sums_lane(number, total, labels):
    """A lane of loss sum `total` over `labels` labelled positions."""
    ids = np.zeros(labels, np.int32)
    ids[0] = total
    return Lane(number, {"input_ids": ids, "labels": np.ones(labels, np.int32)}, np.array([labels]))


def logging(into):
    return Hooks(log=lambda step, metrics: into.append((step, metrics)))


def test_H_01_the_loss_is_the_sum_over_the_count_not_a_mean_of_means():
    gradients = []
    for lanes in ([sums_lane(0, 2, 1), sums_lane(1, 9, 9)], [sums_lane(0, 11, 10)]):
        logged, module = [], Scale()
        source = [Step(0, lanes, {"sums": 10}, (0, 0, 2), 10)]
        tiny.run(module, source, task=Sums(), chosen=tiny.settings(1, lanes=2), hooks=logging(logged))
        assert logged[0][1]["loss"] == pytest.approx(1.1)
        gradients.append(logged[0][1]["grad_norm"])
    assert gradients == [pytest.approx(1.1), pytest.approx(1.1)]


def test_H_01_lanes_give_the_gradient_of_one_large_batch():
    def gradient(lanes):
        module = tiny.build(dropout=0.0)
        source = [Step(0, lanes, {"mlm": 29}, (0, 0, 1), 100)]
        tiny.run(module, source, chosen=tiny.settings(1, clip_norm=None))
        return {name: p.grad for name, p in module.named_parameters()}

    parts = tiny.step(0).lanes
    whole = Lane(
        0,
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
        np.concatenate([part.lengths for part in parts]),
    )
    large, small = gradient([whole]), gradient(parts)
    for name, expected in large.items():
        torch.testing.assert_close(small[name], expected, rtol=0, atol=1e-6)


def test_H_02_no_microbatch_is_lost_at_the_end_of_an_epoch():
    """14 microbatches an epoch, 4 a step: 3 steps leave the cursor at the 13th; the next step straddles."""
    epoch = [tiny.lane(i, 0, 1 + i % 3) for i in range(14)]
    eaten = []

    def source(start):
        number = start
        while True:
            at = [divmod(number * 4 + i, 14) for i in range(5)]
            lanes = [replace(epoch[place], number=i) for i, (_, place) in enumerate(at[:4])]
            eaten.append([place for _, place in at[:4]])
            labels = sum(int((lane.columns["labels"] != IGNORE).sum()) for lane in lanes)
            yield Step(number, lanes, {"mlm": labels}, (at[4][0], 0, at[4][1]), 100)
            number += 1

    module = tiny.build()
    states = []
    first = tiny.run(module, source(0), chosen=tiny.settings(3, lanes=4), hooks=Hooks(save=states.append))
    assert first.state.cursor == (0, 0, 12) and len(eaten) == 3  # nothing is taken from the stream in vain
    second = tiny.run(module, source(3), state=states[-1], chosen=tiny.settings(7, lanes=4))
    assert second.state.cursor == (2, 0, 0)
    assert list(chain.from_iterable(eaten)) == [*range(14), *range(14)]


def test_H_03_a_finished_run_does_nothing_more():
    module, states, log = tiny.build(), [], []
    tiny.run(module, tiny.steps(), chosen=tiny.settings(2), hooks=Hooks(save=states.append))
    before = tiny.copy_of(module)
    hooks = Hooks(save=states.append, log=lambda *_: log.append(1), evaluate=lambda step: log.append(step))
    outcome = tiny.run(module, iter(()), state=states[-1], chosen=tiny.settings(2), hooks=hooks)
    assert outcome.status == "finished" and outcome.state.step == 2
    assert len(states) == 1 and log == [] and tiny.same(before, tiny.copy_of(module))


def test_H_08_no_trainable_tokens():
    silent = tiny.steps(labels=(0, 0))
    outcome = tiny.run(tiny.build(), silent, chosen=tiny.settings(100, lanes=2), nothing_limit=7)
    assert outcome.status == "nothing to learn from" and "no trainable tokens" in outcome.message
    assert outcome.state.step == outcome.state.skipped == 7
    short = tiny.run(tiny.build(), tiny.steps(labels=(0, 0)), chosen=tiny.settings(3, lanes=2))
    assert short.status == "nothing to learn from" and short.state.step == 3


def test_A_12_tiny_documents_never_give_nan_and_empty_steps_are_skipped_and_counted():
    logged = []

    def source():
        rng = np.random.default_rng(0)
        for number in range(1000):
            n = int(rng.integers(0, 5))  # 0: special tokens only
            ids = np.concatenate([[2], rng.integers(5, 64, n), [3]]).astype(np.int32)
            labels = np.full(n + 2, IGNORE, np.int32)
            if n:
                labels[1] = ids[1]
                ids[1] = tiny.MASK
            lane = Lane(0, {"input_ids": ids, "labels": labels}, np.array([n + 2]))
            yield Step(number, [lane], {"mlm": int(n > 0)}, (0, 0, number + 1), n + 2)

    module = tiny.build(layers=1, width=16)
    outcome = tiny.run(module, source(), chosen=tiny.settings(1000, lanes=1), hooks=logging(logged))
    assert outcome.status == "finished" and 100 < outcome.state.skipped < 300
    assert sum(metrics["skipped_steps"] for _, metrics in logged) == outcome.state.skipped
    assert all(math.isfinite(value) for _, metrics in logged for value in metrics.values())
    assert all(torch.isfinite(p).all() for p in module.parameters())
    assert all("loss" not in metrics for _, metrics in logged if metrics["skipped_steps"])


def test_a_skipped_step_changes_no_weight_and_no_optimiser_state():
    states = []
    hooks = Hooks(save=lambda s: states.append((s.step, {k: v.clone() for k, v in s.weights.items()})))
    mixed = [tiny.step(0), tiny.step(1, labels=(0,) * 5), tiny.step(2)]
    module = tiny.build()
    outcome = tiny.run(module, mixed, chosen=tiny.settings(3, checkpoint_every=1), hooks=hooks)
    assert tiny.same(states[0][1], states[1][1]) and not tiny.same(states[1][1], states[2][1])
    assert outcome.state.step == 3 and outcome.state.skipped == 1


def test_A_16_global_random_state_is_neither_read_nor_altered():
    def trained(noise):
        random.seed(noise), np.random.seed(noise), torch.manual_seed(noise)
        module = tiny.build()
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()

        def calls(step):
            torch.rand(noise), np.random.rand(noise)
            return {}

        chosen = tiny.settings(3, evaluate_every=1)
        tiny.run(module, tiny.steps(), chosen=chosen, hooks=Hooks(evaluate=calls if noise > 5 else None))
        after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        return module, before == after

    first, untouched = trained(5)
    second, _ = trained(1000)
    assert untouched
    assert tiny.same(tiny.copy_of(first), tiny.copy_of(second))


def test_dropout_differs_between_steps_and_lanes():
    """The same microbatch in both lanes of two steps: were dropout the same, so would be the sums."""
    part = tiny.lane(0, 0, 9)
    sums = []

    @dataclass(frozen=True)
    class Watched(type(objective("mlm"))):
        def loss(self, module, microbatch):
            output = super().loss(module, microbatch)
            sums.append(output.terms["mlm"].item())
            return output

    source = [Step(n, [replace(part, number=i) for i in (0, 1)], {"mlm": 18}, (0, 0, n), 9) for n in range(2)]
    still = tiny.settings(2, lanes=2, learning_rate=1e-12)
    tiny.run(tiny.build(), source, chosen=still, task=Watched())
    assert len(set(sums)) == 4


def test_E_07_what_is_logged_is_plain():
    logged = []
    chosen = tiny.settings(4, log_every=2, evaluate_every=2)
    hooks = Hooks(
        log=lambda step, metrics: logged.append((step, metrics)),
        evaluate=lambda step: {
            "loss": torch.tensor(1.5, dtype=torch.bfloat16).item(),
            "count/mlm": np.float64(3),
        },
    )
    tiny.run(tiny.build(), tiny.steps(), chosen=chosen, hooks=hooks)
    assert [step for step, _ in logged] == [2, 2, 4, 4]
    assert all(type(step) is int for step, _ in logged)
    assert all(type(value) is float for _, metrics in logged for value in metrics.values())
    assert logged[1][1] == {"heldout/loss": 1.5, "heldout/count/mlm": 3.0}
    names = {"loss", "loss/mlm", "accuracy", "grad_norm", "learning_rate", "tokens", "seconds"}
    assert names | {"tokens_per_second", "data_wait", "skipped_steps"} == set(logged[0][1])


def test_an_interval_is_averaged_over_its_positions():
    every, pairs = [], []
    tiny.run(tiny.build(), tiny.steps(), chosen=tiny.settings(2), hooks=logging(every))
    tiny.run(tiny.build(), tiny.steps(), chosen=tiny.settings(2, log_every=2), hooks=logging(pairs))
    (_, first), (_, second) = every
    assert pairs[0][1]["loss"] == pytest.approx((first["loss"] + second["loss"]) / 2)  # equal counts
    assert pairs[0][1]["tokens"] == second["tokens"] > first["tokens"]
    assert pairs[0][1]["learning_rate"] == second["learning_rate"]


def test_the_best_step_is_the_one_of_lowest_held_out_loss():
    losses = iter([3.0, 1.0, 2.0, math.nan])
    saved = []
    hooks = Hooks(evaluate=lambda step: {"loss": next(losses)}, save=saved.append)
    chosen = tiny.settings(4, evaluate_every=1, checkpoint_every=2)
    tiny.run(tiny.build(), tiny.steps(), chosen=chosen, hooks=hooks)
    assert [(state.step, state.best) for state in saved] == [(2, (2, 1.0)), (4, (2, 1.0))]


def test_not_finite_names_the_step_and_keeps_the_weights():
    module = tiny.build()
    with torch.no_grad():
        module.model.cls.predictions.bias[9] = math.nan
    before = tiny.copy_of(module)
    outcome = tiny.run(module, tiny.steps())
    assert outcome.status == "not finite" and outcome.state.step == 0
    assert "not finite in step 1; the weights are those after step 0" in outcome.message
    after = tiny.copy_of(module)
    assert all(torch.equal(before[k], after[k]) for k in before if not before[k].isnan().any())


def test_a_gradient_that_is_not_finite_is_not_applied():
    module = Scale()
    module.weight.register_hook(lambda gradient: gradient * math.inf)
    outcome = tiny.run(module, [Step(0, [sums_lane(0, 2, 1)], {"sums": 1}, (0, 0, 1), 1)], task=Sums())
    assert outcome.status == "not finite" and module.weight.item() == 1.0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([tiny.step(1)], "step 0 is due, the data gave 1"),
        ([], "step 0 is due, the data gave no more"),
        ([replace(tiny.step(0), counts={"mlm": 28})], "step 0: 28 positions announced for 'mlm', 29 found"),
    ],
)
def test_data_that_is_not_what_is_due_is_a_bug_and_raises(source, message):
    with pytest.raises(RuntimeError, match=message):
        tiny.run(tiny.build(), source)


def test_stopping_saves_once_and_going_on_gives_the_same_bits():
    whole = tiny.build()
    tiny.run(whole, tiny.steps())
    saved, module = [], tiny.build()
    flags = iter([False, True])
    hooks = Hooks(save=saved.append, should_stop=flags.__next__)
    outcome = tiny.run(module, tiny.steps(), hooks=hooks)
    assert outcome.status == "stopped" and outcome.message == "stopped after step 2 of 6" and len(saved) == 1
    tiny.run(module, tiny.steps(2), state=saved[0])
    assert tiny.same(tiny.copy_of(whole), tiny.copy_of(module))


def test_digests_do_not_see_the_evaluation():
    from trainers.collectives import World
    from trainers.evaluation import evaluate

    def digests(evaluating):
        module, found = tiny.build(), []
        parts = [tiny.microbatch(tiny.lane(0, 1, 3))]
        hooks = Hooks(
            digest=lambda step, digest: found.append(digest),
            evaluate=(lambda step: evaluate(module, objective("mlm"), parts, World()))
            if evaluating
            else None,
        )
        tiny.run(module, islice(tiny.steps(), 3), chosen=tiny.settings(3, evaluate_every=1), hooks=hooks)
        return found

    assert digests(True) == digests(False)
