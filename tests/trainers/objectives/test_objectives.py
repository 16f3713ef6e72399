"""The contract of every objective, over the whole registry, and each one's own facts."""

import math

import pytest
import torch

from corruption.errors import InputError
from corruption.frames import FRAMES
from corruption.schema import COLUMNS, IGNORE
from tests.trainers import tiny
from trainers.collectives import World
from trainers.evaluation import evaluate
from trainers.microbatch import Microbatch
from trainers.models.masked_lm import MaskedLM
from trainers.objectives import PLACES, objective
from trainers.objectives.columns import OBJECTIVE_COLUMNS

ALL = sorted(PLACES)


class Spy(dict):
    """A dict that remembers which keys were read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.read = set()

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)


def batch(seed=1, labels=9, width=None):
    return tiny.microbatch(tiny.lane(0, seed, labels), width)


def with_column(microbatch, name, tensor):
    return Microbatch({**microbatch.columns, name: tensor}, microbatch.lengths, microbatch.attention_mask)


def built(kind):
    task = objective(kind)
    return task, task.build(tiny.spec(), tiny.VOCABULARY, max_tokens=tiny.TOKENS, seed=0).eval()


def test_every_class_has_a_row_in_the_table_and_a_row_without_one_cannot_be_trained():
    assert set(PLACES) <= set(OBJECTIVE_COLUMNS)
    for kind in set(OBJECTIVE_COLUMNS) - set(PLACES):
        with pytest.raises(InputError, match=f"'{kind}' cannot be trained yet; choose one of {', '.join(PLACES)}, or"):
            objective(kind)


def test_the_data_side_of_every_row_fits_its_frame():
    for kind, data in OBJECTIVE_COLUMNS.items():
        frame = FRAMES[data.frame](data.columns)
        assert set(data.columns) <= set(FRAMES[data.frame]().columns), kind
        assert set(data.counted.values()) <= set(frame.columns), kind


@pytest.mark.parametrize("kind", ALL)
def test_declarations_agree(kind):
    task = objective(kind)
    assert task.kind == kind and task.data is OBJECTIVE_COLUMNS[kind]
    assert set(task.weights) == set(task.data.counted)
    assert set(task.data.columns) <= set(COLUMNS) and set(task.data.counted.values()) <= set(
        task.data.columns
    )


@pytest.mark.parametrize("kind", ALL)
def test_reads_only_declared_columns_and_calls_the_module_once(kind):
    task, module = built(kind)
    microbatch = batch()
    spy = Spy(microbatch.columns)
    calls = []
    module.register_forward_pre_hook(lambda *_: calls.append(1))
    output = task.loss(module, Microbatch(spy, microbatch.lengths, microbatch.attention_mask))
    assert spy.read <= set(task.data.columns) and calls == [1]
    assert set(output.terms) == set(task.data.counted) and set(output.metrics) == set(task.metrics)


@pytest.mark.parametrize("kind", ALL)
def test_sums_of_two_microbatches_add_up(kind):
    task, module = built(kind)
    a, b = batch(1, 3, tiny.TOKENS), batch(2, 8, tiny.TOKENS)
    both = Microbatch(
        {name: torch.cat([a.columns[name], b.columns[name]]) for name in a.columns},
        torch.cat([a.lengths, b.lengths]),
        torch.cat([a.attention_mask, b.attention_mask]),
    )
    apart, together = (task.loss(module, a), task.loss(module, b)), task.loss(module, both)
    for term, total in together.terms.items():
        torch.testing.assert_close(apart[0].terms[term] + apart[1].terms[term], total, rtol=1e-6, atol=1e-6)
    for metric, (_, count) in together.metrics.items():
        assert sum(part.metrics[metric][1].item() for part in apart) == count.item()


@pytest.mark.parametrize("kind", ALL)
def test_extra_padding_changes_nothing(kind):
    task, module = built(kind)
    narrow, wide = task.loss(module, batch()), task.loss(module, batch(width=tiny.TOKENS))
    for term in narrow.terms:
        torch.testing.assert_close(narrow.terms[term], wide.terms[term], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ALL)
def test_A_12_nothing_to_count_is_zero_and_finite(kind):
    task, module = built(kind)
    output = task.loss(module, batch(labels=0))
    for total in output.terms.values():
        assert total.item() == 0.0
        total.backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in module.parameters())


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("model", tiny.KINDS)
def test_overfits_one_microbatch(kind, model):
    task = objective(kind)
    module = task.build(tiny.spec(model, dropout=0.0), tiny.VOCABULARY, max_tokens=tiny.TOKENS, seed=0)
    chosen = tiny.settings(60, lanes=1, learning_rate=1e-2, warmup_steps=5)
    part = tiny.lane(0, 1, 9)
    source = (tiny.Step(n, [part], {"mlm": 9}, (0, 0, n + 1), 40) for n in range(60))
    tiny.run(module, source, chosen=chosen, task=task)
    assert evaluate(module, task, [tiny.microbatch(part)], World())["loss"] < 0.1


@pytest.mark.parametrize("kind", ALL)
def test_finite_in_bf16(kind):
    logged = []
    tiny.run(
        tiny.build(),
        tiny.steps(),
        chosen=tiny.settings(2, precision="bf16"),
        hooks=tiny.Hooks(log=lambda step, metrics: logged.append(metrics)),
    )
    assert all(math.isfinite(value) for metrics in logged for value in metrics.values())
    assert logged[0]["loss"] == pytest.approx(math.log(tiny.SIZE), abs=0.3)


def test_mlm_loss_does_not_depend_on_ignored_positions():
    """What would be right at an ignored position, and what stands at a padded one, does not enter."""
    task, module = built("mlm")
    microbatch = batch()
    reference = task.loss(module, microbatch).terms["mlm"]
    ids = microbatch.columns["input_ids"].clone()
    ids[microbatch.attention_mask == 0] = 9
    changed = task.loss(module, with_column(microbatch, "input_ids", ids)).terms["mlm"]
    torch.testing.assert_close(changed, reference, rtol=1e-6, atol=1e-6)


def test_mlm_projects_to_the_vocabulary_at_labelled_positions_only():
    task, module = built("mlm")
    assert isinstance(module, MaskedLM)
    seen = []
    module.model.cls.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape))
    task.loss(module, batch(labels=9))
    assert seen == [(9, 32)]


def test_mlm_is_the_mean_cross_entropy_of_the_hugging_face_class():
    task, module = built("mlm")
    microbatch = batch()
    reference = module.model(
        input_ids=microbatch.columns["input_ids"],
        attention_mask=microbatch.attention_mask,
        labels=microbatch.columns["labels"],
    )
    output = task.loss(module, microbatch)
    assert output.terms["mlm"].item() / 9 == pytest.approx(reference.loss.item(), rel=1e-6)
    labels = microbatch.columns["labels"]
    right = ((reference.logits.argmax(-1) == labels) & (labels != IGNORE)).sum().item()
    assert [value.item() for value in output.metrics["accuracy"]] == [right, 9]


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"objective\.kind: unknown kind 'mml'; did you mean 'mlm'\?"):
        objective("mml")
    with pytest.raises(
        InputError, match=r"objective\.rate: unknown field of mlm; mlm has no fields, remove it"
    ):
        objective("mlm", rate=0.1)
