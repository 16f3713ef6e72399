"""The held-out score is one number: whatever the microbatches and trainers, and however often it is asked for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from corruption.ragged import Ragged
from corruption.schema import IGNORE
from pipelines.held_out_batches import HeldOutBatches
from pipelines.job import Job
from tests.pipelines.small_run import module_of
from trainers.collectives import World
from trainers.evaluation import evaluate
from trainers.objectives import objective


def with_budget(job: Job, tokens: int) -> Job:
    """The same run with microbatches of at most `tokens` positions, one a step."""
    train = job.recipe.train.model_copy(update={"microbatch_tokens": tokens, "tokens_per_step": tokens})
    return replace(job, recipe=job.recipe.model_copy(update={"train": train}))


def rows(batches: HeldOutBatches) -> list[tuple[bytes, bytes]]:
    """(input, labels) of every row in the order it comes."""
    found = []
    for framed in batches.framed():
        ids, labels = framed["input_ids"], framed["labels"]
        found += [(ids.row(i).tobytes(), labels.row(i).tobytes()) for i in range(len(ids))]
    return found


def sizes(batches: HeldOutBatches) -> list[int]:
    return [len(framed["labels"]) for framed in batches.framed()]


# Framed rows have at most 48 positions: three fill 144, twenty fill 960.
BUDGETS = {3: 144, 20: 960}


def test_A_22_the_loss_is_the_same_in_batches_of_3_and_of_20(small: Job) -> None:
    task, module = objective("mlm"), module_of(small)
    found = []
    for largest, tokens in BUDGETS.items():
        batches = HeldOutBatches(with_budget(small, tokens))
        assert max(sizes(batches)) >= largest, "the budget does not give what this test is about"
        found += [evaluate(module, task, batches, World()) for _ in range(2)]
    for one in found:
        assert one["loss"] == pytest.approx(found[0]["loss"], rel=1e-6)
        assert one["perplexity"] == pytest.approx(math.exp(one["loss"]))
        assert one["count/mlm"] == found[0]["count/mlm"] > 0
    assert found[0] == found[1], "asked twice, it is the same to the bit"


@pytest.mark.parametrize("trainers", [1, 2, 3])
@pytest.mark.parametrize("tokens", BUDGETS.values())
def test_A_22_together_the_trainers_cover_every_row_once(small: Job, tokens: int, trainers: int) -> None:
    job = with_budget(small, tokens)
    shares = [rows(HeldOutBatches(job, rank, trainers)) for rank in range(trainers)]
    assert sorted(row for share in shares for row in share) == sorted(rows(HeldOutBatches(small)))
    held_out = small.opened_store().held_out
    assert sum(map(len, shares)) == held_out.rows


def test_A_22_the_loss_is_the_same_for_two_trainers(small: Job) -> None:
    """Sums of two shares over the sum of their counts, as the trainers' all-reduce makes it."""
    task, module, job = objective("mlm"), module_of(small), with_budget(small, BUDGETS[3])
    whole = evaluate(module, task, HeldOutBatches(job), World())
    halves = [evaluate(module, task, HeldOutBatches(job, rank, 2), World()) for rank in range(2)]
    counts = [half["count/mlm"] for half in halves]
    assert min(counts) > 0 and sum(counts) == whole["count/mlm"]
    mean = sum(half["loss"] * count for half, count in zip(halves, counts)) / sum(counts)
    assert mean == pytest.approx(whole["loss"], rel=1e-6)


def test_A_22_masks_are_fixed_and_those_of_two_rows_differ(small: Job) -> None:
    batches = HeldOutBatches(small)
    first = rows(batches)
    assert first == rows(batches) == rows(HeldOutBatches(small))
    places = [np.flatnonzero(np.frombuffer(labels, np.int32) != IGNORE).tolist() for _, labels in first]
    assert all(places), "every row has something to predict"
    full = [tuple(row) for row, (_, labels) in zip(places, first) if len(labels) >= 4 * 30]
    assert len(full) > 10 and len(set(full)) > 0.9 * len(full)
    other = small.recipe.model_copy(update={"evaluation": small.recipe.evaluation.model_copy(update={"seed": 1})})
    assert rows(HeldOutBatches(replace(small, recipe=other))) != first
    reseeded = small.recipe.model_copy(update={"seed": 99})
    assert rows(HeldOutBatches(replace(small, recipe=reseeded))) == first, "the run's own seed plays no part"


def test_shuffled_keeps_the_labels_and_permutes_the_context_within_its_row(small: Job) -> None:
    moved = 0
    for plain, mixed in zip(HeldOutBatches(small).framed(), HeldOutBatches(small, shuffled=True).framed(), strict=True):
        np.testing.assert_array_equal(plain["labels"].values, mixed["labels"].values)
        np.testing.assert_array_equal(plain["labels"].offsets, mixed["labels"].offsets)
        for before, after, labels in zip(*map(_rows, (plain["input_ids"], mixed["input_ids"], plain["labels"]))):
            labelled = labels != IGNORE
            np.testing.assert_array_equal(before[labelled], after[labelled])
            assert before[[0, -1]].tolist() == after[[0, -1]].tolist(), "[CLS] and [SEP] stay where they are"
            assert sorted(before[~labelled].tolist()) == sorted(after[~labelled].tolist())
            moved += int((before != after).sum())
    assert moved > 1000
    assert rows(HeldOutBatches(small, shuffled=True)) == rows(HeldOutBatches(small, shuffled=True))


def _rows(column: Ragged) -> list[np.ndarray]:
    return [column.row(i) for i in range(len(column))]


def test_a_limit_scores_the_first_microbatches_of_all_trainers(small: Job) -> None:
    job = with_budget(small, BUDGETS[3])
    limited = job.recipe.evaluation.model_copy(update={"held_out_microbatches": 5})
    job = replace(job, recipe=job.recipe.model_copy(update={"evaluation": limited}))
    assert len(sizes(HeldOutBatches(job))) == 5
    shares = [rows(HeldOutBatches(job, rank, 2)) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == sorted(rows(HeldOutBatches(job)))


def test_microbatches_are_padded_and_within_the_budget(small: Job) -> None:
    for microbatch in HeldOutBatches(small):
        ids = microbatch.columns["input_ids"]
        assert ids.numel() <= small.recipe.train.microbatch_tokens
        assert (ids[microbatch.attention_mask == 0] == small.vocabulary.pad).all()
        assert (microbatch.columns["labels"][microbatch.attention_mask == 0] == IGNORE).all()
