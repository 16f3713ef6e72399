from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from corruption.errors import InputError
from pipelines.tokenizers import (
    Kind,
    check_tokenizer,
    load_tokenizer,
    tokenizer_fingerprint,
    train_tokenizer,
)
from tests.pipelines.trained import KINDS, trained

ROUND_TRIP = "The man said: we will go to Zürich in 2024 (été)!"


def word_level(size: int, **roles: str) -> PreTrainedTokenizerFast:
    """A tokenizer whose ordinary token w7 has the id 7, with the special tokens at the first ids."""
    vocabulary = {f"w{number}": number for number in range(size)}
    for number, token in enumerate(["[UNK]", *dict.fromkeys(roles.values())]):
        del vocabulary[f"w{number}"]
        vocabulary[token] = number
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", **roles)


@pytest.mark.parametrize("kind", KINDS)
def test_trained_tokenizer_is_complete(kind: Kind, tmp_path: Path) -> None:
    tokenizer = trained(kind)
    first = {
        "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        "bpe": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    }
    assert tokenizer.convert_ids_to_tokens(list(range(5))) == first["wordpiece" if kind == "wordpiece" else "bpe"]
    assert len(tokenizer) == 3000
    last = tokenizer.convert_ids_to_tokens([2997, 2998, 2999])
    assert last == ["<extra_id_0>", "<extra_id_1>", "[R]"]
    assert {2997, 2998, 2999, *range(5)} == set(tokenizer.all_special_ids)
    assert tokenizer.model_max_length == 512

    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert again.model_max_length == 512 and again.mask_token_id == 4
    framed = again("The man")["input_ids"]
    assert framed[0] == again.cls_token_id and framed[-1] == again.sep_token_id
    pair = again("The man", "left")["input_ids"]
    assert pair.count(again.sep_token_id) == (2 if kind == "wordpiece" else 3)
    assert ("token_type_ids" in again("The man")) == (kind == "wordpiece")


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_gives_the_text_back(kind: Kind) -> None:
    tokenizer = trained(kind)
    decoded = tokenizer.decode(tokenizer(ROUND_TRIP)["input_ids"], skip_special_tokens=True)
    if kind == "wordpiece":
        assert decoded.replace(" ", "") == ROUND_TRIP.replace(" ", "")
    else:
        assert decoded.strip() == ROUND_TRIP


def test_byte_level_gives_any_text_back_byte_for_byte() -> None:
    tokenizer = trained("bpe")
    for text in ("e\u0301 龘 👩‍👧  x\n\ty ", "\u00a0ﬁ㍿"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_case_and_accents(kind: Kind) -> None:
    texts = ["Ébène Élan ébène élan elan ebene"] * 20
    cased = train_tokenizer(iter(texts), kind, 400)
    lower = train_tokenizer(iter(texts), kind, 400, lowercase=True)

    def back(tokenizer: PreTrainedTokenizerFast) -> str:
        return tokenizer.decode(tokenizer.encode("Élan ébène", add_special_tokens=False)).strip()

    assert back(cased) == "Élan ébène"
    assert back(lower) == ("elan ebene" if kind == "wordpiece" else "élan ébène")


def test_composed_and_decomposed_letters_are_one_in_wordpiece_and_unigram() -> None:
    for kind in ("wordpiece", "unigram"):
        tokenizer = trained(kind)
        assert tokenizer.tokenize("e\u0301te\u0301") == tokenizer.tokenize("été")


@pytest.mark.parametrize("kind", KINDS)
def test_same_files_when_trained_again(kind: Kind, tmp_path: Path) -> None:
    digests = set()
    for number in range(3):
        folder = tmp_path / str(number)
        train_tokenizer(iter(["some Text über 12 cats, and dogs"] * 5), kind, 300).save_pretrained(folder)
        files = sorted(folder.iterdir())
        digests.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
    assert len(digests) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n", "\u3000"]])
def test_nothing_to_learn(kind: Kind, texts: list[str]) -> None:
    with pytest.raises(InputError, match=f"no text to learn a {kind} vocabulary from; check corpus.source"):
        train_tokenizer(iter(texts), kind, 400)


def test_training_options_that_cannot_be() -> None:
    def train(*args: Any, **options: Any) -> None:
        train_tokenizer(iter(["text"]), *args, **options)

    with pytest.raises(InputError, match=r"no kind 'wordpeace'; choose one of wordpiece, bpe, unigram"):
        train("wordpeace", 1000)
    with pytest.raises(InputError, match="leaves 200 ids beside 100 added tokens; a bpe vocabulary needs"):
        train("bpe", 300, sentinels=100)
    with pytest.raises(InputError, match="name each once"):
        train("wordpiece", 300, modes=("[R]", "[R]"))
    with pytest.raises(InputError, match="name each once"):
        train("wordpiece", 300, modes=("[MASK]",))


def lost_bert(folder: Path) -> None:
    (folder / "words.txt").write_text("a\nb\nc\n")
    transformers.BertTokenizerFast(vocab_file=str(folder / "words.txt")).save_pretrained(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lost_bert, "it lost its vocabulary: 5 tokens, 0 of them not special"),
        (
            lambda folder: transformers.GPT2TokenizerFast().save_pretrained(folder),
            "lost its vocabulary: 1 tokens",
        ),
        (lambda folder: transformers.LlamaTokenizerFast().save_pretrained(folder), "lost its vocabulary"),
        (
            lambda folder: transformers.T5Tokenizer().save_pretrained(folder),
            "104 tokens, 1 of them not special",
        ),
        (
            lambda folder: transformers.ByT5Tokenizer().save_pretrained(folder),
            "ByT5Tokenizer has no fast form",
        ),
        (lambda folder: None, "the folder is empty"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "transformers cannot load it"),
        (lambda folder: (folder / "vocab.txt").write_text("[UNK]\na\n"), "transformers cannot load it"),
    ],
)
def test_A_19_folders_without_a_usable_tokenizer(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(InputError) as caught:
        load_tokenizer(str(tmp_path))
    assert message in str(caught.value) and str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_such_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for path in (str(tmp_path / "none"), "./none", "~/none-of-these"):
        with pytest.raises(InputError, match=r"there is no such folder; check tokenizer.path"):
            load_tokenizer(path)
    with pytest.raises(InputError, match="it is a file; give the folder that holds it"):
        load_tokenizer(__file__)


def test_small_vocabularies_are_no_lost_ones(tmp_path: Path) -> None:
    word_level(20, pad_token="[PAD]", mask_token="[MASK]").save_pretrained(tmp_path)
    assert len(load_tokenizer(str(tmp_path))) == 20


@pytest.mark.parametrize(
    ("kind", "model"), [("wordpiece", "bert"), ("wordpiece", "electra"), ("bpe", "gpt2"), ("unigram", "t5")]
)
def test_the_file_wins_over_the_class_that_a_config_names(kind: Kind, model: str, tmp_path: Path) -> None:
    trained(kind).backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
    naive = AutoTokenizer.from_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    written = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    backend = json.loads(loaded.backend_tokenizer.to_str())
    assert all(backend[part] == written[part] for part in ("normalizer", "pre_tokenizer", "model"))
    assert len(loaded) == 3000
    if model == "bert":
        assert naive.tokenize("The") != loaded.tokenize("The"), "the trap is gone: simplify load_tokenizer"
        assert loaded.mask_token == "[MASK]" and loaded.pad_token_id == 0


def test_A_19_mask_and_pad_token_missing(tmp_path: Path) -> None:
    word_level(300, eos_token="<|end|>").save_pretrained(tmp_path)
    tokenizer = load_tokenizer(str(tmp_path))
    for need, objective in (("mask_token", "mlm"), ("mask_token", "infill"), ("pad_token", "clm")):
        with pytest.raises(InputError) as caught:
            check_tokenizer(tokenizer, [need], objective)
        message = str(caught.value)
        assert f"it has no {need}, which the objective {objective} needs" in message
        assert str(tmp_path) in message and f"add_special_tokens({{'{need}'" in message
    check_tokenizer(tokenizer, ["eos_token"], "clm")
    check_tokenizer(tokenizer, [], "clm", 300)


def test_A_19_unknown_token_is_no_mask() -> None:
    tokenizer = word_level(300, pad_token="[PAD]")
    tokenizer.mask_token = "[UNK]"
    with pytest.raises(InputError, match=r"its mask_token \[UNK\] is its unknown token too"):
        check_tokenizer(tokenizer, ("mask_token", "pad_token"), "mlm")


def test_A_19_tokenizer_larger_than_the_embedding() -> None:
    tokenizer = word_level(300, pad_token="[PAD]", mask_token="[MASK]")
    check_tokenizer(tokenizer, ("mask_token", "pad_token"), "mlm", 300)
    with pytest.raises(InputError) as caught:
        check_tokenizer(tokenizer, ("mask_token", "pad_token"), "mlm", 298)
    message = str(caught.value)
    for part in ("299", "'w299'", "298 rows", "objective mlm", "resize_token_embeddings", "300 rows"):
        assert part in message


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprint_follows_what_is_done_to_text(kind: Kind, tmp_path: Path) -> None:
    texts = ["some Text über 12 cats, and dogs"] * 5

    def fresh(**options: Any) -> PreTrainedTokenizerFast:
        return train_tokenizer(iter(texts), kind, 300, **options)

    tokenizer = fresh()
    mark = tokenizer_fingerprint(tokenizer)
    assert len(mark) == 16 and int(mark, 16) >= 0
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    assert tokenizer_fingerprint(loaded) == mark

    loaded(["a b", "c"], padding=True, truncation=True, max_length=4)
    loaded.backend_tokenizer.enable_truncation(3)
    loaded.backend_tokenizer.enable_padding()
    assert tokenizer_fingerprint(loaded) == mark

    others = [fresh(lowercase=True), fresh(modes=("[R]",)), fresh(), fresh()]
    others[2].backend_tokenizer.normalizer = normalizers.NFD()
    others[3].mask_token = others[3].unk_token
    others.append(train_tokenizer(iter([*texts, "zebra"]), kind, 300))
    assert len({mark, *map(tokenizer_fingerprint, others)}) == 6
