from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from corruption.errors import InputError
from corruption.frames import FRAMES
from corruption.schema import IGNORE
from pipelines.preview_html import GENERATOR, MOST_TOKENS, check_place, render, write_page
from pipelines.preview_matrix import Matrix
from pipelines.preview_rows import MEANING, Line, Piece, Row
from tests.pipelines.preview_case import corrupted, ids, page_of, shown
from tests.pipelines.small_tokenizers import wordpiece

TOKENIZER = wordpiece()
VOID = {"meta", "path", "br"}
NASTY = "<script>alert(1)</script>\"'&"


class Read(HTMLParser):
    """Reads a page: its elements, its text as seen and as heard; fails on tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.seen, self.heard, self._open = "", "", []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop()[0] == tag

    def handle_data(self, data):
        inside = [attributes for _, attributes in self._open]
        if any(tag in ("style", "title") for tag, _ in self._open):
            return
        if not any("unseen" in (a.get("class") or "") for a in inside):
            self.seen += data
        if not any(a.get("aria-hidden") for a in inside):
            self.heard += data


def masked() -> Row:
    original = ids(TOKENIZER, "the cat sat on the mat .")
    now = list(original)
    now[1], now[3] = TOKENIZER.mask_token_id, 17
    labels = [token if i in (1, 3, 5) else IGNORE for i, token in enumerate(original)]
    return shown(TOKENIZER, corrupted(original, now, labels=labels))


def test_what_is_seen_has_marks_and_what_is_heard_has_words():
    page = Read(render(page_of(masked())))
    assert "the [MASK]cat sat ~.~on the =mat=mat ." in page.seen
    assert "the hidden: [MASK] (label cat)  sat replaced at random: . (label on)  the kept" in page.heard
    assert "~" not in page.heard


def test_labels_are_inside_the_stack_of_their_token():
    stacks = re.findall(r'<span class="stack"><span>(.*?)</span><span class="below labels">', render(page_of(masked())))
    assert [re.sub("<[^>]+>", "", stack).split(": ")[1] for stack in stacks] == ["[MASK]", "~.~", "=mat="]


def test_every_kind_has_its_class_title_and_legend():
    pieces = tuple(Piece("x", kind) for kind in MEANING)
    html = render(page_of(Row((Line("corrupted", pieces),))))
    for kind, meaning in MEANING.items():
        assert re.search(rf'<(span|del) class="kind {kind}" title="{meaning}">', html)
    assert html.count('<li><span aria-hidden="true">') == len(MEANING)


def test_nothing_that_is_shown_can_be_markup():
    piece = Piece(NASTY, "random", True, {"labels": NASTY, "was": NASTY, "order": NASTY})
    matrix = Matrix(NASTY, np.eye(2, dtype=bool), (NASTY, "b"), 9)
    row = Row((Line(NASTY, (piece, Piece(NASTY))),), ((NASTY, NASTY),), (matrix,), NASTY, NASTY)
    plain = page_of(row)
    page = replace(
        plain, recipe=NASTY, heading=NASTY, notes=(NASTY,), rates=((NASTY, NASTY),), mask=NASTY, microbatches=(NASTY,)
    )
    read = Read(render(page))
    assert {tag for tag, _ in read.elements} <= {
        *("html", "head", "meta", "title", "style", "body", "a", "main", "h1", "h2", "p", "ul", "ol", "li", "section"),
        *("dl", "div", "dt", "dd", "span", "del", "figure", "figcaption", "svg", "g", "text", "path", "details"),
        *("summary", "br"),
    }
    assert read.seen.count(NASTY) >= 12
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)


def test_the_page_asks_for_nothing():
    html = render(page_of(masked()))
    assert not re.search(r"https?:|//|url\(|@import|<script|<link|<img|src=", html)
    assert "default-src 'none'" in html
    assert [attributes["href"] for tag, attributes in Read(html).elements if "href" in attributes] == ["#rates"]


def test_it_can_be_walked_by_headings_and_read_on_a_phone():
    read = Read(render(page_of(masked(), masked(), microbatches=("lane 0",))))
    headings = [tag for tag, _ in read.elements if tag in ("h1", "h2")]
    assert headings == ["h1", "h2", "h2", "h2", "h2"]
    named = {attributes.get("id") for _, attributes in read.elements}
    sections = [attributes for tag, attributes in read.elements if tag == "section"]
    assert len(sections) == 4 and all(section["aria-labelledby"] in named for section in sections)
    found = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(found) == len(set(found))
    assert ("html", {"lang": "en"}) in read.elements and "width=device-width" in str(read.elements)
    texts = [attributes for tag, attributes in read.elements if tag == "dd" and "class" in attributes]
    assert all(attributes == {"class": "text", "lang": "", "dir": "auto"} for attributes in texts)


def test_a_matrix_is_drawn_and_told_in_words():
    after = corrupted([5, 6, 7, 8], permutation_order=[-1, 1, -1, 0], labels=[IGNORE, 6, IGNORE, 8])
    html = render(page_of(shown(TOKENIZER, after, frame=FRAMES["permutation"]())))
    read = Read(html)
    drawings = [attributes for tag, attributes in read.elements if tag == "svg"]
    assert [d["aria-label"] for d in drawings] == [f"{s} stream, drawn; in words below" for s in ("content", "query")]
    assert all(drawing["role"] == "img" for drawing in drawings)
    for line in ("the: sees 1, 3", "cat: sees 1 to 4", "[CLS]: sees 1 to 6"):
        assert line in read.heard
    assert "M84 0h14v14H84z" in html


def test_a_large_matrix_is_cut_and_says_so():
    matrix = Matrix("content stream", np.zeros((64, 64), bool), ("x",) * 64, 300)
    html = render(page_of(Row((), (), (matrix,))))
    assert f"content stream, the first {MOST_TOKENS} of 300 tokens" in html
    assert html.count("sees nothing") == MOST_TOKENS


def test_only_a_page_of_ours_is_overwritten(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_page(page_of(masked()), path)
    first = path.read_text("utf-8")
    assert GENERATOR in first and first.startswith("<!doctype html>")
    write_page(replace(page_of(masked()), recipe="other"), path)
    assert path.read_text("utf-8") != first
    assert [child.name for child in path.parent.iterdir()] == ["page.html"]
    theirs = tmp_path / "theirs.html"
    theirs.write_text("<html>mine</html>" + " " * 5000 + GENERATOR)
    with pytest.raises(InputError, match="the file is no preview of ours; give another name, or remove it"):
        write_page(page_of(masked()), theirs)
    assert theirs.read_text().startswith("<html>mine")
    with pytest.raises(InputError, match="it is a folder; give the name of a file"):
        check_place(tmp_path)
    with pytest.raises(InputError, match="it cannot be written"):
        write_page(page_of(masked()), theirs / "below.html")


def test_words_of_any_script_are_kept():
    html = render(page_of(Row((Line("original", (Piece("猫 قطة é"),)),))))
    assert "猫 قطة é" in html and html.encode("utf-8")
