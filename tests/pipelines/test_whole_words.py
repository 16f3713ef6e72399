"""Whole-word masking from text to labels: tokenizer, passages and mask together, for every kind of tokenizer."""

from __future__ import annotations

import numpy as np
import pytest

from corruption.chain import Chain
from corruption.noise_kinds import Mask
from corruption.ragged import Batch
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.documents import Document
from pipelines.passages import PassageBuilder, PassageSettings
from tests.pipelines.trained import KINDS, trained, trained_json

SEEDS = 300


def flags(kind: str, *documents: Document) -> tuple[list[list[int]], list[list[frozenset[bool]]], np.ndarray]:
    """(word of each token, by row), (by seed and row, for each word whether its tokens were chosen), how often each
    word of the first row was."""
    table, _ = PassageBuilder(trained_json(kind), PassageSettings(64)).build(documents)
    # A coin a word: the exact count passes over a word that is longer than its share of the row.
    chain = Chain((Mask(unit="word", rate=0.4, count="bernoulli"),))
    batch = Batch.from_arrow(table, chain.columns())
    vocabulary = Vocabulary.from_tokenizer(trained(kind))
    words = [(np.cumsum(row) - 1).tolist() for row in table["word_start"].to_pylist()]
    seen, often = [], np.zeros(max(words[0]) + 1)
    for seed in range(SEEDS):
        labels = chain.apply(batch, seed=seed, epoch=0, vocabulary=vocabulary).columns["labels"]
        for row, places in enumerate(words):
            chosen = labels.row(row) != IGNORE
            by_word = [frozenset(chosen[np.array(places) == word].tolist()) for word in range(max(places) + 1)]
            seen.append(by_word)
            if row == 0:
                often += [True in flag for flag in by_word]
    return words, seen, often


@pytest.mark.parametrize("kind", KINDS)
def test_A_04_a_word_is_chosen_whole_or_not_at_all(kind: str) -> None:
    text = "unbelievable antidisestablishmentarianism"
    words, seen, often = flags(kind, Document("d", text))
    assert max(words[0]) + 1 == 2 and len(words[0]) > 4, "two words of several pieces"
    assert all(len(flag) == 1 for row in seen for flag in row)
    assert (often > 0.1 * SEEDS).all(), "both words come up"


@pytest.mark.parametrize("kind", KINDS)
def test_A_21_a_users_words_are_chosen_whole_and_other_rows_change_nothing(kind: str) -> None:
    own = ["我", "喜欢", "弹", "琵琶"]
    other = Document("first", "我喜欢弹琵琶", words=["我", "喜欢弹", "琵琶"])
    row = Document("second", "我喜欢弹琵琶", words=own)
    words, seen, often = flags(kind, row)
    assert max(words[0]) + 1 == len(own)
    assert all(len(flag) == 1 for found in seen for flag in found)
    assert (often > 0.05 * SEEDS).all()
    both_words, both_seen, _ = flags(kind, other, row)
    assert both_words[1] == words[0] and both_seen[1::2] == seen, "without the row before it, it is masked as with it"
