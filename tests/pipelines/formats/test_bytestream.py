"""Archives: several members, and every kind of damage, which never passes without a word."""

import bz2
import gzip
import struct
from pathlib import Path

import pytest

from tests.pipelines.formats.reading import PACK, Read, read, write

CODECS = ("gz", "bz2", "zst")
ROWS = "".join(f"row number {n} {n * n}\n" for n in range(5000)).encode()


def lines_of(tmp_path: Path, codec: str, data: bytes) -> Read:
    write(tmp_path, f"t.txt.{codec}", data)
    return read(tmp_path, f"t.txt.{codec}", documents="line")


@pytest.mark.parametrize("codec", CODECS)
def test_G_06_members_and_frames_follow_each_other(tmp_path: Path, codec: str) -> None:
    pack = PACK[codec]
    assert lines_of(tmp_path, codec, pack(b"a\nb\n") + pack(b"c\n")).texts == ["a", "b", "c"]
    assert lines_of(tmp_path, codec, pack(b"a\nb") + pack(b"b\n") + pack(b"c\n") + pack(b"")).texts == [
        "a",
        "bb",
        "c",
    ]
    assert lines_of(tmp_path, codec, pack(b"") + pack(b"a\n")).texts == ["a"]
    assert not lines_of(tmp_path, codec, pack(b"a\n") + b"\0" * 600).rejects


def test_G_06_zstd_skippable_frames(tmp_path: Path) -> None:
    skip = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
    pack = PACK["zst"]
    assert lines_of(tmp_path, "zst", skip + pack(b"a\n") + skip + pack(b"b\n")).texts == ["a", "b"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cut", [9, "half"])
def test_G_07_truncated(tmp_path: Path, codec: str, cut: int | str) -> None:
    data = PACK[codec](ROWS)
    got = lines_of(tmp_path, codec, data[: len(data) // 2] if cut == "half" else data[:-9])
    all_rows = ROWS.decode().splitlines()
    assert got.texts == all_rows[: len(got.texts)] and len(got.texts) < 5001
    if cut == 9 and codec == "gz":
        assert len(got.texts) > 4900
    [reject] = got.rejects
    assert reject.reason == "truncated" and reject.file == f"t.txt.{codec}"
    assert f"{len(got.texts)} rows were read before" in reject.detail


@pytest.mark.parametrize(("codec", "end"), [("gz", 8), ("bz2", 4), ("zst", 4)])
def test_G_07_broken_check_sum_costs_no_row_and_is_told(tmp_path: Path, codec: str, end: int) -> None:
    data = bytearray(PACK[codec](ROWS))
    data[-end] ^= 0xFF
    got = lines_of(tmp_path, codec, bytes(data))
    assert len(got.texts) == 5000 and [r.reason for r in got.rejects] == ["corrupt"]


@pytest.mark.parametrize("codec", CODECS)
def test_G_07_flipped_byte_inside(tmp_path: Path, codec: str) -> None:
    data = bytearray(PACK[codec](ROWS * 20))
    data[len(data) // 2] ^= 0xFF
    got = lines_of(tmp_path, codec, bytes(data))
    assert [r.reason for r in got.rejects if r.reason not in ("invalid_utf8", "blank")][-1] in (
        "corrupt",
        "truncated",
    )


@pytest.mark.parametrize("codec", CODECS)
def test_G_07_trailing_garbage(tmp_path: Path, codec: str) -> None:
    got = lines_of(tmp_path, codec, PACK[codec](b"a\nb\nunended") + b"this is no archive")
    assert got.texts == ["a", "b", "unended"] and [r.reason for r in got.rejects] == ["trailing_garbage"]
    assert "3 rows were read before" in got.rejects[0].detail


def test_damage_in_whole_file_documents_takes_the_document(tmp_path: Path) -> None:
    write(tmp_path, "good.txt.gz", gzip.compress(b"good"))
    write(tmp_path, "half.txt.gz", gzip.compress(ROWS)[:-9])
    write(tmp_path, "tail.txt.bz2", bz2.compress(b"tail") + b"garbage")
    got = read(tmp_path, ".")
    assert got.texts == ["good", "tail"]
    assert [(r.file, r.reason) for r in got.rejects] == [
        ("half.txt.gz", "truncated"),
        ("tail.txt.bz2", "trailing_garbage"),
    ]
