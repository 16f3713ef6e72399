from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sentences import sentence_starts


def split(text: str) -> list[str]:
    starts = [*sentence_starts(text), len(text)]
    return [text[start:end].rstrip() for start, end in pairwise(starts)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["He paid $3.50.", "She left at 5 p.m. on Monday."],
        ["Dr. Smith went to Washington, D.C. on Jan. 5.", "Mrs. Jones stayed."],
        ["J. K. Rowling wrote it.", "Did she?", "Yes!", "So do I.", "Then..."],
        ['"Really?" he asked.', '"Yes!"', "Then he left."],
        ["It ended in 1999.", "Nobody knew.", "See Fig. 3 and No. 5 (e.g. the map)."],
        ["1. Introduction", "2. Methods of the U.S. Army."],
        ["我喜欢弹琵琶。", "“真的吗？”", "他问！", "好。"],
        ["円周率は３．１４です．", "そうです。"],
        ["你好吗?", "我很好!", "是"],
        ["هل أنت؟", "نعم.", "لا۔", "ٹھیک"],
        ["क्या?", "हाँ।", "नहीं॥", "ठीक"],
        ["Am 3. Oktober kam er.", "Z.B. heute.", "Ende."],
        ["Он пришёл.", "Она ушла…", "Всё."],
        ["What?!", "No way.", "(Truly.)", "Yes."],
    ],
)
def test_languages(sentences: list[str]) -> None:
    for sentence in sentences[1:]:
        assert sentence, "no empty sentence in the example"
    if any("\u3040" <= char <= "\u9fff" for char in sentences[0]):
        assert split("".join(sentences)) == sentences
    elif sentences[0].startswith("1."):
        assert split("\n".join(sentences)) == sentences
    assert split("\n\n".join(sentences)) == sentences
    if not sentences[0].startswith("1."):
        assert split(" ".join(sentences)) == sentences


def test_line_breaks_end_sentences_and_space_around_is_skipped() -> None:
    assert split("  \n one\ntwo\r\n\r\n three \u2028four\t") == ["one", "two", "three", "four"]
    assert sentence_starts("  \n one\ntwo") == [4, 8]


def test_nothing_to_split() -> None:
    assert sentence_starts("") == []
    assert sentence_starts(" \n\t\u3000 ") == []
    assert sentence_starts("no end") == [0]
    assert sentence_starts("www.example.com v1.2.3 a.b") == [0]


@given(st.text(alphabet="aB1 .!?。？\n\"”)'…．我Dr", max_size=80))
def test_starts_are_increasing_and_visible(text: str) -> None:
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert all(not text[start].isspace() for start in starts)
    assert bool(starts) == bool(text.strip())
    if starts:
        assert not text[: starts[0]].strip()


@pytest.mark.parametrize("run", [".", ". ", ".)", "\n", " ", "a", "。", '."', "!a ", "．", "?我"])
def test_G_08_long_runs_cost_their_length(run: str) -> None:
    def seconds(size: int) -> float:
        text = "x" + run * (size // len(run)) + "x"
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            sentence_starts(text)
            best = min(best, time.process_time() - began)
        return best

    # Eight times the length: 8 if linear, 64 if quadratic.
    assert seconds(400_000) < 12 * seconds(50_000) + 0.1
