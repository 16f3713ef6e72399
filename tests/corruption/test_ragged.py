"""Ragged columns: zero-copy over Arrow where it can be, checked where it cannot, and row selection against a
plain loop.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.errors import InputError
from corruption.ragged import Batch, Ragged, offsets_of
from tests.corruption.rows import batch, batches, lists, passages, random_rows

ROWS = st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6), max_size=8)


def array(rows, kind=None):
    return pa.array(rows, kind or pa.list_(pa.int32()))


@given(ROWS, st.sampled_from([pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_(pa.int64())]))
def test_arrow_round_trip(rows, kind):
    ragged = Ragged.from_arrow(array(rows, kind))
    assert lists(ragged) == rows
    back = ragged.to_arrow()
    assert back.type == pa.list_(pa.int32()) and back.to_pylist() == rows
    back.validate(full=True)


@given(ROWS, st.data())
def test_slices_and_chunks_hold_only_their_own_rows(rows, data):
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    cut = data.draw(st.integers(0, len(rows)))
    whole = array(rows)
    sliced = Ragged.from_arrow(whole.slice(start, stop - start))
    assert lists(sliced) == rows[start:stop]
    assert sliced.offsets[0] == 0 and len(sliced.values) == sliced.offsets[-1]
    chunked = pa.chunked_array([whole.slice(0, cut), whole.slice(cut)])
    assert lists(Ragged.from_arrow(chunked)) == rows
    assert lists(Ragged.from_arrow(chunked.slice(start, stop - start))) == rows[start:stop]


def test_no_chunk_and_no_row():
    assert len(Ragged.from_arrow(pa.chunked_array([], pa.list_(pa.int32())))) == 0
    assert len(Ragged.from_arrow(array([]))) == 0
    assert Ragged.from_rows([]).to_arrow().type == pa.list_(pa.int32())


def test_one_chunk_of_int32_is_not_copied_and_read_only():
    column = array([[1, 2], [], [3]])
    ragged = Ragged.from_arrow(column.slice(1))
    assert np.shares_memory(ragged.values, column.values.to_numpy())
    for part in (ragged.values, ragged.offsets):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1


def test_null_rows_read_as_empty_ones():
    column = array([[9], [1, 2], None, [3], None])
    assert lists(Ragged.from_arrow(column.slice(1))) == [[1, 2], [], [3], []]


@pytest.mark.parametrize(
    ("rows", "kind", "says"),
    [
        ([[1, 2**31]], pa.list_(pa.int64()), "2147483648 not in range"),
        ([[2**32 - 1]], pa.list_(pa.uint32()), "not in range"),
        ([[1, None]], pa.list_(pa.int32()), "1 of its items are null"),
        ([["a"]], pa.list_(pa.string()), "int32"),
        ([[[1]]], pa.list_(pa.list_(pa.int32())), "int32"),
    ],
)
def test_A_20_what_does_not_fit_is_refused_and_never_wrapped(rows, kind, says):
    with pytest.raises(InputError, match=says) as raised:
        Ragged.from_arrow(array(rows, kind))
    assert "\n" not in str(raised.value)


def test_A_20_ids_of_a_large_vocabulary_survive():
    ids = [32_768, 65_535, 65_536, 249_999]
    for kind in (pa.int32(), pa.int64(), pa.uint32()):
        ragged = Ragged.from_arrow(array([ids], pa.list_(kind)))
        assert lists(ragged) == [ids] and ragged.to_arrow()[0].as_py() == ids


@pytest.fixture
def beyond(tmp_path):
    """int32 values of more than 8 GB in a sparse file, of which only the last page is ever touched, and their
    base.
    """
    base = 2**31 + 7
    with open(tmp_path / "values", "wb") as file:
        file.truncate(4 * base)
        file.seek(4 * base)
        file.write(np.array([11, 12, 13], "<i4").tobytes())
    return np.memmap(tmp_path / "values", np.int32, mode="r"), base


def test_A_20_offsets_beyond_two_to_the_31_are_written_as_64_bits(beyond):
    values, base = beyond
    ragged = Ragged.of(values, np.array([0, base, base + 2, base + 3]))
    assert ragged.offsets.dtype == np.int64 and ragged.lengths.tolist() == [base, 2, 1]
    column = ragged.to_arrow()
    assert column.type == pa.large_list(pa.int32())
    assert column[1:].to_pylist() == [[11, 12], [13]]
    below = Ragged.of(values[: 2**31 - 1], np.array([0, 2**31 - 1])).to_arrow()
    assert below.type == pa.list_(pa.int32()) and below.offsets.to_pylist() == [0, 2**31 - 1]


def test_A_20_offsets_beyond_two_to_the_31_are_read(beyond):
    values, base = beyond
    offsets = pa.array([0, base, base + 2, base + 3], pa.int64())
    ragged = Ragged.from_arrow(pa.LargeListArray.from_arrays(offsets, pa.array(values)).slice(1))
    assert lists(ragged) == [[11, 12], [13]]
    assert ragged.take(np.array([1, 0])).values.tolist() == [13, 11, 12]


@given(ROWS, st.data())
def test_take_against_a_plain_loop(rows, data):
    ragged = Ragged.from_rows(rows)
    index = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10)) if rows else []
    taken = ragged.take(np.array(index, np.int64))
    assert lists(taken) == [rows[i] for i in index]
    assert taken.values.dtype == np.int32 and taken.offsets.dtype == np.int64


@given(st.lists(st.integers(0, 9), max_size=9))
def test_offsets_of(lengths):
    assert offsets_of(np.array(lengths, np.int32)).tolist() == [sum(lengths[:i]) for i in range(len(lengths) + 1)]


@given(batches(), st.data())
def test_batch_take_keeps_columns_aligned(rows, data):
    loose = Ragged.from_rows([[i] for i in range(len(rows))])
    rows = rows.put(row_number=loose)
    index = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if len(rows) else []
    taken = rows.take(np.array(index, np.int64))
    assert taken.keys.tolist() == rows.keys[index].tolist() and taken.copies.tolist() == [0] * len(index)
    assert taken.aligned("word_start") and not taken.aligned("row_number")
    assert lists(taken.columns["row_number"]) == [[i] for i in index]
    for name in ("tokens", "word_start"):
        assert lists(taken.columns[name]) == [rows.columns[name].row(i).tolist() for i in index]


def test_batch_from_arrow_sliced_and_chunked():
    rows, starts = random_rows(30, 20, seed=1)
    table = passages(rows, starts, range(30))
    names = ("tokens", "word_start", "sentence_start")
    whole = Batch.from_arrow(table, names)
    assert all(whole.aligned(name) for name in names) and lists(whole.tokens) == [r.tolist() for r in rows]
    part = Batch.from_arrow(pa.concat_tables([table.slice(3, 4), table.slice(7, 11)]), names)
    assert part.keys.tolist() == list(range(3, 18)) and lists(part.tokens) == [r.tolist() for r in rows[3:18]]
    assert lists(part.columns["word_start"]) == [r.tolist() for r in starts[3:18]]
    empty = Batch.from_arrow(table.slice(0, 0), names)
    assert len(empty) == 0 and len(empty.tokens) == 0


def test_batch_refuses_a_column_that_is_not_aligned():
    table = pa.table({"key": pa.array([1], pa.uint64()), "tokens": array([[1, 2]]), "word_start": array([[1]])})
    with pytest.raises(ValueError, match="word_start is not aligned"):
        Batch.from_arrow(table, ("tokens", "word_start"))


def test_origin_counts_from_each_row_start():
    assert lists(batch([[7, 8, 9], [], [5]]).origin()) == [[0, 1, 2], [], [0]]
