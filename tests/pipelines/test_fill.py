"""Filled-in masks: honest ones, chosen by the seed from held-out text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.fill import Filled, _chosen, fill_masks
from pipelines.job import Job
from pipelines.tokenizers import load_tokenizer
from tests.pipelines.small_run import finish, small_job, small_recipe, write_corpus


def test_three_words_are_hidden_and_answered(small: Job) -> None:
    filled = fill_masks(small)
    assert len(filled) == 3 and filled == fill_masks(small), "nothing is random but the seed"
    for one in filled:
        assert one.text.count("[MASK]") == 1 and one.word.isalpha() and len(one.word) >= 4
        assert len(one.answers) == 3
        chances = [p for _, p in one.answers]
        assert chances == sorted(chances, reverse=True) and 0 < sum(chances) < 1
        assert all(word and word == word.strip() for word, _ in one.answers)
    assert len({one.text for one in filled}) == 3


def test_words_come_from_held_out_passages_and_are_whole(small: Job) -> None:
    tokenizer = load_tokenizer(f"{small.store}/tokenizer")
    store = small.opened_store()
    held_out = {
        tuple(row)
        for shard, number in zip(store.held_out.shard, store.held_out.number.tolist())
        for row in store.read(shard, [number], ["tokens"])["tokens"].to_pylist()
    }
    chosen = _chosen(small, tokenizer, 1000)
    assert 5 < len(chosen) <= len(held_out)
    for tokens, starts, place in chosen:
        assert tuple(tokens.tolist()) in held_out
        assert starts[place] and (place + 1 == len(tokens) or starts[place + 1]), "one token is one word"
    counts: dict[int, int] = {}
    for row in held_out:
        for token in row:
            counts[token] = counts.get(token, 0) + 1
    often = max(counts, key=counts.__getitem__)
    assert all(int(tokens[place]) != often for tokens, _, place in chosen)


def test_another_seed_hides_other_words(small: Job) -> None:
    other = replace(small, recipe=small.recipe.model_copy(update={"seed": 4}))
    assert {one.text for one in fill_masks(other)} != {one.text for one in fill_masks(small)}


def test_a_text_without_such_a_word_gives_none(small: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.fill._SHORTEST_WORD", 1000)
    assert fill_masks(small) == []


def test_a_model_with_a_byte_level_vocabulary_fills_in_too(tmp_path) -> None:
    job = small_job(tmp_path, small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"), kind="roberta"))
    finish(job)
    (one,) = fill_masks(job, how_many=1, best=2)
    assert isinstance(one, Filled) and one.text.count("<mask>") == 1 and len(one.answers) == 2
    assert "Ġ" not in one.text + one.word + "".join(word for word, _ in one.answers)
