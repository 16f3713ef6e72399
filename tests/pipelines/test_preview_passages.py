"""Which passages a preview shows, and with what they are paired."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Mask, SentencePair
from corruption.schema import FOREIGN, PASSAGES
from pipelines.documents import Document
from pipelines.foreign import attach, attach_among
from pipelines.preview_passages import (
    LONGEST,
    _shortened,
    first_passages,
    passages_of,
    stored_passages,
    titled,
)
from pipelines.recipe import load_recipe
from pipelines.store import open_store
from tests.pipelines.small_tokenizers import wordpiece
from tests.pipelines.synthetic import passages, write_store

PAIRS = Chain((SentencePair(),))


def test_first_passages_of_every_document_come_first():
    table = pa.table({"doc": pa.array([5, 5, 5, 2, 9, 9], pa.uint64()), "n": range(6)})
    assert first_passages(table, 3)["n"].to_pylist() == [0, 3, 4]
    assert first_passages(table, 4)["n"].to_pylist() == [0, 1, 3, 4]
    assert first_passages(table, 99)["n"].to_pylist() == list(range(6))
    assert first_passages(PASSAGES.empty_table(), 3).num_rows == 0


def test_long_documents_are_looked_at_from_the_front():
    long = Document("k", "x" * (LONGEST + 5), links=[(0, 3, "A"), (LONGEST - 1, LONGEST + 1, "B")], words=["x"])
    short = _shortened(long)
    assert len(short.text) == LONGEST and short.links == [(0, 3, "A")]
    assert short.words is None and short.key == "k" and len(long.text) == LONGEST + 5


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return open_store(write_store(tmp_path_factory.mktemp("store"), shards=2, rows=40))


def test_a_store_shows_its_first_passages(store):
    whole = pa.concat_tables(
        store.read(shard, [number], PASSAGES.names)
        for shard, number in zip(store.train.shard, store.train.number.tolist())
    )
    for count in (1, 3, 79, 500):
        assert stored_passages(store, count, Chain((Mask(),)), 0, 0) == whole.slice(0, count)


def test_pairs_of_a_store_are_those_of_training(store):
    found = stored_passages(store, 70, PAIRS, seed=5, epoch=2)
    wanted = []
    for group, (shard, number) in enumerate(zip(store.train.shard, store.train.number.tolist())):
        table = store.read(shard, [number], PASSAGES.names)
        wanted.append(attach(store, store.train, group, table, seed=5, epoch=2, copy=0))
    wanted = pa.concat_tables(wanted).slice(0, 70)
    for name in ("key", *FOREIGN):
        assert found[name].to_pylist() == wanted[name].to_pylist()


def test_pairs_of_passages_in_no_store_are_drawn_as_in_a_row_group():
    table = passages(30, 9, seed=1, prefix="p").set_column(
        1, "doc", pa.array(np.arange(30) // 3, pa.uint64())
    )
    found = attach_among(table, seed=5, epoch=2)
    tokens, docs = table["tokens"].to_pylist(), table["doc"].to_pylist()
    for doc, foreign in zip(docs, found["foreign_tokens"].to_pylist()):
        assert foreign in [own for own, other in zip(tokens, docs) if other != doc]
    assert attach_among(table, seed=5, epoch=2) == found != attach_among(table, seed=5, epoch=3)
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(30)))
    assert len(attach_among(shuffled, seed=5, epoch=2)) == 30
    assert attach_among(table.slice(0, 3), seed=5, epoch=2) is None


RECIPE = """\
seed: 3
corpus: {source: %s, documents: line, max_tokens: 32}
tokenizer: {path: tokenizer}
corruption: [{kind: sentence_pair}, {kind: mask}]
objective: {kind: bert}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["the cat sat on the mat . the dog ran .", "the dog ran far . un known dogs sat .", "the mats . the cats ."]
    (tmp_path / "input.txt").write_text("\n".join(lines) + "\n", "utf-8")
    wordpiece().save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "pairs.yaml").write_text(RECIPE % json.dumps("input.txt"), "utf-8")
    return load_recipe("pairs.yaml")


def test_more_documents_are_looked_at_where_passages_are_paired(recipe):
    found = passages_of(recipe, wordpiece(), None, rows=1, epoch=0)
    assert len(found.before) == 1 and found.titles == ("document input.txt:0",)
    assert found.notes == (
        "passages are paired with others of the documents looked at here; a run pairs them within its store",
    )
    assert set(FOREIGN) <= set(found.before.columns) and "next_sentence_label" in found.after.columns


def test_one_text_is_no_pair(recipe, tmp_path):
    with pytest.raises(InputError) as error:
        passages_of(recipe, wordpiece(), "the cat . the dog .", rows=1, epoch=0)
    assert str(error.value) == (
        "--text: it is one document, and this chain pairs passages of two; leave it out to see the recipe's corpus"
    )
    (tmp_path / "input.txt").write_text("the cat sat . the dog ran .\n", "utf-8")
    with pytest.raises(InputError, match="preview: its passages are of one document, and this chain pairs two"):
        passages_of(recipe, wordpiece(), None, rows=3, epoch=0)


def test_documents_without_a_known_name_go_by_the_hash_of_their_key():
    table = pa.table({"doc": pa.array([7, 2**63 + 1], pa.uint64())})
    assert titled(table, {7: "Seven"}) == ["document Seven", f"document {2**63 + 1}"]


def test_a_title_cannot_command_the_terminal(recipe, tmp_path):
    rows = [{"text": "the cat sat . the dog .", "title": f"a\x1b[31m\u202e{i}"} for i in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = "corpus={source: rows.jsonl, text: text, title: title, max_tokens: 32}"
    found = passages_of(load_recipe("pairs.yaml", [spec]), wordpiece(), None, rows=1, epoch=0)
    assert found.titles == ("document a [31m 0",)
