"""Parquet: nulls, types, damage, and parts by row group."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corruption.errors import InputError
from pipelines.documents import DOCUMENTS, documents_to_table
from tests.pipelines.formats.reading import PACK, read, write


def save(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("null_first", [True, False])
def test_D_05_null_columns_beside_string_columns(tmp_path: Path, null_first: bool) -> None:
    full = {"text": ["y"], "meta": ["m"], "ents": [[{"s": 0, "e": 1}]], "words": [["y"]]}
    bare = {
        "text": ["x"],
        "meta": pa.nulls(1),
        "ents": pa.array([[]], pa.list_(pa.null())),
        "words": pa.nulls(1),
    }
    save(tmp_path / "a.parquet", bare if null_first else full)
    save(tmp_path / "b.parquet", full if null_first else bare)
    got = read(tmp_path, "*.parquet", title="meta", words="words")
    assert got.texts == (["x", "y"] if null_first else ["y", "x"])
    table = documents_to_table(got.documents)
    assert table.schema == DOCUMENTS
    assert sorted(table["title"].to_pylist(), key=str) == [None, "m"]


def test_G_05_nulls_and_the_words_for_null(tmp_path: Path) -> None:
    save(tmp_path / "t.parquet", {"text": [None, "", "  ", "null", "None", "NA", "nan"]})
    got = read(tmp_path, "t.parquet")
    assert got.texts == ["null", "None", "NA", "nan"]
    assert got.tally.rejects == {"null": 1, "empty": 2}
    assert got.keys == [f"t.parquet:{n}" for n in (3, 4, 5, 6)] and got.reasons[0] == ("null", "row 0")


def test_G_09_invalid_utf8_is_found_row_by_row(tmp_path: Path) -> None:
    raw = pa.array([b"a", b"bad \xff", b"c"])
    unchecked = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    save(tmp_path / "string.parquet", {"text": unchecked})
    save(tmp_path / "bytes.parquet", {"text": raw})
    for name in ("string.parquet", "bytes.parquet"):
        got = read(tmp_path, name)
        assert got.texts == ["a", "c"] and got.reasons == [("invalid_utf8", "row 1")], name
        assert read(tmp_path, name, invalid_utf8="replace").texts == ["a", "bad \ufffd", "c"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.large_binary(),
    ],
)
def test_every_way_to_store_text(tmp_path: Path, kind: pa.DataType) -> None:
    values = ["ä", "007", "ä"]
    array = (
        pa.array(values).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(values).cast(kind)
    )
    save(tmp_path / "t.parquet", {"text": array})
    assert read(tmp_path, "t.parquet").texts == values


@pytest.mark.parametrize("codec", ["gz", "bz2", "zst"])
def test_packed_parquet(tmp_path: Path, codec: str) -> None:
    path = save(tmp_path / "t.parquet", {"text": ["a", "b"]})
    packed = PACK[codec](path.read_bytes())
    write(tmp_path, f"p.parquet.{codec}", packed)
    write(tmp_path, f"q.parquet.{codec}", packed[:-3])
    got = read(tmp_path, f"?.parquet.{codec}")
    assert got.texts == ["a", "b"] and got.reasons == [("truncated", "")]


@pytest.mark.parametrize("unit_bytes", [1, 3000, 1 << 30])
def test_units_of_any_size_give_the_same_rows(tmp_path: Path, unit_bytes: int) -> None:
    save(tmp_path / "t.parquet", {"text": [f"text {n}" for n in range(1000)]}, row_group_size=90)
    got = read(tmp_path, "t.parquet", unit_bytes=unit_bytes)
    assert got.keys == [f"t.parquet:{n}" for n in range(1000)]


@pytest.mark.parametrize("unit_bytes", [1, 1 << 30])
def test_a_broken_row_group_is_rejected_and_the_others_are_used(tmp_path: Path, unit_bytes: int) -> None:
    texts = [f"some longer text with number {n}" for n in range(300)]
    options: dict[str, Any] = dict(row_group_size=100, write_page_checksum=True, compression="none")
    path = save(tmp_path / "t.parquet", {"text": texts}, use_dictionary=False, **options)
    data = path.read_bytes()
    write(tmp_path, "t.parquet", data.replace(b"text with number 150", b"text with numbex 150"))
    got = read(tmp_path, "t.parquet", unit_bytes=unit_bytes)
    assert got.texts == texts[:100] + texts[200:]
    assert [(r.reason, r.rows) for r in got.rejects] == [("corrupt", 100)] and "row group 1" in got.rejects[
        0
    ].position
    assert got.tally.rows == 300


def test_a_broken_file_beside_a_good_one(tmp_path: Path) -> None:
    data = save(tmp_path / "good.parquet", {"text": ["a"]}).read_bytes()
    write(tmp_path, "half.parquet", data[: len(data) // 2])
    write(tmp_path, "text.parquet", b"not at all")
    got = read(tmp_path, ".")
    assert got.texts == ["a"] and {(r.file, r.reason) for r in got.rejects} == {
        ("half.parquet", "corrupt"),
        ("text.parquet", "not_parquet"),
    }


def test_a_column_that_is_nowhere_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    save(tmp_path / "a.parquet", {"content": ["x"], "number": [1]})
    save(tmp_path / "b.parquet", {"content": ["y"]})
    with pytest.raises(InputError, match=r"text: no file has a column 'contents'; did you mean 'content'\?"):
        read(tmp_path, "*.parquet", text="contents")
    with pytest.raises(
        InputError, match=r"title: no file has a column 'zzz'; set title to one of 'content', 'number'"
    ):
        read(tmp_path, "*.parquet", text="content", title="zzz")
    with pytest.raises(
        InputError, match=r"column 'number' is int64, not text; name a column of strings \('content'\)"
    ):
        read(tmp_path, "*.parquet", text="number")


def test_a_column_that_is_missing_in_one_file_rejects_its_rows(tmp_path: Path) -> None:
    save(tmp_path / "a.parquet", {"text": ["x"]})
    save(tmp_path / "b.parquet", {"other": ["y", "z"]})
    save(tmp_path / "c.parquet", {"text": [1, 2, 3]})
    got = read(tmp_path, "*.parquet")
    assert got.texts == ["x"] and got.tally.rejects == {"missing": 2, "not_text": 3} and got.tally.rows == 6


def test_an_empty_table_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a.parquet", {"text": ["x"]})
    save(tmp_path / "b.parquet", {"text": pa.array([], pa.string())})
    got = read(tmp_path, "*.parquet")
    assert [(r.file, r.reason) for r in got.rejects] == [("b.parquet", "empty_file")]
