from __future__ import annotations

import base64
import functools
import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from corruption.errors import InputError
from corruption.noise import example_key, hash64
from corruption.schema import PASSAGES
from pipelines import content_encoder, passages
from pipelines.content_encoder import ContentEncoder
from pipelines.documents import Document
from pipelines.passages import PassageBuilder, PassageSettings
from pipelines.tokenizers import Kind
from tests.pipelines.test_tokenizers import word_level
from tests.pipelines.trained import KINDS, news, trained, trained_json


@functools.cache
def builder(kind: Kind, budget: int) -> PassageBuilder:
    return PassageBuilder(trained_json(kind), PassageSettings(budget))


def build(kind: Kind, budget: int, *documents: Document) -> tuple[pa.Table, Counter[str]]:
    return builder(kind, budget).build(documents)


def lengths(table: pa.Table) -> list[int]:
    return [len(row) for row in table["tokens"].to_pylist()]


def flat(table: pa.Table, column: str) -> list[int]:
    return [value for row in table[column].to_pylist() for value in row]


def word_document(key: str, words: int, sentence: int = 10**9) -> Document:
    """A text of so many tokens of `word_level`, a full stop (one more word there) after every sentence."""
    return Document(key, " ".join(f"W{i}." if (i + 1) % sentence == 0 else f"w{i % 200 + 9}" for i in range(words)))


def test_whole_sentences_up_to_the_budget() -> None:
    text = "One two three. Four five six seven. Eight nine.\n\nTen eleven twelve thirteen fourteen."
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "[MASK]": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table, counts = PassageBuilder(backend.to_str(), PassageSettings(7)).build([Document("d", text, label="L")])
    assert table.schema == PASSAGES
    assert lengths(table) == [7, 7]
    assert table["sentence_start"].to_pylist() == [[1, 0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0]]
    assert table["word_start"].to_pylist() == [[1] * 7, [1] * 7]
    assert table["key"].to_pylist() == [example_key("d", 0), example_key("d", 1)]
    assert table["doc"].to_pylist() == [hash64("d")] * 2
    assert table["label"].to_pylist() == ["L", "L"]
    assert counts["documents"] == 1 and counts["passages"] == 2 and counts["tokens"] == 14
    assert counts["sentences"] == 4 and counts["sentences_cut"] == 0 and counts["unknown_tokens"] == 14


def test_long_sentences_are_cut_at_words_and_long_words_anywhere() -> None:
    backend = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##a": 2, ".": 3}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    table, counts = PassageBuilder(backend.to_str(), PassageSettings(4)).build(
        [Document("d", "a aaa aa aaaaaaaaaa a. A"), Document("e", "aa.")]
    )
    # a aaa | aa | aaaa aaaa | aa a . | [UNK] of the next sentence, then the next document
    assert lengths(table) == [4, 2, 4, 4, 4, 1, 3]
    assert flat(table, "tokens").count(0) == 1
    assert counts["sentences_cut"] == 1 and counts["words_cut"] == 2
    assert table["word_start"].to_pylist()[2:5] == [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 1, 1]]
    assert all(row[0] == 1 for row in table["word_start"].to_pylist())
    assert all(row[0] == 1 for row in table["sentence_start"].to_pylist())


def test_A_11_no_token_is_lost_on_short_tails() -> None:
    tokenizer = word_level(300, pad_token="[PAD]", mask_token="[MASK]")
    documents = [word_document("a", 600), word_document("b", 512), word_document("c", 181)]
    for budget in (510, 512):
        own = PassageBuilder(tokenizer.backend_tokenizer.to_str(), PassageSettings(budget))
        table, counts = own.build(documents)
        assert lengths(table) == ([510, 90, 510, 2, 181] if budget == 510 else [512, 88, 512, 181])
        assert sum(lengths(table)) == counts["tokens"] == 600 + 512 + 181


MIXED = st.text(alphabet="aé Zb1,.!。\n\t 我欢กั\u0301\u200d😀()Dr", max_size=120)


@settings(max_examples=50, deadline=None)
@given(st.lists(MIXED, min_size=1, max_size=4), st.integers(1, 12), st.sampled_from(KINDS))
def test_A_11_passages_are_the_tokens_cut(texts: list[str], budget: int, kind: Kind) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    table, counts = build(kind, budget, *documents)
    own = Tokenizer.from_str(trained_json(kind))
    own.encode_special_tokens = True
    whole = [own.encode(text, add_special_tokens=False).ids for text in texts]
    assert flat(table, "tokens") == [number for ids in whole for number in ids]
    assert counts["tokens"] == sum(map(len, whole))
    assert counts["documents_without_tokens"] == sum(not ids for ids in whole)
    assert counts["documents"] == len(texts)
    assert all(0 < length <= budget for length in lengths(table))
    for words, sentences, tokens in zip(*(table[c].to_pylist() for c in ("word_start", "sentence_start", "tokens"))):
        assert len(words) == len(sentences) == len(tokens)
        assert words[0] == sentences[0] == 1
        assert all(word >= sentence for word, sentence in zip(words, sentences))
    # Nothing depends on the batch.
    alone = [build(kind, budget, document) for document in documents]
    assert pa.concat_tables([part for part, _ in alone]).combine_chunks() == table.combine_chunks()
    assert sum((count for _, count in alone), Counter()) == counts


@pytest.mark.parametrize("kind", KINDS)
def test_mentions(kind: Kind) -> None:
    text = "The prime minister met Yasser Arafat in Zürich. He left on Monday."
    spans = [(23, 36, "Arafat"), (40, 46, "Zürich"), (4, 18, "PM"), (59, 66, "Monday ")]
    assert text[59:66] == "Monday."[:7]
    table, counts = build(kind, 60, Document("d", text, links=[(s, e, t) for s, e, t in spans]))
    assert [m["target"] for m in table["mentions"].to_pylist()[0]] == ["PM", "Arafat", "Zürich", "Monday "]
    tokens = table["tokens"].to_pylist()[0]
    starts = table["word_start"].to_pylist()[0]
    for mention, surface in zip(
        table["mentions"].to_pylist()[0], ["prime minister", "Yasser Arafat", "Zürich", "Monday."]
    ):
        assert starts[mention["start"]] == 1
        decoded = trained(kind).decode(tokens[mention["start"] : mention["end"]])
        assert decoded.replace(" ", "") == surface.replace(" ", "")
    assert counts["mentions"] == 4
    assert counts["mentions_widened"] == 0
    assert not any(name.startswith("mentions_dropped") for name in counts)


def test_mentions_that_are_dropped_or_widened() -> None:
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "w": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    text = "aa bb cc dd ee ff"
    links = [
        (0, 2, "kept"),
        (3, 4, "widened"),
        (3, 8, "overlap"),
        (6, 11, "border"),  # cc dd, cut after cc
        (9, 11, "second passage"),
        (11, 12, "space"),
        (5, 5, "outside"),
        (15, 99, "outside"),
        (-1, 2, "outside"),
    ]
    table, counts = PassageBuilder(backend.to_str(), PassageSettings(3)).build([Document("d", text, links=links)])
    assert table["mentions"].to_pylist() == [
        [{"start": 0, "end": 1, "target": "kept"}, {"start": 1, "end": 2, "target": "widened"}],
        [{"start": 0, "end": 1, "target": "second passage"}],
    ]
    names = {name: count for name, count in counts.items() if name.startswith("mentions")}
    assert names == {
        "mentions": 3,
        "mentions_widened": 1,
        "mentions_dropped_overlap": 1,
        "mentions_dropped_border": 1,
        "mentions_dropped_no_token": 1,
        "mentions_dropped_outside": 3,
    }


def test_F_11_mentions_in_original_code_points() -> None:
    text = "e\u0301te\u0301 a ﬁne"
    table, counts = build("wordpiece", 50, Document("d", text, links=[(0, 5, "summer"), (8, 11, "fine")]))
    first, second = table["mentions"].to_pylist()[0]
    assert first["start"] == 0 and counts["mentions"] == 2
    assert table["word_start"].to_pylist()[0][first["end"]] == 1
    assert second["end"] == len(table["tokens"].to_pylist()[0])


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_text_are_text(kind: Kind) -> None:
    tokenizer = trained(kind)
    text = "a [MASK] b<mask>c <s> </s> [CLS] <pad> <extra_id_0> [R] <extra_id_1>"
    table, _ = build(kind, 200, Document("d", text))
    tokens = flat(table, "tokens")
    assert not set(tokens) & (set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
    if kind == "bpe":
        assert tokenizer.decode(tokens) == text
    words = Tokenizer.from_str(word_level(60, mask_token="[MASK]").backend_tokenizer.to_str())
    assert ContentEncoder(words.to_str()).encode("w9 [MASK] w10").ids.tolist() == [9, 0, 10]


@pytest.mark.parametrize("size", [70_000, 250_000])
def test_A_20_large_ids_survive(size: int) -> None:
    vocabulary = {f"w{number}": number for number in range(1, size)}
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, **vocabulary}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ids = [number for number in (32_767, 32_768, 65_535, 65_536, 69_999, 249_999) if number < size]
    document = Document("d", " ".join(f"w{number}" for number in ids))
    table, _ = PassageBuilder(backend.to_str(), PassageSettings(4)).build([document])
    assert flat(table, "tokens") == ids
    assert table.schema.field("tokens").type.value_type == pa.int32()


def test_A_20_many_tokens_make_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(news()[:30])]
    one, counts = build("wordpiece", 40, *documents)
    monkeypatch.setattr(passages, "_CHUNK_TOKENS", 1000)
    many, again = build("wordpiece", 40, *documents)
    assert many["tokens"].num_chunks > 3 and again == counts
    assert many.combine_chunks() == one.combine_chunks()
    with pytest.raises(pa.ArrowInvalid):
        passages._offsets(np.array([2**31 - 1, 1], np.int64))


def test_A_21_words_column_and_the_lack_of_one() -> None:
    own = ["我", "喜欢", "弹", "琵琶"]
    text = "我喜欢弹琵琶"
    documents = [Document("a", text), Document("b", text, words=own), Document("c", "no such script")]
    table, counts = build("wordpiece", 50, *documents)
    assert table["word_start"].to_pylist()[:2] == [[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0]]
    assert counts["unsegmented_documents"] == 1 and counts["unsegmented_characters"] == 6
    assert counts["words_crossed"] == 0
    without, _ = build("wordpiece", 50, *documents[1:])
    assert without["word_start"].to_pylist()[0] == [1, 1, 0, 1, 1, 0], "a dropped row changes no other"

    mixed = "用BERT模型预测2024年"
    _, counts = build("wordpiece", 50, Document("d", mixed, words=["用", "BE", "RT模型", "预测", "2024年"]))
    spread = [trained("wordpiece").tokenize(word) for word in ("BERT", "2024")]
    assert counts["words_crossed"] == (2 if len(spread[0]) == 1 else 0)
    _, counts = build("wordpiece", 50, Document("d", mixed, words=["用", "BERT"]))
    assert counts["words_mismatched"] == 1 and counts["unsegmented_documents"] == 1


def test_sentence_inside_a_word_of_the_user_starts_nothing() -> None:
    document = Document("d", "go to St! Louis now", words=["go", "to", "St! Louis", "now"])
    table, counts = build("wordpiece", 50, document)
    assert counts["sentences"] == 1
    assert sum(table["word_start"].to_pylist()[0]) == 4


def test_no_documents_and_no_tokens() -> None:
    table, counts = build("bpe", 10)
    assert table.schema == PASSAGES and table.num_rows == 0 and not counts
    table, counts = build("wordpiece", 10, Document("d", "\u200b\u200e", links=[(0, 1, "x")]))
    assert table.num_rows == 0
    assert counts["documents_without_tokens"] == 1 and counts["mentions_dropped_no_token"] == 1
    with pytest.raises(InputError, match=r"corpus.max_tokens: it leaves 0 tokens for text"):
        PassageSettings(0)


RUNS = {
    "underscores": (200_000, lambda n: "_" * n),
    "letters": (2_000_000, lambda n: "a" * n),
    "base64": (5_000_000, lambda n: base64.b64encode(random.Random(0).randbytes(n * 3 // 4)).decode()),
    "han": (200_000, lambda n: "".join(map(chr, random.Random(0).choices(range(0x4E00, 0x9FA5), k=n)))),
    "spaces": (1_000_000, lambda n: "a" + " " * n + "b"),
}


def run_seconds(kind: Kind, name: str, size: int) -> tuple[float, Counter[str]]:
    document = Document("d", RUNS[name][1](size))
    began = time.process_time()
    table, counts = build(kind, 254, document)
    seconds = time.process_time() - began
    assert sum(lengths(table)) == counts["tokens"] > 0
    assert max(lengths(table)) <= 254
    assert name == "spaces" or (counts["runs_cut"] > 0) == (size > content_encoder.PIECE)
    return seconds, counts


@pytest.mark.parametrize("name", list(RUNS))
@pytest.mark.parametrize("kind", KINDS)
def test_G_08_unbroken_runs_are_linear(kind: Kind, name: str) -> None:
    size = RUNS[name][0] // 12
    run_seconds(kind, name, 100)
    once, twice = (run_seconds(kind, name, n)[0] for n in (size, 2 * size))
    assert twice < 3 * once + 0.1


@pytest.mark.soak
@pytest.mark.parametrize("name", list(RUNS))
@pytest.mark.parametrize("kind", KINDS)
def test_G_08_full_size(kind: Kind, name: str) -> None:
    once, twice = (run_seconds(kind, name, n)[0] for n in (RUNS[name][0] // 2, RUNS[name][0]))
    assert twice < 3 * once + 0.1
    assert twice < 60


FORK = """
import multiprocessing, sys
from pipelines.documents import Document
from pipelines.passages import PassageBuilder, PassageSettings
from tests.pipelines.trained import trained, trained_json

shared = trained("bpe")
shared("warm up the shared one", truncation=True, max_length=7, padding="max_length")
before = (shared.backend_tokenizer.truncation, shared.backend_tokenizer.padding)
builder = PassageBuilder(shared.backend_tokenizer.to_str(), PassageSettings(9))
text = "One word after the other. " * 40
here = builder.build([Document("d", text)])[0]
def work(_):
    return builder.build([Document("d", text)])[0]
with multiprocessing.get_context("fork").Pool(4) as pool:
    for table in pool.map(work, range(8)):
        assert table == here
assert (shared.backend_tokenizer.truncation, shared.backend_tokenizer.padding) == before
assert before[0] is not None and sum(map(len, here["tokens"].to_pylist())) > 100
print("done")
"""


def test_D_12_fork_after_use_and_the_state_of_a_shared_tokenizer() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
        env={"PATH": "", "PYTHONPATH": ".", "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
    assert done.stderr.count("forked") <= 1


def test_D_12_builder_ignores_truncation_and_can_be_pickled() -> None:
    backend = Tokenizer.from_str(trained_json("wordpiece"))
    backend.enable_truncation(3)
    backend.enable_padding(length=64)
    own = PassageBuilder(backend.to_str(), PassageSettings(20))
    document = Document("d", news()[0])
    expected = build("wordpiece", 20, document)[0]
    assert own.build([document])[0] == expected
    assert pickle.loads(pickle.dumps(own)).build([document])[0] == expected
