"""Framing and padding against plain loops, and what a tokenizer must have for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.errors import InputError
from corruption.frames.single import Single
from corruption.padding import attention_mask, pad, padded
from corruption.ragged import Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from tests.corruption.rows import CLS, PAD, SEP, VOCABULARY, batch, batches, lists

ROWS = st.lists(st.lists(st.integers(0, 59), max_size=9), max_size=6)


def labelled(rows):
    return rows.put(labels=rows.tokens.with_values(np.full_like(rows.tokens.values, IGNORE)))


@given(batches())
def test_framing_against_a_plain_loop(rows):
    frame = Single(columns=("input_ids", "labels", "origin", "word_start"))
    framed = frame.apply(labelled(rows), VOCABULARY)
    tokens, starts = lists(rows.tokens), lists(rows.columns["word_start"])
    assert lists(framed["input_ids"]) == [[CLS, *row, SEP] for row in tokens]
    assert lists(framed["labels"]) == [[IGNORE] * (len(row) + 2) for row in tokens]
    assert lists(framed["origin"]) == [[-1, *range(len(row)), -1] for row in tokens]
    assert lists(framed["word_start"]) == [[0, *row, 0] for row in starts]
    assert all(column.offsets is framed["input_ids"].offsets for column in framed.values())
    assert all(column.values.dtype == np.int32 for column in framed.values())


@given(ROWS, st.integers(-100, 100), st.one_of(st.none(), st.integers(0, 4)))
def test_padding_against_a_plain_loop(rows, fill, more):
    column = Ragged.from_rows(rows)
    longest = max(map(len, rows), default=0)
    width = None if more is None else longest + more
    lengths = column.lengths.astype(np.int32)
    found = pad(column.values, lengths, fill, width)
    width = longest if width is None else width
    assert found.dtype == np.int64 and found.shape == (len(rows), width)
    assert found.tolist() == [row + [fill] * (width - len(row)) for row in rows]
    mask = attention_mask(lengths, width)
    assert mask.dtype == np.int64 and mask.tolist() == [[1] * len(r) + [0] * (width - len(r)) for r in rows]


@pytest.mark.parametrize(("lengths", "width"), [([2, 2], None), ([1, 1], None), ([3], 2), ([4], None)])
def test_padding_refuses_lengths_that_do_not_fit(lengths, width):
    with pytest.raises(ValueError, match="tokens"):
        pad(np.arange(3, dtype=np.int32), np.array(lengths), 0, width)


@given(batches(), st.integers(0, 3))
def test_padded_fills_each_column_as_the_table_says(rows, more):
    frame = Single(columns=("input_ids", "labels", "origin"))
    framed = frame.apply(labelled(rows), VOCABULARY)
    width = int(framed["input_ids"].lengths.max(initial=0)) + more
    made = padded(framed, VOCABULARY, dict.fromkeys(framed, width))
    assert list(made) == ["input_ids", "labels", "origin", "attention_mask"]
    real = made["attention_mask"] == 1
    assert (made["input_ids"][~real] == PAD).all()
    assert (made["labels"][~real] == IGNORE).all() and (made["origin"][~real] == -1).all()
    assert real.sum(axis=1).tolist() == framed["input_ids"].lengths.tolist()
    assert all(array.dtype == np.int64 and array.shape == (len(rows), width) for array in made.values())


def test_A_02_attention_comes_from_lengths_where_pad_and_end_are_one_token():
    shared = Vocabulary.from_ids(20, ids={"pad": 0, "eos": 0, "bos": 1, "mask": 2}, special={0, 1, 2})
    frame = Single()
    frame.check(shared)
    made = padded(frame.apply(labelled(batch([[5, 6], [5, 6, 7, 8]])), shared), shared)
    assert made["input_ids"].tolist() == [[1, 5, 6, 0, 0, 0], [1, 5, 6, 7, 8, 0]]
    assert made["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]


@pytest.mark.parametrize(
    ("ids", "missing"),
    [
        ({"sep": 1, "pad": 2}, "cls_token"),
        ({"cls": 1, "pad": 2}, "sep_token"),
        ({"cls": 1, "sep": 2}, "pad_token"),
    ],
)
def test_A_19_what_framing_needs_is_named(ids, missing):
    with pytest.raises(InputError, match=missing):
        Single().check(Vocabulary.from_ids(9, ids=ids, special=set(ids.values())))


def test_bos_and_eos_stand_in_for_cls_and_sep():
    other = Vocabulary.from_ids(9, ids={"bos": 3, "eos": 4, "pad": 0}, special={0, 3, 4})
    Single().check(other)
    framed = Single(columns=("input_ids",)).apply(batch([[5]]), other)
    assert lists(framed["input_ids"]) == [[3, 5, 4]]


def test_a_column_that_no_corruption_provides_is_named():
    with pytest.raises(InputError, match="no corruption provides the column 'labels'"):
        Single().apply(batch([[5]]), VOCABULARY)
