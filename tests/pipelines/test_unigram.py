"""The floor under a masked model: what token frequencies alone would answer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from corruption.schema import IGNORE
from pipelines import unigram
from pipelines.store import open_store
from pipelines.unigram import unigram_counts, unigram_loss
from tests.pipelines.synthetic import write_store


def test_counts_are_those_of_the_training_passages(tmp_path: Path) -> None:
    store = open_store(write_store(tmp_path))
    counts = unigram_counts(store, 1000)
    assert counts.dtype == np.int64 and len(counts) == 1000
    assert counts.sum() == store.manifest["tokens"]["train"]
    expected = np.zeros(1000, np.int64)
    for shard, number in zip(store.train.shard, store.train.number.tolist()):
        for row in store.read(shard, [number], ["tokens"])["tokens"].to_pylist():
            np.add.at(expected, row, 1)
    np.testing.assert_array_equal(counts, expected)


def test_enough_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(write_store(tmp_path))
    monkeypatch.setattr(unigram, "ENOUGH_TOKENS", 1000)
    assert 1000 <= unigram_counts(store, 1000).sum() < store.manifest["tokens"]["train"]


def test_the_loss_is_that_of_add_one_smoothing_at_labelled_positions() -> None:
    counts = np.array([0, 3, 1], np.int64)
    labels = [np.array([IGNORE, 1, 0], np.int32), np.array([IGNORE], np.int32), np.array([2], np.int32)]
    expected = -(math.log(4 / 7) + math.log(1 / 7) + math.log(2 / 7)) / 3
    loss, n = unigram_loss(counts, labels)
    assert n == 3 and loss == pytest.approx(expected)


def test_no_label_is_no_loss() -> None:
    for labels in ([], [np.full(4, IGNORE, np.int32)]):
        loss, n = unigram_loss(np.ones(3, np.int64), labels)
        assert math.isnan(loss) and n == 0


@given(arrays(np.int64, st.integers(2, 20), elements=st.integers(0, 10**9)), st.data())
def test_probabilities_add_up_and_the_split_into_rows_plays_no_part(counts: np.ndarray, data: st.DataObject) -> None:
    every = np.arange(len(counts), dtype=np.int32)
    per_id = [unigram_loss(counts, [every[i : i + 1]])[0] for i in range(len(counts))]
    assert sum(math.exp(-loss) for loss in per_id) == pytest.approx(1.0)
    labels = data.draw(arrays(np.int32, st.integers(1, 30), elements=st.sampled_from(every.tolist())))
    cut = data.draw(st.integers(0, len(labels)))
    one, two = unigram_loss(counts, [labels]), unigram_loss(counts, [labels[:cut], labels[cut:]])
    assert one[1] == two[1] and one[0] == pytest.approx(two[0])
