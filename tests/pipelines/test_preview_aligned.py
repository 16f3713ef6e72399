from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from pipelines.preview_aligned import aligned, wrapped
from pipelines.preview_rows import HIDDEN, LABELS, ORDER, PLAIN, Piece


def lines(pieces, width):
    """Each line's text and what stands under it, as plain strings."""
    found = aligned([(piece.text, "", piece) for piece in pieces], width)
    return [(text.plain, {name: under.plain for name, under in below.items()}) for text, below in found]


def masked(label: str, spaced: bool = True) -> Piece:
    return Piece("[M]", HIDDEN, spaced, {LABELS: label})


def test_a_label_begins_under_its_token():
    found = lines([Piece("the old"), masked("cat"), Piece("sat")], 40)
    assert found == [("the old [M] sat", {LABELS: "        cat"})]


def test_a_label_wider_than_its_token_pushes_the_next_one():
    assert lines([masked("longest"), masked("cat")], 40) == [("[M]     [M]", {LABELS: "longest cat"})]
    assert lines([masked("longest"), masked("##s", False)], 40) == [("[M]     [M]", {LABELS: "longest ##s"})]
    assert lines([masked("cat"), masked("##s", False)], 40) == [("[M] [M]", {LABELS: "cat ##s"})]
    assert lines([masked("a"), Piece("##s", PLAIN, False)], 40) == [("[M]##s", {LABELS: "a"})]


def test_several_rows_stand_under_a_token():
    piece = Piece("cat", PLAIN, True, {LABELS: "cat", ORDER: "10"})
    assert lines([Piece("the"), piece], 20) == [("the cat", {LABELS: "    cat", ORDER: "    10"})]


def test_lines_break_at_spaces_and_carry_their_labels_along():
    found = lines([Piece("the old cat"), masked("sat"), masked("on"), Piece("it")], 12)
    assert found == [("the old cat", {}), ("[M] [M] it", {LABELS: "sat on"})]


def test_wide_letters_take_two_columns():
    assert lines([Piece("猫が"), masked("好き"), masked("x")], 40) == [("猫が [M]  [M]", {LABELS: "     好き x"})]


def test_nothing_is_one_empty_line():
    assert lines([], 10) == [("", {})]


words = st.text(st.sampled_from("ab猫 "), min_size=1, max_size=30)
piece = st.builds(
    Piece,
    words.map(lambda text: " ".join(text.split()) or "a"),
    st.sampled_from([PLAIN, HIDDEN]),
    st.booleans(),
    st.one_of(st.just({}), st.fixed_dictionaries({LABELS: st.text(st.sampled_from("xy猫"), min_size=1, max_size=30)})),
)


@given(st.lists(piece, max_size=8), st.integers(4, 40))
def test_no_line_is_too_wide_and_nothing_is_lost(pieces, width):
    found = lines(pieces, width)
    for text, below in found:
        assert max(cell_len(shown) for shown in (text, *below.values())) <= width
    assert "".join(text for text, _ in found).replace(" ", "") == "".join(p.text for p in pieces).replace(" ", "")
    under = "".join(below.get(LABELS, "") for _, below in found).replace(" ", "")
    assert under == "".join(p.under.get(LABELS, "") for p in pieces)


def test_items_of_a_legend_are_not_broken():
    items = [Text("one two"), Text("three"), Text("a very long item indeed")]
    assert [line.plain for line in wrapped(items, 16, "   ")] == ["one two   three", "a very long item indeed"]
    assert wrapped([], 16, " ") == []
