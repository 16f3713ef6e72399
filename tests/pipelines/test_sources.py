"""Which files a source means, what they are, and how they are cut into units."""

import bz2
import gzip
import json
import os
import pickle
import random
from pathlib import Path

import pytest
from pydantic import ValidationError

from corruption.errors import InputError
from pipelines.sources import Source, list_files, list_units, read_unit
from tests.pipelines.formats.reading import PACK, read, write

ROW = '{"text":"a"}\n'


def names(base: Path, *sources: str | list[str]) -> list[str]:
    return [unit.relative for unit in list_files([Source(source=source) for source in sources], base)]


def test_D_10_empty_files_are_named_and_do_not_stop_the_run(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl.gz", gzip.compress(ROW.encode() * 2))
    write(tmp_path, "b.jsonl.gz", gzip.compress(b""))
    write(tmp_path, "c.jsonl", b"")
    write(tmp_path, "d.txt", b"\n\n")
    write(tmp_path, "e.jsonl", b"\n\n")
    got = read(tmp_path, ".")
    assert got.texts == ["a", "a"]
    named = [(reject.file, reject.reason) for reject in got.rejects if not reject.expected]
    assert named == [
        (f, r)
        for f, r in zip(
            ["b.jsonl.gz", "c.jsonl", "d.txt", "e.jsonl"], ["empty_file"] * 2 + ["empty", "empty_file"]
        )
    ]


def test_D_10_a_source_of_empty_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", b"")
    write(tmp_path, "b.txt", b"")
    with pytest.raises(InputError, match=r"none of 2 files can be used, a.jsonl: it has 0 bytes"):
        list_files([Source(source="*")], tmp_path)


def test_D_11_archives_are_known_by_suffix_and_first_bytes(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(50)).encode()
    write(tmp_path, "plain/rows.jsonl", rows)
    wanted = read(tmp_path, "plain").texts
    for codec in ("gz", "zst", "bz2"):
        write(tmp_path, f"{codec}/rows.jsonl.{codec}", PACK[codec](rows))
        write(tmp_path, f"bare-{codec}/rows", PACK[codec](rows))
        write(tmp_path, f"hidden-{codec}/rows.jsonl", PACK[codec](rows))
        for folder in (codec, f"bare-{codec}", f"hidden-{codec}"):
            assert read(tmp_path, folder).texts == wanted, folder
    write(tmp_path, "mixed/good.jsonl", rows)
    for codec, name in (("gz", "gzip"), ("bz2", "bzip2"), ("zst", "zstd")):
        write(tmp_path, f"mixed/rows.jsonl.{codec}", rows)
        with pytest.raises(InputError, match=rf"not {name} although it is named so"):
            read(tmp_path, f"mixed/rows.jsonl.{codec}")
    got = read(tmp_path, "mixed")
    assert got.texts == wanted and {r.reason for r in got.rejects} == {"not_gzip", "not_bzip2", "not_zstd"}
    write(tmp_path, "mixed/rows.jsonl.gz", bz2.compress(rows))
    assert "it is bzip2" in next(r.detail for r in read(tmp_path, "mixed").rejects if r.reason == "not_gzip")


def test_H_09_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    write(home, "d s/in put.jsonl", ROW)
    write(home, "~/x.jsonl", ROW)
    monkeypatch.setenv("HOME", str(home))
    work = tmp_path / "work"
    for name in ("-x.txt", "%20.txt", "ünï 北.txt", "new\nline.txt", "a[1].txt", "dir/b.txt"):
        write(work, name, "text")
    os.symlink(home / "d s", work / "link")
    os.symlink(work, work / "dir" / "loop")
    assert names(work, "~/d s/in put.jsonl") == ["in put.jsonl"]
    assert names(work, "~/~/x.jsonl") == ["x.jsonl"]  # expanded once
    write(work, "~/y.jsonl", ROW)
    assert names(work, "./~/y.jsonl") == ["y.jsonl"]
    assert names(work, "link/in put.jsonl") == names(work, "link/") == names(work, "link") == ["in put.jsonl"]
    assert names(work, "-x.txt") == ["-x.txt"] and names(work, "a[1].txt") == ["a[1].txt"]
    assert names(work, "*.txt") == ["%20.txt", "-x.txt", "a[1].txt", "new\nline.txt", "ünï 北.txt"]
    assert "link/in put.jsonl" in names(work, ".") and "dir/b.txt" in names(work, "./")
    assert not any("loop" in name for name in names(work, "."))
    before = sorted(os.listdir(work))
    got = read(work, "new\nline.txt")
    assert got.keys == ["new\nline.txt:0"] and got.texts == ["text"]
    assert sorted(os.listdir(work)) == before


def test_H_09_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "data/a.txt", "text")
    units = list_units([Source(source="data/*.txt")], tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    [item] = read_unit(pickle.loads(pickle.dumps(units))[0])
    assert item.key == "a.txt:0"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("*.nope", r"no file matches '\*.nope' in .*; check the pattern"),
        ("nope.txt", "there is no file 'nope.txt' in"),
        ("a.txt/", "there is no file 'a.txt/' in"),
        ("void", "folder 'void' holds no file"),
        ("s3://bucket/x.txt", "is not on this machine; mount or copy it"),
        ("x.unknown", "its name does not tell the format; set format, or give .txt"),
    ],
)
def test_H_09_what_matches_nothing_is_refused_by_name(tmp_path: Path, pattern: str, message: str) -> None:
    write(tmp_path, "a.txt", "text")
    write(tmp_path, "x.unknown", "text")
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError, match=message) as caught:
        list_files([Source(source=pattern)], tmp_path)
    assert "\n" not in str(caught.value)


def test_folders_are_sorted_whole_and_without_hidden_files(tmp_path: Path) -> None:
    for name in (
        "b/2.txt",
        "b/1.txt",
        "a.txt",
        "B.txt",
        ".hidden.txt",
        "_part.txt",
        "b/.c/x.txt",
        "_d/x.txt",
    ):
        write(tmp_path, name, "text")
    assert names(tmp_path, ".") == ["B.txt", "a.txt", "b/1.txt", "b/2.txt"]
    assert names(tmp_path, "**") == ["B.txt", "_d/x.txt", "_part.txt", "a.txt", "b/1.txt", "b/2.txt"]
    assert names(tmp_path, ["b/2.txt", "a.txt", "b"]) == ["a.txt", "b/1.txt", "b/2.txt"]  # each once


def test_moving_a_corpus_changes_no_key(tmp_path: Path) -> None:
    for root in ("here", "deep/er/there"):
        write(tmp_path, f"{root}/x/a.jsonl", ROW * 2)
        write(tmp_path, f"{root}/y/a.jsonl", ROW)
    wanted = ["x/a.jsonl:0", "x/a.jsonl:1", "y/a.jsonl:0"]
    for pattern in ("here", "deep/er/there/", "here/*/*.jsonl", "deep/er/there/**/*.jsonl"):
        assert read(tmp_path, pattern).keys == wanted
    assert read(tmp_path, {"source": ["here/y/a.jsonl", "here/x/a.jsonl"]}).keys == wanted


def test_an_unreadable_name_is_text_in_keys(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/bad\xff.txt", "w") as file:
        file.write("text")
    assert read(tmp_path, ".").keys == ["bad\\xff.txt:0"]


def test_several_sources_keep_their_keys_apart(tmp_path: Path) -> None:
    write(tmp_path, "one/a.txt", "1")
    write(tmp_path, "two/a.txt", "2")
    with pytest.raises(
        InputError, match=r"sources 0 and 1 both give documents called a\.txt; give each a different name"
    ):
        read(tmp_path, "one", "two")
    got = read(tmp_path, {"source": "one", "name": "first"}, {"source": "two", "name": "second", "weight": 2})
    assert got.keys == ["first/a.txt:0", "second/a.txt:0"]
    units = list_units([Source(source="one", name="first"), Source(source="two")], tmp_path)
    assert [(unit.source, unit.name) for unit in units] == [(0, "first/"), (1, "")]


def test_options_that_nothing_heeds_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "1")
    write(tmp_path, "a.jsonl", ROW)
    for source, message in [
        (Source(source="a.txt", id="x"), "id is for columns, but the source is text; remove id"),
        (Source(source="a.jsonl", documents="line"), "documents is for plain text"),
        (Source(source="a.jsonl", split="test"), "split is for a data set"),
        (Source(source="a.jsonl", config="x"), "config is for hub:<name>"),
    ]:
        with pytest.raises(InputError, match=message):
            list_files([source], tmp_path)


def test_a_source_refuses_unknown_keys_and_nonsense() -> None:
    for wrong in (
        {"source": ""},
        {"source": []},
        {"source": "x", "weight": 0},
        {"source": "x", "weight": float("inf")},
        {"source": "x", "txt": "y"},
    ):
        with pytest.raises(ValidationError):
            Source(**wrong)  # type: ignore[arg-type]
    hash(Source(source=["x", "y"]))  # type: ignore[arg-type]


def test_files_of_other_formats_are_rejected_by_name_beside_good_ones(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "text")
    write(tmp_path, "README.md", "about")
    write(tmp_path, "b.txt", b"PAR1....PAR1")
    got = read(tmp_path, ".")
    assert got.texts == ["text"]
    assert [(r.file, r.reason) for r in got.rejects] == [
        ("README.md", "unknown_format"),
        ("b.txt", "not_text"),
    ]
    assert read(tmp_path, "README.md", format="text").texts == ["about"]


def test_an_unreadable_file_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "text")
    os.symlink(tmp_path / "gone", tmp_path / "b.txt")
    units = list_units([Source(source="*.txt")], tmp_path)
    os.remove(tmp_path / "a.txt")
    assert [(item.file, item.reason) for unit in units for item in read_unit(unit)] == [  # type: ignore[union-attr]
        ("a.txt", "unreadable"),
        ("b.txt", "unreadable"),
    ]


def test_pipes_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "text")
    os.mkfifo(tmp_path / "pipe.txt")
    assert names(tmp_path, ".") == names(tmp_path, "*.txt") == ["a.txt"]


def test_fingerprints_follow_content_and_not_place(tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(300_000)
    write(tmp_path, "x/a.txt", noise)
    write(tmp_path, "y/b.txt", noise)
    write(tmp_path, "z/a.txt", noise[:-1] + b"?")
    prints = [list_files([Source(source=name)], tmp_path)[0].fingerprint for name in "xyz"]
    assert prints[0] == prints[1] != prints[2] and len(prints[0]) == 16


def test_units_cover_a_large_file_and_share_its_fingerprint(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", ROW * 1000)
    [whole] = list_files([Source(source="a.jsonl")], tmp_path)
    units = list_units([Source(source="a.jsonl")], tmp_path, 1000)
    assert len(units) >= 13 and sum(unit.size for unit in units) == whole.size
    assert {unit.fingerprint for unit in units} == {whole.fingerprint}
    assert [unit.part for unit in units][:2] == [(0, 1001, 0), (1001, 2002, 77)]
    assert list_units([Source(source="a.jsonl")], tmp_path) == [whole]
