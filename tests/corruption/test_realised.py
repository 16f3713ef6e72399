"""The counts of what a chain did, against plain loops over lists, and added up over parts of a batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corruption.chain import Chain
from corruption.edit import take
from corruption.noise_kinds import Mask
from corruption.ragged import Batch, Ragged, per_row
from corruption.realised import realised
from corruption.schema import IGNORE
from tests.corruption.rows import LARGE, MASK, RICH, SPECIAL, VOCABULARY, batch, batches, lists


def masked(rows: Batch, rate: float) -> Batch:
    return Chain((Mask(rate=rate),)).apply(rows, seed=1, epoch=0, vocabulary=VOCABULARY)


@given(batches(), st.sampled_from([0.0, 0.15, 0.6, 1.0]))
def test_masking_against_a_plain_loop(rows: Batch, rate: float) -> None:
    after = masked(rows, rate)
    found = realised(rows, after, VOCABULARY)
    flat = [token for row in lists(rows.tokens) for token in row]
    pairs = [
        (token, label)
        for tokens, labels in zip(lists(after.tokens), lists(after.columns["labels"]))
        for token, label in zip(tokens, labels)
    ]
    asked = [(token, label) for token, label in pairs if label != IGNORE]
    assert found == {
        "rows": len(rows),
        "tokens": len(flat),
        "input_tokens": len(flat),
        "choosable": sum(token not in SPECIAL for token in flat),
        "hidden": sum(token == MASK for token, _ in pairs),
        "labelled": len(asked),
        "kept": sum(token == label for token, label in asked),
        "random": sum(token not in (MASK, label) for token, label in asked),
    }


def test_shares_are_those_of_the_recipe() -> None:
    rows = batch([np.random.default_rng(i).integers(5, 30_000, 500) for i in range(200)])
    after = Chain((Mask(),)).apply(rows, seed=1, epoch=0, vocabulary=LARGE)
    found = realised(rows, after, LARGE)
    assert found["labelled"] == 0.15 * found["choosable"] == 15_000
    shares = [found[name] / found["labelled"] for name in ("hidden", "random", "kept")]
    # five standard deviations of a share of 0.1 among 15,000
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.0125)


@st.composite
def moved(draw: st.DrawFn) -> tuple[Batch, list[list[int]]]:
    rows = draw(batches(max_length=8))
    index = [
        draw(st.lists(st.integers(-1, len(row) - 1), max_size=10)) if row else [-1] * draw(st.integers(0, 2))
        for row in lists(rows.tokens)
    ]
    return rows, index


@given(moved())
def test_edits_against_a_plain_loop(case: tuple[Batch, list[list[int]]]) -> None:
    rows, index = case
    found = realised(rows, take(rows, Ragged.from_rows(index), {"tokens": MASK}), VOCABULARY)
    kept = [[i for i in places if i >= 0] for places in index]
    assert found["invented"] == sum(i < 0 for places in index for i in places)
    assert found["removed"] == sum(len(set(range(n)) - set(own)) for n, own in zip(rows.tokens.lengths, kept))
    assert found["moved"] == sum(i != j for own in kept for i, j in zip(own, sorted(own)))
    assert found["input_tokens"] == sum(map(len, index))


def test_known_edits() -> None:
    rows = batch([[10, 11, 12, 13], [20, 21, 22]])
    deleted = take(rows, Ragged.from_rows([[0, 3], [0, 1, 2]]))
    assert _edits(rows, deleted) == (2, 0, 0)
    rotated = take(rows, Ragged.from_rows([[2, 3, 0, 1], [0, 1, 2]]))
    assert _edits(rows, rotated) == (0, 0, 4)
    infilled = take(rows, Ragged.from_rows([[0, -1, 3], [-1]]), {"tokens": MASK})
    assert _edits(rows, infilled) == (5, 2, 0)
    assert realised(rows, infilled, VOCABULARY)["hidden"] == 2


def _edits(before: Batch, after: Batch) -> tuple[int, ...]:
    found = realised(before, after, VOCABULARY)
    return tuple(found[name] for name in ("removed", "invented", "moved"))


def test_columns_that_only_some_kinds_provide() -> None:
    rows = batch([[10, 11], [12], [13, 14]])
    other = Ragged.from_rows([[1, 2, 3], [], [4]])
    after = rows.put(
        tokens=rows.tokens.with_values(np.array([10, RICH.sentinels[0], 12, RICH.sentinels[1], 14], np.int32)),
        targets=other,
        positive=other,
        next_sentence_label=per_row(np.array([1, 0, 1])),
        attention_pattern=per_row(np.array([0, 3, 3])),
    )
    found = realised(rows, after, RICH)
    assert found["sentinels"] == 2
    assert found["target_tokens"] == found["positive_tokens"] == 4
    assert found["not_next"] == 2
    patterns = {name: n for name, n in found.items() if name.startswith("pattern_")}
    assert patterns == {
        "pattern_bidirectional": 1,
        "pattern_left_to_right": 0,
        "pattern_right_to_left": 0,
        "pattern_sequence_to_sequence": 2,
    }
    assert not {"labelled", "removed"} & found.keys()


def test_labels_of_a_decoder_are_no_labels_of_the_input() -> None:
    rows = batch([[10, 11], [12]])
    after = rows.put(labels=Ragged.from_rows([[10, 11, 12], [12]]))
    assert "labelled" not in realised(rows, after, VOCABULARY)


@given(batches(max_rows=6))
def test_counts_of_parts_add_up(rows: Batch) -> None:
    after = masked(rows, 0.5)
    parts: Counter[str] = Counter()
    for place in np.array_split(np.arange(len(rows)), 3):
        parts.update(realised(rows.take(place), after.take(place), VOCABULARY))
    assert dict(parts) == realised(rows, after, VOCABULARY)


def test_numbers_are_plain() -> None:
    rows = batch([[10, 11, 12]])
    assert all(type(n) is int for n in realised(rows, masked(rows, 0.5), VOCABULARY).values())
