"""The column table and the store's schema: int32 lists always, whatever a block happens to hold."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corruption.ragged import Ragged
from corruption.schema import COLUMNS, IGNORE, MENTION, PASSAGES
from tests.corruption.rows import lists, passages

BLOCKS = {
    "all of one length": [[1, 2, 3, 4]] * 3,
    "of many lengths": [[1], [1, 2], [1, 2, 3, 4, 5, 6, 7]],
    "one row": [[9]],
    "all empty": [[], []],
    "no row": [],
}


def table(rows):
    arrays = [np.array(row, np.int32) for row in rows]
    return passages(arrays, [np.ones_like(row) for row in arrays], range(len(rows)))


def round_trip(block):
    buffer = io.BytesIO()
    pq.write_table(block, buffer)
    return pq.read_table(io.BytesIO(buffer.getvalue()))


def test_every_column_names_itself_and_ignored_labels_are_minus_100():
    assert all(name == column.name for name, column in COLUMNS.items())
    assert COLUMNS["labels"].pad == IGNORE == -100 and COLUMNS["input_ids"].pad == "pad"


@pytest.mark.parametrize("name", ["tokens", "word_start", "sentence_start"])
def test_numbers_of_tokens_are_int32_lists(name):
    kind = PASSAGES.field(name).type
    assert pa.types.is_list(kind) and kind.value_type == pa.int32() and not kind.value_field.nullable


@pytest.mark.parametrize("rows", BLOCKS.values(), ids=BLOCKS)
def test_D_04_lists_keep_their_type_whatever_their_lengths(rows):
    """Never a tensor extension for equal lengths, never list<null> for empty ones."""
    assert Ragged.from_rows(rows).to_arrow().type == pa.list_(pa.int32())
    back = round_trip(table(rows))
    assert back.schema.equals(PASSAGES)
    assert not any(isinstance(kind, pa.ExtensionType) for kind in back.schema.types)
    assert lists(Ragged.from_arrow(back["tokens"])) == rows


def test_D_05_blocks_without_labels_or_mentions_join_with_blocks_that_have_them():
    without = table([[1, 2]])
    mention = [{"start": 0, "end": 1, "target": "Moth"}]
    others = without.set_column(5, "mentions", pa.array([mention], pa.list_(MENTION)))
    others = others.set_column(6, "label", pa.array(["m"]))
    for blocks in ([without, others], [others, without]):
        joined = pa.concat_tables([round_trip(block) for block in blocks])
        assert joined.schema.equals(PASSAGES) and len(joined) == 2
        assert sorted(joined["label"].to_pylist(), key=str) == [None, "m"]
        assert sorted(map(len, joined["mentions"].to_pylist())) == [0, 1]


def test_D_05_a_list_of_nulls_that_is_empty_reads_as_integers():
    column = pa.array([[], []])
    assert column.type == pa.list_(pa.null())
    found = Ragged.from_arrow(column)
    assert lists(found) == [[], []] and found.values.dtype == np.int32
