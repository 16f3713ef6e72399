from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.preview_spelling import Spelling, clean
from tests.pipelines.preview_case import ids
from tests.pipelines.small_tokenizers import byte_level, wordpiece
from tests.pipelines.trained import trained


@given(st.text(st.characters(codec=None), max_size=30))
def test_cleaned_text_is_one_printable_line(text):
    made = clean(text)
    made.encode("utf-8")
    assert made == " ".join(made.split()) and "\x1b" not in made and "\u202e" not in made
    assert clean(made) == made


def test_text_that_could_command_a_terminal_or_turn_a_line():
    assert clean("a\x1b[31mred\x9b0m\u202etxt.exe\n\tb \ud800c") == "a [31mred 0m txt.exe b c"
    assert clean("می\u200cخواهم 👩\u200d🔬") == "می\u200cخواهم 👩\u200d🔬"


def test_where_spaces_stand():
    words = wordpiece("<extra_id_0>")
    spelling = Spelling(words)
    spaced = [spelling.spaced(words.convert_tokens_to_ids(token)) for token in ("cat", "##s", "[MASK]", "<extra_id_0>")]
    assert spaced == [True, False, True, True]
    letters = byte_level(mask_token="<mask>", pad_token="<pad>")
    spelling = Spelling(letters)
    spaced = [spelling.spaced(letters.convert_tokens_to_ids(token)) for token in ("Ġc", "c", "<mask>")]
    assert spaced == [True, False, True]
    assert spelling.mask == "<mask>" and Spelling(byte_level(pad_token="<pad>")).mask is None


def test_no_character_is_torn():
    letters = byte_level(mask_token="<mask>", pad_token="<pad>")
    spelling = Spelling(letters)
    assert spelling.whole(ids(letters, "aé中𝄞b")) == [1, 2, 3, 4, 1]
    half = ids(letters, "é")[:1]
    assert spelling.whole([*half, *ids(letters, "ab")]) == [1, 1, 1]
    assert spelling.whole([]) == []


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_every_kind_writes_its_text_again(kind):
    tokenizer = trained(kind)
    text = "the people of Zürich said so ."
    assert Spelling(tokenizer).text(ids(tokenizer, text)).replace(" ", "").lower() == text.replace(" ", "").lower()
