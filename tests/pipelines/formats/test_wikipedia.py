"""MediaWiki dumps: real ones, small ones for every oddity, damage, and parts that meet exactly."""

import bz2
import gzip
from importlib.resources import files
from pathlib import Path

import pytest

from pipelines.sources import Source, list_units, read_unit
from tests.pipelines.formats.reading import Read, read, write

DATA = Path(str(files("gensim"))) / "test" / "test_data"
ENWIKI = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
<siteinfo><namespaces>
<namespace key="0" case="first-letter" /><namespace key="6" case="first-letter">Datei</namespace>
<namespace key="10" case="first-letter">Vorlage</namespace></namespaces></siteinfo>
"""
FOOT = "</mediawiki>\n"


def page(number: int, title: str, text: str | None, ns: str = "<ns>0</ns>", extra: str = "") -> str:
    revision = (
        "" if text is None else f'<revision><id>9</id><text xml:space="preserve">{text}</text></revision>'
    )
    return f"<page><title>{title}</title>{ns}<id>{number}</id>{extra}{revision}</page>\n"


def dump(tmp_path: Path, *pages: str, name: str = "w.xml", head: str = HEAD, foot: str = FOOT) -> Read:
    write(tmp_path, name, head + "".join(pages) + foot)
    return read(tmp_path, name)


@pytest.fixture(scope="module")
def enwiki() -> Read:
    return read(DATA, ENWIKI)


def test_the_real_english_dump(enwiki: Read) -> None:
    assert (
        len(enwiki.documents) == 106
        and enwiki.tally.expected == {"redirect": 100}
        and not enwiki.tally.rejects
    )
    anarchism = enwiki.documents[0]
    assert (anarchism.key, anarchism.title) == ("12", "Anarchism")
    assert sum(len(document.links) for document in enwiki.documents) > 22_000
    for document in enwiki.documents:
        for start, end, target in document.links:
            assert 0 <= start < end <= len(document.text) and target and document.text[start:end].strip()
        assert not any(mark in document.text for mark in ("[[", "]]", "{{", "}}", "{|", "''", "<ref"))


def test_a_utf16_dump(tmp_path: Path) -> None:
    got = read(DATA, "bgwiki-latest-pages-articles-shortened.xml.bz2")
    [document] = got.documents
    assert document.title == "Григориански календар" and document.text.startswith(
        "Григорианският календар (понякога"
    )
    assert got.tally.expected == {"namespace": 2} and not got.tally.rejects
    assert [document.text[start:end] for start, end, _ in document.links][:2] == ["светски", "календар"]
    raw = bz2.decompress((DATA / "bgwiki-latest-pages-articles-shortened.xml.bz2").read_bytes())
    write(tmp_path, "bg.xml", raw)
    assert read(tmp_path, "bg.xml", unit_bytes=50_001).documents == got.documents


def test_F_05_the_table_dump() -> None:
    got = read(DATA, "enwiki-table-markup.xml.bz2")
    assert len(got.documents) == 5
    assert not any(
        mark in document.text for document in got.documents for mark in ("{|", "|}", "||", "{{", "}}")
    )


def test_F_01_empty_pages_do_not_eat_the_next(tmp_path: Path) -> None:
    empty = '<page><title>A</title><ns>0</ns><id>1</id><revision><text bytes="0"/></revision></page>'
    got = dump(
        tmp_path,
        empty,
        page(2, "B", "b &lt;b&gt;bold&lt;/b&gt;"),
        page(3, "Vorlage:T", "", "<ns>10</ns>"),
        page(4, "C", None),
        page(5, "D", "{{only}}"),
        page(6, "E", "e"),
    )
    assert {document.title: document.text for document in got.documents} == {"B": "b bold", "E": "e"}
    assert got.reasons == [
        ("empty", "page 1"),
        ("namespace", "page 3"),
        ("missing", "page 4"),
        ("empty", "page 5"),
    ]


def test_F_02_the_namespace_decides_not_the_colon(tmp_path: Path) -> None:
    titles = ["Mission: Impossible", "2001: A Space Odyssey", ":Colon"]
    pages = [page(n, title, "text") for n, title in enumerate(titles)]
    got = dump(
        tmp_path, *pages, page(8, "Template:X", "t", "<ns>10</ns>"), page(9, "Category:Y", "c", "<ns>14</ns>")
    )
    assert [document.title for document in got.documents] == titles and got.tally.expected == {"namespace": 2}
    old = [page(n, title, "text", ns="") for n, title in enumerate([*titles, "Vorlage:X"])]
    assert [document.title for document in dump(tmp_path, *old).documents] == titles


def test_redirects_are_expected_with_and_without_their_element(tmp_path: Path) -> None:
    texts = [
        "#REDIRECT [[X]]",
        "#redirect[[X#sec]]",
        "#WEITERLEITUNG [[X]]",
        " #REDIRECT  [[X]]",
        "#重定向 [[X]]",
    ]
    pages = [page(n, f"R{n}", text) for n, text in enumerate(texts)]
    got = dump(
        tmp_path, *pages, page(9, "R9", "x", extra='<redirect title="X" />'), page(10, "L", "#one [[X]]")
    )
    assert got.tally.expected == {"redirect": 6} and got.texts == ["one X"]
    assert all("leads to 'X'" in reject.detail for reject in got.rejects)


def test_names_of_the_dump_header_and_the_last_revision_count(tmp_path: Path) -> None:
    texts = ("old", "new [[Vorlage:A|b]][[Datei:x.png|c]]")
    two = "".join(f"<revision><text>{text}</text></revision>" for text in texts)
    got = dump(
        tmp_path,
        page(1, "A", None, extra=two),
        page(2, "B", None, extra="<revision><model>json</model></revision>"),
    )
    assert (
        got.texts == ["new b"] and got.documents[0].links == [] and got.tally.expected == {"not_wikitext": 1}
    )


def test_declared_encodings(tmp_path: Path) -> None:
    body = HEAD + page(1, "Ж", "текст [[Файл:a.png|x]]") + FOOT
    for encoding in ("windows-1251", "koi8-r", "utf-8", "utf-16"):
        data = f'<?xml version="1.0" encoding="{encoding}"?>\n{body}'.encode(encoding)
        write(tmp_path, "w.xml", data)
        got = read(tmp_path, "w.xml")
        assert [(document.title, document.text) for document in got.documents] == [("Ж", "текст")], encoding
    write(tmp_path, "w.xml", b"\xef\xbb\xbf" + body.encode())
    assert read(tmp_path, "w.xml").texts == ["текст"]


def test_a_broken_page_does_not_take_the_others(tmp_path: Path) -> None:
    pages = [
        page(1, "A", "a"),
        page(2, "B", "<b>x</i>"),
        page(3, "C", "c"),
        page(4, "D", "d")[:-9],
        page(5, "E", "e"),
    ]
    got = dump(tmp_path, *pages)
    assert got.texts == ["a", "c", "e"] and [reason for reason, _ in got.reasons] == ["corrupt", "corrupt"]
    assert got.tally.rows == 5
    write(tmp_path, "w.xml", (HEAD + page(1, "A", "caf@ au lait") + FOOT).encode().replace(b"@", b"\xe9"))
    assert [reason for reason, _ in read(tmp_path, "w.xml").reasons] == ["invalid_utf8"]
    replaced = read(tmp_path, "w.xml", invalid_utf8="replace")
    assert replaced.texts == ["caf\ufffd au lait"] and replaced.tally.notes == {"invalid_utf8": 1}


def test_sizes_and_unclosed_markup_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "w.xml", HEAD + page(1, "A", "x" * 5000) + page(2, "B", "b {{open") + FOOT)
    got = read(tmp_path, "w.xml", max_document_bytes=1000)
    assert (
        got.texts == ["b open"]
        and got.tally.rejects == {"too_large": 1}
        and got.tally.notes == {"unclosed_markup": 1}
    )


def test_F_06_multistream_and_truncation(tmp_path: Path) -> None:
    streams = [bz2.compress(part.encode()) for part in (HEAD, page(1, "A", "a"), page(2, "B", "b") + FOOT)]
    whole = b"".join(streams)
    write(tmp_path, "w.xml.bz2", whole)
    assert read(tmp_path, "w.xml.bz2").texts == ["a", "b"]
    write(tmp_path, "w.xml.bz2", whole[:-20])
    cut = read(tmp_path, "w.xml.bz2")
    assert cut.texts == ["a"] and [reason for reason, _ in cut.reasons] == ["truncated"]
    assert "1 rows were read before" in cut.rejects[0].detail
    text = HEAD + page(1, "A", "a") + page(2, "B", "b")
    for stored, name in ((text[:-30].encode(), "w.xml"), (gzip.compress(text[:-30].encode()), "v.xml.gz")):
        write(tmp_path, name, stored)
        cut = read(tmp_path, name)
        assert cut.texts == ["a"] and [reason for reason, _ in cut.reasons] == ["truncated"]
    write(tmp_path, "w.xml", text)
    cut = read(tmp_path, "w.xml")
    assert cut.texts == ["a", "b"] and "without its closing tag" in cut.rejects[0].detail


def pages_of_enwiki(count: int) -> tuple[bytes, list[bytes]]:
    head, *pages = bz2.decompress((DATA / ENWIKI).read_bytes()).split(b"  <page>")
    return head, [b"  <page>" + text for text in pages[:count]]


@pytest.mark.parametrize("unit_bytes", [40_000, 333_333])
def test_F_06_parts_of_a_multistream_dump_equal_the_whole(tmp_path: Path, unit_bytes: int) -> None:
    head, pages = pages_of_enwiki(80)
    groups = [b"".join(pages[n : n + 5]) for n in range(0, 80, 5)]
    stored = b"".join(map(bz2.compress, [head, *groups, FOOT.encode()]))
    write(tmp_path, "w-multistream.xml.bz2", stored)
    whole = read(tmp_path, "w-multistream.xml.bz2")
    assert read(tmp_path, "w-multistream.xml.bz2", unit_bytes=unit_bytes) == whole and whole.tally.rows == 80
    units = list_units([Source(source="*.bz2")], tmp_path, unit_bytes)
    assert len(units) > 4 and sum(unit.size for unit in units) == len(stored)
    assert sum(1 for unit in units if any(True for _ in read_unit(unit))) > 3  # the work is really shared out


def test_F_06_streams_and_ranges_may_cut_pages_anywhere(tmp_path: Path) -> None:
    text = (HEAD + "".join(page(n, f"T{n}", f"text {n} " * 30) for n in range(60)) + FOOT).encode()
    wanted = [str(n) for n in range(60)]
    write(tmp_path, "w.xml", text)
    blocks = [text[n : n + 777] for n in range(0, len(text), 777)]  # as parallel compressors cut it
    write(tmp_path, "v.xml.bz2", b"".join(map(bz2.compress, blocks)))
    for name in ("w.xml", "v.xml.bz2"):
        for unit_bytes in (40, 301, 1000, 5000):
            got = read(tmp_path, name, unit_bytes=unit_bytes)
            assert got.keys == wanted and not got.rejects, (name, unit_bytes)


def test_a_single_stream_is_one_unit() -> None:
    assert len(list_units([Source(source=str(DATA / ENWIKI))], DATA, 100_000)) == 1


def test_what_is_no_dump(tmp_path: Path) -> None:
    write(tmp_path, "w.xml", "<html><page>x</page></html>")
    assert [reason for reason, _ in read(tmp_path, "w.xml").reasons] == ["not_wikipedia"]
    assert [reason for reason, _ in dump(tmp_path).reasons] == ["not_wikipedia"]
