"""Plain text: lines, blocks and files, and what ends a line."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pipelines.formats.reading import PACK, read, write

ODD = "a\u2028b\x85c\x0cd\x1ce\nf\r\ng\rh\n"


def test_G_03_only_line_feeds_end_lines(tmp_path: Path) -> None:
    write(tmp_path, "t.txt", ODD)
    assert read(tmp_path, "t.txt", documents="line").texts == ["a\u2028b\x85c\x0cd\x1ce", "f", "g\rh"]
    assert read(tmp_path, "t.txt", documents="file").texts == ["a\u2028b\x85c\x0cd\x1ce\nf\ng\rh\n"]


@pytest.mark.parametrize("codec", PACK)
def test_blocks_are_lines_between_blank_ones(tmp_path: Path, codec: str) -> None:
    data = b"\n\na\nb\r\n \t\r\n\nc\n\n\nd"
    write(tmp_path, f"t.txt.{codec}" if codec else "t.txt", PACK[codec](data))
    got = read(tmp_path, "t.txt*", documents="block")
    assert got.texts == ["a\nb", "c", "d"]
    assert [key.rpartition(":")[2] for key in got.keys] == ["0", "1", "2"]
    assert not got.rejects


def test_G_01_bom(tmp_path: Path) -> None:
    bom = b"\xef\xbb\xbf"
    plain = b"one\ntwo\nthree\n"
    write(tmp_path, "plain/t.txt", plain)
    write(tmp_path, "bom/t.txt", bom + plain)
    write(tmp_path, "joined/t.txt", bom + b"one\ntwo\n" + bom + b"three\n")
    write(tmp_path, "utf16/t.txt", b"\xff\xfe" + plain.decode().encode("utf-16-le"))
    write(tmp_path, "utf16be/t.txt", b"\xfe\xff" + plain.decode().encode("utf-16-be"))
    for documents in ("line", "file", "block"):
        wanted = read(tmp_path, "plain", documents=documents)
        assert wanted.documents and not wanted.rejects
        for folder in ("bom", "joined", "utf16", "utf16be"):
            assert read(tmp_path, folder, documents=documents).documents == wanted.documents, folder
    write(tmp_path, "inner/t.txt", "a\ufeffb\n")
    assert read(tmp_path, "inner").texts == ["a\ufeffb\n"]  # inside a line it is the user's own character
    write(tmp_path, "utf32/t.txt", "\ufeffone".encode("utf-32-le"))
    assert read(tmp_path, "utf32").rejects[0].reason == "utf32"


def test_G_09_invalid_utf8_is_skipped_or_replaced_by_row(tmp_path: Path) -> None:
    write(tmp_path, "t.txt", b"1\n2\nbad \xff utf8\n4\n5\n")
    skip = read(tmp_path, "t.txt", documents="line")
    assert skip.texts == ["1", "2", "4", "5"] and skip.reasons == [("invalid_utf8", "line 3")]
    replaced = read(tmp_path, "t.txt", documents="line", invalid_utf8="replace")
    assert replaced.texts == ["1", "2", "bad \ufffd utf8", "4", "5"]
    assert [(note.reason, note.position) for note in replaced.notes] == [("invalid_utf8", "line 3")]
    assert read(tmp_path, "t.txt").reasons == [("invalid_utf8", "")]
    assert read(tmp_path, "t.txt", invalid_utf8="replace").texts == ["1\n2\nbad \ufffd utf8\n4\n5\n"]


def test_blank_lines_are_expected_and_named_in_the_tally(tmp_path: Path) -> None:
    write(tmp_path, "t.txt", "a\n\n  \nb\n")
    got = read(tmp_path, "t.txt", documents="line")
    assert got.texts == ["a", "b"] and got.keys == ["t.txt:0", "t.txt:3"]
    assert got.tally.expected == {"blank": 2} and got.tally.rows == 4


@pytest.mark.parametrize("documents", ["file", "line", "block"])
def test_G_08_too_large_documents_are_counted_and_streamed_in_linear_time(
    tmp_path: Path, documents: str
) -> None:
    write(tmp_path, "t.txt", b"small\n\n" + b"_" * 3_000_000 + b"\n\nlast\n")
    got = read(tmp_path, "t.txt", documents=documents, max_document_bytes=1_000_000)
    assert got.texts == ([] if documents == "file" else ["small", "last"])
    assert [reject.reason for reject in got.rejects if not reject.expected] == ["too_large"]
    assert "more than 1000000" in next(reject.detail for reject in got.rejects if not reject.expected)


def test_G_08_long_lines_take_linear_time(tmp_path: Path) -> None:
    def once(size: int) -> float:
        path = write(tmp_path, f"{size}.txt", b"x" * size)
        start = time.process_time()
        assert len(read(tmp_path, path.name, documents="line").texts[0]) == size
        return time.process_time() - start

    def seconds(size: int) -> float:
        return min(once(size) for _ in range(3))

    seconds(1 << 20)
    # Eight times the length: 8 if linear, 64 if quadratic.
    assert seconds(32 << 20) < 16 * seconds(4 << 20) + 0.1


def test_the_limit_is_on_the_document_not_on_its_line_end(tmp_path: Path) -> None:
    write(tmp_path, "t.txt", "abcd\r\nabcde\nabcd\n")
    got = read(tmp_path, "t.txt", documents="line", max_document_bytes=4)
    assert got.texts == ["abcd", "abcd"] and got.reasons == [("too_large", "line 2")]


LINES = st.lists(
    st.sampled_from([b"", b" ", b"a", b"bb\r", b"\xff", "é\u2028".encode(), b"x" * 30]), max_size=30
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.booleans(), st.integers(1, 40))
def test_units_of_any_size_give_the_same_rows_and_keys(
    tmp_path: Path, rows: list[bytes], ended: bool, unit_bytes: int
) -> None:
    write(tmp_path, "t.txt", b"first\n" + b"\n".join(rows) + (b"\n" if ended else b""))
    whole = read(tmp_path, "t.txt", documents="line", max_document_bytes=20)
    parts = read(tmp_path, "t.txt", unit_bytes=unit_bytes, documents="line", max_document_bytes=20)
    assert parts == whole
    lines = (b"first\n" + b"\n".join(rows) + (b"\n" if ended else b"")).split(b"\n")
    assert whole.tally.rows == len(lines) - (lines[-1] == b"")
