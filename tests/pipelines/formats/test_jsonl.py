"""JSON lines: every row is a document or has a reason with its line, and no value changes its type."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.formats.jsonl import ARRAY
from tests.pipelines.formats.reading import PACK, read, write


def test_G_01_bom(tmp_path: Path) -> None:
    rows = b'{"text":"a"}\n{"text":"b"}\n{"text":"c"}\n'
    bom = b"\xef\xbb\xbf"
    write(tmp_path, "plain/r.jsonl", rows)
    write(tmp_path, "bom/r.jsonl", bom + rows)
    write(tmp_path, "joined/r.jsonl", bom + rows[:13] + bom + rows[13:])
    write(tmp_path, "utf16/r.jsonl", b"\xff\xfe" + rows.decode().encode("utf-16-le"))
    wanted = read(tmp_path, "plain")
    assert wanted.texts == ["a", "b", "c"]
    for folder in ("bom", "joined", "utf16"):
        assert read(tmp_path, folder) == wanted, folder


def test_G_02_lone_surrogates_are_replaced_and_counted(tmp_path: Path) -> None:
    rows = [r"ok \ud83d\ude00", r"bad \ud83d end", r"\udc00", "fine"]
    write(tmp_path, "r.jsonl", "".join(f'{{"text":"{row}"}}\n' for row in rows))
    got = read(tmp_path, "r.jsonl")
    assert got.texts == ["ok \U0001f600", "bad \ufffd end", "\ufffd", "fine"]
    assert got.tally.notes == {"lone_surrogate": 2}
    assert [note.position for note in got.notes] == ["line 2", "line 3"]
    for text in got.texts:
        text.encode()


def test_G_03_a_raw_line_separator_stays_inside_its_row(tmp_path: Path) -> None:
    write(tmp_path, "r.jsonl", '{"text":"x\u2028y\x85z"}\n')
    assert read(tmp_path, "r.jsonl").texts == ["x\u2028y\x85z"]


def test_G_04_text_must_be_text(tmp_path: Path) -> None:
    values = ["a", 5, 1.0, True, ["x"], {"a": 1}, "007", "1e5", "2024-01-01"]
    write(tmp_path, "r.jsonl", "".join(json.dumps({"text": value}) + "\n" for value in values))
    got = read(tmp_path, "r.jsonl")
    assert got.texts == ["a", "007", "1e5", "2024-01-01"]
    assert got.reasons == [("not_text", f"line {n}") for n in (2, 3, 4, 5, 6)]
    assert "'text' is a number, not text" in got.rejects[0].detail


def test_G_05_nulls_and_the_words_for_null(tmp_path: Path) -> None:
    rows = ['{"text":null}', '{"other":1}', '{"text":""}', '{"text":"  "}']
    rows += [json.dumps({"text": word}) for word in ("null", "None", "NA", "nan")]
    write(tmp_path, "r.jsonl", "\n".join(rows))
    got = read(tmp_path, "r.jsonl")
    assert got.texts == ["null", "None", "NA", "nan"]
    assert got.tally.rejects == {"null": 1, "missing": 1, "empty": 2}
    assert [position for _, position in got.reasons] == ["line 1", "line 2", "line 3", "line 4"]


def test_G_09_invalid_utf8(tmp_path: Path) -> None:
    rows = [b'{"text":"%d"}' % n for n in range(5)]
    rows[2] = b'{"text":"bad \xff utf8"}'
    write(tmp_path, "r.jsonl", b"\n".join(rows))
    skip = read(tmp_path, "r.jsonl")
    assert skip.texts == ["0", "1", "3", "4"] and skip.reasons == [("invalid_utf8", "line 3")]
    assert skip.rejects[0].file == "r.jsonl"
    replaced = read(tmp_path, "r.jsonl", invalid_utf8="replace")
    assert replaced.texts[2] == "bad \ufffd utf8" and len(replaced.texts) == 5
    assert [(note.reason, note.position) for note in replaced.notes] == [("invalid_utf8", "line 3")]


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r.json.gz"])
def test_G_10_arrays_and_pretty_printed_objects_are_refused_whole(tmp_path: Path, name: str) -> None:
    pack = PACK["gz" if name.endswith("gz") else ""]
    path = write(tmp_path, name, pack(b'[{"text":"a"},\n {"text":"b"}]'))
    got = read(tmp_path, name)
    assert not got.documents and [(r.reason, r.detail) for r in got.rejects] == [("json_array", ARRAY)]
    path.write_bytes(pack(json.dumps({"text": "a", "b": [1, 2]}, indent=1).encode()))
    assert [r.reason for r in read(tmp_path, name).rejects] == ["json_pretty"]
    path.write_bytes(pack(b'{"data":[{"text":"a"}]}'))
    assert [r.reason for r in read(tmp_path, name).rejects] == ["missing"]


def test_other_broken_rows(tmp_path: Path) -> None:
    rows = [
        '{"text":"a"',
        "7",
        '{"text":"b"}',
        "[" * 100_000,
        '{"text":1' + "0" * 5000 + "}",
        '{"text":"c"} x',
        "",
        '{"text":"d"}',
    ]
    write(tmp_path, "r.jsonl", "\n".join(rows))
    got = read(tmp_path, "r.jsonl")
    assert got.texts == ["b", "d"]
    assert [reason for reason, _ in got.reasons] == [
        *("invalid_json", "not_object", "invalid_json", "invalid_json", "invalid_json", "blank")
    ]


def test_columns_and_keys(tmp_path: Path) -> None:
    rows = [
        {"body": "a b", "n": 7, "head": "T", "class": 1, "seg": ["a", "b"]},
        {"body": "c", "n": "007", "head": None, "class": True, "seg": None},
        {"body": "d", "n": None},
        {"body": "e", "n": 1.0},
        {"body": "f", "n": 1, "head": ["x"]},
        {"body": "g", "n": 2, "class": {}},
        {"body": "h i", "n": 3, "seg": ["h", "j"]},
        {"body": "k", "n": 4, "seg": "k"},
    ]
    write(tmp_path, "r.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    got = read(
        tmp_path,
        dict(source="r.jsonl", text="body", id="n", title="head", label="class", words="seg", name="mine"),
    )
    assert got.keys == ["mine/7", "mine/007"]
    first, second = got.documents
    assert (first.title, first.label, first.words) == ("T", "1", ["a", "b"])
    assert (second.title, second.label, second.words) == (None, "true", None)
    assert [reason for reason, _ in got.reasons] == [
        "bad_id",
        "bad_id",
        "bad_title",
        "bad_label",
        "bad_words",
        "bad_words",
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(['{"text":"a"}', "", "{", '{"text":null}', '{"text":"é"}']), max_size=25),
    st.integers(1, 60),
)
def test_units_of_any_size_give_the_same_rows(tmp_path: Path, rows: list[str], unit_bytes: int) -> None:
    write(tmp_path, "r.jsonl", "\n".join(['{"text":"first"}', *rows]))
    whole = read(tmp_path, "r.jsonl")
    assert read(tmp_path, "r.jsonl", unit_bytes=unit_bytes) == whole
    for codec in ("gz", "bz2", "zst"):
        write(
            tmp_path, f"{codec}/r.jsonl.{codec}", PACK[codec]("\n".join(['{"text":"first"}', *rows]).encode())
        )
        assert read(tmp_path, codec, unit_bytes=unit_bytes).texts == whole.texts
