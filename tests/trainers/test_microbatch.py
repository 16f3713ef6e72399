import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corruption.schema import IGNORE
from trainers.losses import cross_entropy_sum, hits
from trainers.microbatch import Microbatch


def flat(*values):
    return np.array(values, np.int32)


def test_padding_is_the_column_tables_and_the_mask_comes_from_the_lengths():
    """A pad id that is a real token stays visible."""
    columns = {"input_ids": flat(2, 0, 3, 2, 3), "labels": flat(-100, 7, -100, -100, -100)}
    made = Microbatch.from_flat(columns, np.array([3, 2]), pad_id=0)
    assert made.columns["input_ids"].tolist() == [[2, 0, 3], [2, 3, 0]]
    assert made.columns["labels"].tolist() == [[-100, 7, -100], [-100, -100, -100]]
    assert made.attention_mask.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert made.lengths.tolist() == [3, 2] and len(made) == 2
    tensors = (*made.columns.values(), made.attention_mask, made.lengths)
    assert {tensor.dtype for tensor in tensors} == {torch.int64}


def test_an_empty_microbatch_is_legal():
    made = Microbatch.from_flat({"input_ids": flat(), "labels": flat()}, np.zeros(0, np.int32), pad_id=0)
    assert len(made) == 0 and made.columns["input_ids"].shape == (0, 0) == made.attention_mask.shape


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no column 'imput_ids'"):
        Microbatch.from_flat({"imput_ids": flat(1)}, np.array([1]), pad_id=0)
    with pytest.raises(ValueError, match="3 of 2"):
        Microbatch.from_flat({"input_ids": flat(1, 2)}, np.array([3]), pad_id=0)


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(0, 3))
def test_real_positions_come_back_in_order(lengths, extra):
    values = np.arange(sum(lengths), dtype=np.int32)
    width = max(lengths, default=0) + extra
    made = Microbatch.from_flat({"input_ids": values}, np.array(lengths, np.int32), pad_id=99, width=width)
    visible = made.attention_mask.bool()
    assert made.columns["input_ids"][visible].tolist() == values.tolist()
    assert made.attention_mask.sum(1).tolist() == lengths and made.attention_mask.shape[1] == width
    assert (made.columns["input_ids"][~visible] == 99).all()


def test_read_only_arrays_are_fine():
    values = flat(1, 2, 3)
    values.flags.writeable = False
    assert Microbatch.from_flat({"input_ids": values}, np.array([3]), pad_id=0).columns[
        "input_ids"
    ].shape == (1, 3)


def test_cross_entropy_sum_against_the_definition():
    logits, labels = torch.randn(6, 9), torch.tensor([1, IGNORE, 3, 8, IGNORE, 0])
    total, count = cross_entropy_sum(logits, labels)
    expected = -sum(logits[i].log_softmax(-1)[n].item() for i, n in enumerate(labels.tolist()) if n != IGNORE)
    assert total.item() == pytest.approx(expected, rel=1e-6) and count.item() == 4
    assert total.dtype == torch.float64
    right, of = hits(logits, logits.argmax(-1).where(labels != IGNORE, labels))
    assert (right.item(), of.item()) == (4, 4)


def test_cross_entropy_sum_of_nothing_is_zero_with_a_gradient():
    logits = torch.randn(2, 5, requires_grad=True)
    total, count = cross_entropy_sum(logits, torch.full((2,), IGNORE))
    total.backward()
    assert total.item() == 0 and count.item() == 0 and not logits.grad.any()
    assert cross_entropy_sum(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))[0].item() == 0
