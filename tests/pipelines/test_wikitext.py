"""The wikitext scanner: what it shows, where its links are, and that nothing makes it slow or lose text."""

import bz2
import re
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files

import mwparserfromhell
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mwparserfromhell.nodes import ExternalLink, Heading, Tag, Text, Wikilink

from pipelines.wikitext import plain_text
from pipelines.wikitext_titles import Namespaces, normal_title

ENWIKI = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


def links_of(wikitext: str) -> list[tuple[str, str]]:
    page = plain_text(wikitext)
    return [(page.text[start:end], title) for start, end, title in page.links]


@pytest.mark.parametrize(
    ("wikitext", "text", "links"),
    [
        ("a [[cat]] b", "a cat b", [("cat", "Cat")]),
        (
            "[[gland]]s and [[New York|NY]]ers",
            "glands and NYers",
            [("glands", "Gland"), ("NYers", "New York")],
        ),
        ("我在[[北京]]市，[[上海]]", "我在北京市，上海", [("北京", "北京"), ("上海", "上海")]),
        ("'''A''' ''b'' '''''c''''' l''''amour'''", "A b c l'amour", []),
        (
            "[[foo_bar#part|x]] [[#part|y]] [[ foo  bar ]]",
            "x y foo bar",
            [("x", "Foo bar"), ("foo bar", "Foo bar")],
        ),
        (
            "[[Caf%C3%A9]] [[AT&amp;T|t]] [[ß|s]]",
            "Caf%C3%A9 t s",
            [("Caf%C3%A9", "Café"), ("t", "AT&T"), ("s", "ß")],
        ),
        ("[[a|''b'' &amp; c]] [[d|x <sup>2</sup>]]", "b & c x 2", [("b & c", "A"), ("x 2", "D")]),
        ("[[a|b {{t|[[x]]}} c]]", "b c", [("b c", "A")]),
        ("[[a|b [[c]] d]]", "b c d", [("c", "C")]),
        ("x [[a| b ]] y", "x b y", [("b", "A")]),
        ("[[{{PAGENAME}}/x|shown]] [[{{T}}]]z", "shown z", []),
        (
            "[[Category:X]]a[[fr:Y]][[de:Z|z]] [[:Category:X]] [[:fr:Y|y]] [[wikt:w|w]]",
            "a Category:X y w",
            [],
        ),
        ("[[Mission: Impossible]]", "Mission: Impossible", [("Mission: Impossible", "Mission: Impossible")]),
        (
            "[http://x.org label [[a]]] [http://x.org] [https://y.org ''z''] [not] //w",
            "label a z [not] //w",
            [("a", "A")],
        ),
        ("== H ==\ntext\n=== [[Sub]] === <!-- c -->\nmore\n=x", "H\ntext\nSub\nmore\n=x", [("Sub", "Sub")]),
        ("* one\n** two [[x]]\n#three\n; t : d\n----\nend", "one\ntwo x\nthree\nt : d\n\nend", [("x", "X")]),
        ("a<br>b<br/>c<div class=x>d</div>", "a\nb\nc\nd", []),
        ("1 < 2 and <b and c> <foo@bar.org>", "1 < 2 and <foo@bar.org>", []),
        ("&lt;ref&gt; &#233;&#xe9; &nbsp;x &notit; &zz;", "<ref> éé x &notit; &zz;", []),
        ("a<gallery>\nFile:x.jpg|[[y]]\n</gallery>b<math>a|b}}</math>c", "abc", []),
        ("a<ref name=x/>b<ref>c {{d}} [[e]]</ref>f<references/>", "abf", []),
        ("__NOTOC__x __NOINDEX__ y_z__a", "x y_z__a", []),
        ("{{a|{{b}}|{{{c|{{d}}}}}}}x{{{p|}}}y{{{{n}}}}z", "xyz", []),
        ("word ({{lang|x}}, {{y}}) and ({{b}}; born) {{z}}, end {{w}}.\n", "word and (born), end.", []),
        ("a\n\n\n\nb \n \n c\t \td", "a\n\nb\n\nc d", []),
        ("[[[a]]] [[b]]]", "[a] b]", [("a", "A"), ("b", "B")]),
        ("<nowiki>''[[not]]'' {{x}} &amp;</nowiki> y", "''[[not]]'' {{x}} & y", []),
        ("{{t|<nowiki>}}</nowiki>}}a <!-- [[hidden]] }} -->b", "a b", []),
    ],
)
def test_what_is_shown(wikitext: str, text: str, links: list[tuple[str, str]]) -> None:
    page = plain_text(wikitext)
    assert page.text == text
    assert links_of(wikitext) == links


def test_F_04_files_show_nothing() -> None:
    given = (
        "x [[File:F.jpg|135px]] y [[Datei:G.png|mini|links|Ein [[Haus]] am See]] z [[Image:H.svg]] "
        "[[:File:Linked.jpg|see file]]"
    )
    assert plain_text(given).text == "x y z see file"
    assert plain_text(given).links == []
    nested = "a [[File:F.jpg|thumb|alt=..|A [[fly|flies]] by [http://x.org Y]]] b [[home]]"
    assert plain_text(nested).text == "a b home" and links_of(nested) == [("home", "Home")]


MARKERS = re.compile(r"\{\{|\}\}|\{\||\|\}|</?ref|<!--|\[\[|\]\]")


@pytest.mark.parametrize(
    "broken",
    [
        '{| class="x"\n|-\n| a || b\n|\n{| \n| inner\n|}\n| c\n|}\n',
        "{| class=x\n! h\n|-\n| cell [[l]]\n",
        "x<ref name=a/>y<ref>{{cite|a={{b}}}}</ref> </ref>\n",
        "<!-- hidden [[L]] -->\n",
        "<math>a|b</math>\n",
        "{{unclosed|a=\n| b = c\n",
        "<ref>never closed\n",
        "<!-- never closed\n",
        "[[never closed\n",
        "|}\n| x\n}} ]] |} {|\n",
        "{{!-}}{{{x|}}}\n",
        "\n:{|\n| indented\n|}\n",
        "[[File:x.jpg|thumb|never closed [[a]]\n",
    ],
)
def test_F_05_broken_markup_leaves_no_marker_and_loses_no_text(broken: str) -> None:
    page = plain_text(f"Before.\n\n{broken}\nThe paragraph [[after]].")
    assert not MARKERS.search(page.text), page.text
    assert page.text.startswith("Before.") and page.text.endswith("The paragraph after.")
    assert [page.text[s:e] for s, e, title in page.links if title == "After"] == ["after"]


def test_F_05_unclosed_markers_are_counted() -> None:
    assert plain_text("{{a [[b <ref>c <!-- d\n{| \n| e").unclosed == 5
    assert plain_text("{{a}} [[b]] <ref>c</ref>\n{|\n|}").unclosed == 0


MARKS = (
    "[[ ]] {{ }} {{{ }}} {| |} | ' '' ''' <ref> </ref> <ref/> <nowiki> </nowiki> <!-- --> \n \n| \n* \n== = "
    "File: a b é 北 &amp; & [http://x ] [ ( ) , ; # : <br> <b>"
)
PIECES = st.lists(st.sampled_from(MARKS.split(" ")), max_size=40)


@settings(max_examples=400, deadline=None)
@given(PIECES)
def test_any_text_gives_links_inside_it_and_tidy_spaces(pieces: list[str]) -> None:
    page = plain_text("".join(pieces))
    assert page.text == page.text.strip() and "\n\n\n" not in page.text and "  " not in page.text
    last = 0
    for start, end, title in page.links:
        surface = page.text[start:end]
        assert last <= start < end <= len(page.text) and surface == surface.strip() and title
        last = start


@given(st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=8), st.text("xyz .", max_size=6))
def test_every_surface_is_found_at_its_offsets(title: str, around: str) -> None:
    given = f"{around}({{{{t}}}}) [[{title}|surface{title}]] {around}''[[{title}]]''"
    page = plain_text(given)
    shown = [page.text[start:end] for start, end, _ in page.links]
    assert shown == [f"surface{title}", title]
    assert {target for _, _, target in page.links} == {normal_title(title)}


@pytest.mark.parametrize(
    "piece",
    [
        "{{",
        "[[",
        "<ref>",
        "<!--",
        "{{a|",
        "[[a|",
        "\n{|",
        "[http://x y",
        "\n==",
        "}}",
        "<nowiki>",
        "(,",
        "( ",
        "'",
        "{{{",
        "[[a|[[b]]",
        "<b ",
        "&a",
    ],
)
def test_hostile_repetition_takes_linear_time(piece: str) -> None:
    def seconds(count: int) -> float:
        start = time.process_time()
        plain_text(piece * count)
        return time.process_time() - start

    seconds(100)
    small = min(seconds(4000) for _ in range(2))
    assert min(seconds(16000) for _ in range(2)) < 9 * small + 0.05


@pytest.mark.parametrize(
    ("opening", "closing"), [("[[a|", "]]"), ("{{a|", "}}"), ("\n{|", "\n|}"), ("== [[a", "]]\n")]
)
def test_hostile_nesting_takes_linear_time(opening: str, closing: str) -> None:
    def seconds(count: int) -> float:
        start = time.process_time()
        plain_text("== " + opening * count + " ==\n" + closing * count)
        return time.process_time() - start

    seconds(100)
    assert min(seconds(8000) for _ in range(2)) < 9 * min(seconds(2000) for _ in range(2)) + 0.05


def test_namespaces_of_the_dump_are_added() -> None:
    own = Namespaces().with_names([(0, ""), (6, "Mynd"), (10, "Snið"), (14, "Flokkur")])
    assert own.place("Snið:X")[0] == "shown" and own.place("mynd:X.jpg")[0] == "hidden"
    assert Namespaces().place("Snið:X") == ("article", "Snið:X")
    assert own.place(":Flokkur:X")[0] == "shown" and own.place("Flokkur:X")[0] == "hidden"


def articles(count: int) -> list[str]:
    data = bz2.decompress((files("gensim") / "test" / "test_data" / ENWIKI).read_bytes())
    pages = [page for page in ET.fromstring(data).iterfind("{*}page") if page.find("{*}redirect") is None]
    return [page.findtext("{*}revision/{*}text") or "" for page in pages[:count]]


def oracle_links(code: mwparserfromhell.wikicode.Wikicode) -> Iterator[tuple[str, str]]:
    """Visible (surface, title) pairs as mwparserfromhell sees them, with the letters that trail a link."""
    place = Namespaces().place
    for number, node in enumerate(code.nodes):
        if isinstance(node, Wikilink):
            kind, title = place(str(node.title))
            inner = node.title if node.text is None else node.text
            if kind != "hidden" and node.text is not None:
                yield from oracle_links(node.text)
            after = code.nodes[number + 1] if number + 1 < len(code.nodes) else None
            trail = re.match("[a-zß-ÿ]*", str(after)) if isinstance(after, Text) else None
            if title:
                yield " ".join((inner.strip_code().strip() + (trail[0] if trail else "")).split()), title
        elif isinstance(node, Tag) and node.contents is not None:
            if str(node.tag).lower() not in ("ref", "table", "gallery", "math", "timeline", "imagemap"):
                yield from oracle_links(node.contents)
        elif isinstance(node, Heading | ExternalLink) and node.title is not None:
            yield from oracle_links(node.title)


def test_links_agree_with_a_full_parser() -> None:
    agreed = theirs = ours = 0
    for wikitext in articles(15):
        expected = Counter(oracle_links(mwparserfromhell.parse(wikitext)))
        found = Counter((" ".join(surface.split()), title) for surface, title in links_of(wikitext))
        agreed += (expected & found).total()
        theirs += expected.total()
        ours += found.total()
    assert theirs > 3000
    assert agreed / max(theirs, ours) > 0.97
