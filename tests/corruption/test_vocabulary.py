"""What a vocabulary takes from a tokenizer: roles, fixed ids, and the pool of ids that may be drawn."""

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models
from transformers import PreTrainedTokenizerFast

from corruption.errors import InputError
from corruption.vocabulary import Vocabulary

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[unused0]",
    "<0x0A>",
    "<extra_id_1>",
    "<extra_id_0>",
    "one",
    "two",
]


def tokenizer(words=WORDS, **special):
    """A word-level tokenizer of these words."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    special = special or {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


def test_roles_pool_rank_and_fixed():
    found = Vocabulary.from_tokenizer(tokenizer())
    assert (found.pad, found.unk, found.cls, found.sep, found.mask) == (0, 1, 2, 3, 4)
    assert found.bos is None and found.eos is None
    assert found.size == 11 and found.sentinels == (8, 7)
    assert found.pool.tolist() == [9, 10] and found.pool.dtype == np.int32
    assert np.flatnonzero(found.fixed).tolist() == [0, 1, 2, 3, 4, 7, 8] and found.fixed.dtype == np.uint8
    assert found.rank.tolist() == [-1] * 9 + [0, 1]


def test_A_06_added_and_reserved_tokens_are_not_drawn_unless_declared_ordinary():
    made = tokenizer()
    made.add_tokens(["dosage", AddedToken("<extra>", special=True)])
    found = Vocabulary.from_tokenizer(made)
    assert found.pool.tolist() == [9, 10] and found.size == 13
    assert found.fixed[11] == 0 and found.fixed[12] == 1
    declared = Vocabulary.from_tokenizer(made, ordinary=["dosage"])
    assert declared.pool.tolist() == [9, 10, 11]
    assert declared.fingerprint != found.fingerprint


def test_A_19_a_role_the_tokenizer_lacks_is_named_with_who_needs_it():
    found = Vocabulary.from_tokenizer(tokenizer(["one", "two", "<|endoftext|>"], eos_token="<|endoftext|>"))
    assert found.mask is None and found.eos == 2
    with pytest.raises(InputError) as raised:
        found.need("mask", "the objective 'mlm'")
    said = str(raised.value)
    assert "it has no mask_token, which the objective 'mlm' needs" in said and "add_special_tokens" in said
    assert "\n" not in said and found.need("eos", "anything") == 2


def test_the_fingerprint_follows_the_words_and_not_the_name():
    first = Vocabulary.from_tokenizer(tokenizer())
    assert first.fingerprint == Vocabulary.from_tokenizer(tokenizer()).fingerprint
    assert len(first.fingerprint) == 16
    renamed = tokenizer()
    renamed.name_or_path = "elsewhere"
    assert Vocabulary.from_tokenizer(renamed).fingerprint == first.fingerprint
    swapped = tokenizer([*WORDS[:-2], "two", "one"])
    assert Vocabulary.from_tokenizer(swapped).fingerprint != first.fingerprint


def test_a_vocabulary_of_specials_only_is_refused():
    with pytest.raises(InputError, match="no ordinary token"):
        Vocabulary.from_ids(3, ids={"pad": 0}, special={0, 1, 2}, name="lost")


def test_bare_ids_may_come_from_any_iterable_once():
    found = Vocabulary.from_ids(8, ids={"pad": 0}, special=iter([0, 1]), ordinary=iter([7, 3]))
    assert found.pool.tolist() == [3, 7] and found.fixed.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_A_20_a_vocabulary_of_250_000():
    found = Vocabulary.from_ids(250_000, ids={"pad": 0}, special={0})
    assert found.pool[-1] == 249_999 and found.rank[249_999] == 249_998 and found.pool.dtype == np.int32
