from __future__ import annotations

import functools
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from pipelines.content_encoder import ContentEncoder
from pipelines.words import Alignment, align, classes, given_starts, text_starts, unspaced
from tests.pipelines.trained import KINDS, trained_json


def aligned(tokenizer_json: str, text: str, words: list[str] | None = None) -> tuple[Alignment, list[str]]:
    """The alignment and what each token covers."""
    encoded = ContentEncoder(tokenizer_json).encode(text)
    kinds = classes(text)
    chosen = None if words is None else given_starts(text, kinds, words)
    assert (chosen is None) == (words is None)
    alignment = align(kinds, chosen, encoded.start, encoded.end, encoded.piece)
    return alignment, [text[start:end] for start, end in zip(alignment.start, alignment.end)]


def words_of(tokenizer_json: str, text: str, words: list[str] | None = None) -> list[str]:
    """The text from each word start to the next, without white space at its ends."""
    alignment, _ = aligned(tokenizer_json, text, words)
    starts = [*alignment.start[alignment.word_start].tolist(), len(text)]
    return [text[start:end].strip() for start, end in pairwise(starts)]


def trimmed(tokenizer_json: str, trim: bool) -> str:
    spec = json.loads(tokenizer_json)
    spec["pre_tokenizer"]["trim_offsets"] = trim
    return json.dumps(spec)


NAMES = (*KINDS, "bpe, trimmed", "bpe, untrimmed", "unigram, one piece", "unigram, no pre-tokenizer")


@functools.cache
def variants() -> dict[str, str]:
    """Tokenizers by name: the three kinds, untrimmed offsets, and pre-tokenizers that merge everything."""
    merged = json.loads(trained_json("unigram"))
    merged["pre_tokenizer"]["split"] = False
    llama = Tokenizer.from_str(trained_json("unigram"))
    llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    llama.pre_tokenizer = None
    return {
        **{kind: trained_json(kind) for kind in KINDS},
        "bpe, trimmed": trimmed(trained_json("bpe"), True),
        "bpe, untrimmed": trimmed(trained_json("bpe"), False),
        "unigram, one piece": json.dumps(merged),
        "unigram, no pre-tokenizer": llama.to_str(),
    }


@pytest.mark.parametrize("name", NAMES)
def test_A_04_two_words_for_every_tokenizer(name: str) -> None:
    text = "unbelievable antidisestablishmentarianism"
    alignment, surfaces = aligned(variants()[name], text)
    assert words_of(variants()[name], text) == text.split()
    assert len(surfaces) > 4, "the example must be split into pieces"
    assert alignment.word_start[0]


@pytest.mark.parametrize("name", NAMES)
def test_punctuation_is_a_word_of_its_own(name: str) -> None:
    assert words_of(variants()[name], " He said: the man (old) came, and left .") == (
        ["He", "said", ":", "the", "man", "(", "old", ")", "came", ",", "and", "left", "."]
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("我喜欢弹琵琶", 6),
        ("用BERT模型", 4),  # 用, BERT, 模, 型
        ("ภาษาไทยสวัสดี", 13),
        ("テキスト", 4),
        ("ຂອບ", 3),
        ("ខ្មែរ", 5),
        ("မြန်မာ", 6),
    ],
)
def test_scripts_without_spaces(name: str, text: str, count: int) -> None:
    _, surfaces = aligned(variants()[name], text)
    starts = classes(text)
    assert int(np.count_nonzero(text_starts(starts))) == count
    words = words_of(variants()[name], text)
    # A token that covers several code points starts a word once; no word is ever split.
    assert len(words) <= count and "".join(words) == text
    if len(set(surfaces)) == count:
        assert len(words) == count


def test_pieces_of_one_code_point_are_one_word() -> None:
    alignment, surfaces = aligned(trained_json("bpe"), "龘龘 x")
    assert len(surfaces) > 3, "the example must be split inside its code points"
    assert np.count_nonzero(alignment.word_start) == 3
    assert words_of(trained_json("bpe"), "龘龘 x") == ["龘", "龘", "x"]


@pytest.mark.parametrize("name", NAMES)
def test_marks_stay_with_their_letter(name: str) -> None:
    for text in ("हिन्दी में", "e\u0301te\u0301 a", "मैं हूँ"):
        assert words_of(variants()[name], text) == text.split(), text


@pytest.mark.parametrize("name", NAMES)
def test_white_space_alone_starts_no_word(name: str) -> None:
    for text in ("the  man", "\n\nthe\n\n man \t ", "  the man\n\n\n"):
        assert words_of(variants()[name], text) == ["the", "man"], text


def test_pre_tokenizer_starts_count_too() -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "1": 1, "2": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    assert words_of(tokenizer.to_str(), "ab12 1") == ["ab", "1", "2", "1"]


@pytest.mark.parametrize("kind", KINDS)
def test_A_21_words_of_the_user_override(kind: str) -> None:
    own = ["我", "喜欢", "弹", "琵琶"]
    assert words_of(variants()[kind], "我喜欢弹琵琶", own) == own
    assert words_of(variants()[kind], "in New York now", ["in", "New York", "now"]) == [
        "in",
        "New York",
        "now",
    ]
    mixed = ["用", "BERT", "模型", "预测", "2024年"]
    alignment, _ = aligned(variants()[kind], "用BERT模型预测2024年", mixed)
    assert alignment.crossed == 0
    assert words_of(variants()[kind], "用BERT模型预测2024年", mixed) == mixed


def level_tokenizer(*tokens: str) -> str:
    vocabulary = {"[UNK]": 0, **{token: number for number, token in enumerate(tokens, 1)}}
    return str(Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]")).to_str())


def test_A_21_word_crossing_a_token_falls_back_to_tokens() -> None:
    tokenizer = level_tokenizer("用", "##2024", "##年", "##好", "##的")
    own = ["用", "20", "24年", "好的"]
    alignment, surfaces = aligned(tokenizer, "用2024年好的", own)
    assert surfaces == ["用", "2024", "年", "好", "的"]
    assert alignment.crossed == 2  # 20 and 24年
    assert alignment.word_start.tolist() == [True, True, True, True, False]


def test_words_that_are_not_the_text() -> None:
    text = "我喜欢 弹"
    kinds = classes(text)
    assert given_starts(text, kinds, ["我", "喜欢", "打"]) is None
    assert given_starts(text, kinds, ["我", "喜欢"]) is None
    starts = given_starts(text, kinds, ["我", " 喜 欢 ", "", "弹"])
    assert starts is not None
    assert np.flatnonzero(starts).tolist() == [0, 1, 4]


def test_unspaced_counts_code_points() -> None:
    assert unspaced(classes("abc, deé 12")) == 0
    assert unspaced(classes("用BERT模型。")) == 3


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(["unbelievable", "the", "Zürich", "naïve", "x", "12", "हिन्दी", "Xqzk"]),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([" ", ", ", "\n", "  ", " ( "]),
)
def test_A_04_tokenizers_agree(words: list[str], between: str) -> None:
    text = between.join(words)
    counts = {name: len(words_of(tokenizer, text)) for name, tokenizer in variants().items()}
    assert len(set(counts.values())) == 1, counts
    marks = sum(char in ",(" for char in between)
    assert counts["wordpiece"] == len(words) + marks * (len(words) - 1)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab Z1,.'(\n\t 我欢กั\u0301\u200d\ufe0f😀é", max_size=40), st.sampled_from(KINDS))
def test_spans_are_ordered_and_words_begin_at_visible_text(text: str, kind: str) -> None:
    alignment, surfaces = aligned(variants()[kind], text)
    assert (np.diff(alignment.start) >= 0).all()
    assert (alignment.end >= alignment.start).all()
    for start, surface in zip(alignment.word_start, surfaces):
        assert surface == surface.strip()
        assert surface or not start or not text.strip()
    if len(surfaces):
        assert alignment.word_start[0]


def test_A_21_one_token_over_many_words_gives_them_all_up() -> None:
    alignment, surfaces = aligned(level_tokenizer("我喜欢"), "我喜欢", ["我", "喜欢"])
    assert surfaces == ["我喜欢"]
    assert alignment.crossed == 2
    assert alignment.word_start.tolist() == [True]
