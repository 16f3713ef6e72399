from __future__ import annotations

import io
from dataclasses import replace

import numpy as np

from corruption.frames import FRAMES
from corruption.schema import IGNORE, PATTERNS
from pipelines.preview_matrix import Matrix
from pipelines.preview_rows import MEANING, Line, Piece, Row
from pipelines.preview_text import MARKS, STYLES, blocks, legend, print_page, row_lines
from tests.pipelines.preview_case import corrupted, ids, page_of, shown
from tests.pipelines.small_tokenizers import wordpiece

TOKENIZER = wordpiece("<extra_id_0>")


def printed(row: Row, width: int = 60, **how) -> list[str]:
    return [f"{name:<9} {text.plain}".rstrip() for name, text in row_lines(row, width - 10, **how)]


def test_labels_stand_under_their_tokens():
    original = ids(TOKENIZER, "the cat sat on the mat .")
    now = list(original)
    now[1], now[3] = TOKENIZER.mask_token_id, 17
    labels = [token if i in (1, 3, 5) else IGNORE for i, token in enumerate(original)]
    assert printed(shown(TOKENIZER, corrupted(original, now, labels=labels))) == [
        "original  the cat sat on the mat.",
        "corrupted the [MASK] sat ~.~ the =mat= .",
        "labels        cat        on      mat",
    ]


def test_every_mark_at_once_at_width_60():
    row = Row(
        (
            Line("original", (Piece("the cat sat", "removed"), Piece("on the mat"))),
            Line("segment A", (Piece("on", "moved"), Piece("the", "inserted"), Piece("<x>", "special"))),
            Line("segment B", (Piece("far away", "foreign"), Piece("[MASK]", "hidden", True, {"was": "mat"}))),
        ),
        (("pair", "B does not follow A"),),
    )
    assert printed(row) == [
        "original  [-the cat sat-] on the mat",
        "segment A >on< {+the+} <x>",
        "segment B {far away} [MASK]",
        "was                  mat",
        "pair      B does not follow A",
    ]
    assert set(STYLES) == {"plain", *MEANING} and set(MARKS) == set(MEANING) - {"hidden", "special"}
    assert len(set(MARKS.values())) == len(MARKS)


def test_a_dropped_passage_says_so_first():
    lines = printed(shown(TOKENIZER, corrupted([5], reason="too_short")), 80)
    assert lines[0] == "dropped   too short: training leaves this passage out, and counts it"


def test_a_matrix_in_half_blocks_and_in_ascii():
    after = corrupted([5, 6, 7], segment=[0, 0, 1], numbers={"attention_pattern": PATTERNS.index("left_to_right")})
    frame = FRAMES["pair"](("input_ids", "token_type_ids", "attention_pattern"))
    row = shown(TOKENIZER, after, frame=frame)
    assert printed(row)[-4:] == [
        "sees      attention left to right",
        "          █▄····",
        "          ███▄··",
        "          █████▄",
    ]
    assert printed(row, unicode=False)[-6:] == [f"          {'#' * i}{'.' * (6 - i)}" for i in range(1, 7)]
    odd = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], bool)
    assert list(blocks(odd)) == ["▀·█", "▀▀·"]


def test_a_large_matrix_is_cut_and_says_so():
    matrix = Matrix("query stream", np.ones((64, 64), bool), ("x",) * 64, 300)
    lines = printed(Row((), (), (matrix,)))
    assert lines[0] == "sees      query stream, the first 24 of 300 tokens"
    assert lines[1:] == ["          " + "█" * 24] * 12
    assert len(printed(Row((), (), (matrix,)), 20)[1].strip()) == 10


def test_the_legend_names_what_is_there_and_nothing_else():
    row = Row((Line("x", (Piece("a", "random"), Piece("b", "removed", True, {"labels": "c"}))),))
    assert [line.plain for line in legend(page_of(row), 60)] == [
        "~word~ replaced at random   [-word-] taken out",
        "labels: the token asked for here",
    ]
    assert legend(page_of(Row((Line("x", (Piece("a"),)),))), 60) == []
    hidden = Row((Line("x", (Piece("[MASK]", "hidden"), Piece("<x>", "special"))),))
    assert [line.plain for line in legend(page_of(hidden), 70)] == ["[MASK] hidden   special special token put in"]
    bare = legend(replace(page_of(hidden), mask=None), 70)
    assert bare[0].plain.startswith("hidden hidden")


def test_a_page_has_its_step_and_places_and_rates():
    row = Row((Line("original", (Piece("a b"),)),), title="document 7", place="lane 0, epoch 1")
    file = io.StringIO()
    print_page(page_of(row, microbatches=("lane 0: x", "lane 1: y")), width=60, file=file)
    assert [line.rstrip() for line in file.getvalue().splitlines()] == [
        "recipe small, seed 3",
        "",
        "step      lane 0: x",
        "          lane 1: y",
        "",
        "passage 1 of 1, document 7",
        "lane 0, epoch 1",
        "original  a b",
        "",
        "came to   nothing",
    ]


def test_ascii_where_nothing_else_can_be_written():
    matrix = Matrix("m", np.eye(2, dtype=bool), ("a", "b"), 2)
    file = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    print_page(page_of(Row((), (), (matrix,))), width=80, file=file)
    text = file.buffer.getvalue().decode("ascii")
    assert "#." in text and ".#" in text
