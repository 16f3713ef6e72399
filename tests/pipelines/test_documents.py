"""Documents keep every field on their way through Arrow, and tallies add up."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.documents import (
    DOCUMENTS,
    QUARANTINE,
    Document,
    Note,
    Reject,
    Tally,
    documents_to_table,
    quarantine_table,
    table_to_documents,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
LINKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), TEXT), max_size=3)
ROWS = st.builds(
    Document, TEXT, TEXT, st.none() | TEXT, st.none() | TEXT, LINKS, st.none() | st.lists(TEXT, max_size=3)
)


@settings(deadline=None, max_examples=60)
@given(st.lists(ROWS, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_documents_survive_arrow_and_slicing(rows: list[Document], start: int, length: int) -> None:
    table = documents_to_table(rows)
    assert table.schema == DOCUMENTS
    table.validate(full=True)
    assert table_to_documents(table) == rows
    assert table_to_documents(table.slice(start, length)) == rows[start : start + length]
    assert table_to_documents(pa.concat_tables([table, table])) == rows + rows


def test_an_empty_batch_has_the_schema() -> None:
    assert documents_to_table([]).schema == DOCUMENTS
    assert table_to_documents(documents_to_table([])) == []


def test_tally_adds_up_after_merging_and_counts_a_broken_row_group_by_its_rows() -> None:
    one, other = Tally(), Tally()
    one.add(Document("k", "t"))
    one.add(Reject("f", "line 2", "null", "it is null"))
    other.add(Reject("f", "row group 1", "corrupt", "bad page", rows=40))
    other.add(Reject("f", "line 3", "blank", "nothing in it", expected=True))
    other.add(Note("f", "line 1", "lone_surrogate", "1"))
    one.merge(other)
    assert one.adds_up() and one.rows == 43
    assert one.to_json() == {
        "rows": 43,
        "documents": 1,
        "rejects": {"corrupt": 40, "null": 1},
        "expected": {"blank": 1},
        "notes": {"lone_surrogate": 1},
    }
    one.documents += 1
    assert not one.adds_up()


def test_quarantine_holds_faults_only() -> None:
    table = quarantine_table([Reject("f", "line 2", "null", "d"), Reject("f", "line 3", "blank", "d", True)])
    assert table.schema == QUARANTINE
    assert table.to_pylist() == [{"file": "f", "position": "line 2", "reason": "null", "detail": "d"}]
