"""Generate without Ray: every row against the chain applied to it alone, and what the manifest says of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.ragged import Batch
from corruption.schema import PASSAGES
from pipelines.data_set import DATA, MANIFEST, PARTS, DataSet, open_data_set, partial_of
from pipelines.generate_folder import MADE
from pipelines.generate_plan import plan_shards
from pipelines.generate_request import bind
from pipelines.generate_task import make_shard
from pipelines.held_out_batches import HeldOutBatches
from pipelines.pretrain import bind as bind_run
from pipelines.recipe import Recipe, load_recipe
from pipelines.store import open_store
from tests.pipelines.generated import (
    Fussy,
    changed,
    contents,
    generate_here,
    made_up_work,
    never,
)
from tests.pipelines.small_run import Heard, prepare_here, small_recipe, write_corpus


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows_of(data: DataSet, split: str) -> list[dict]:
    return [row for shard in data.shards(split) for row in data.read(shard).to_pylist()]


def alone_rows(recipe: Recipe, split: str, epochs: int, copies: int) -> Iterator[dict]:
    """What a split must hold, from each passage corrupted on its own."""
    report = prepare_here(recipe)
    store, chain, frame = report.store, recipe.chain(), recipe.frame()
    work, *_ = bind(recipe, report, Path("x"), {"files": "parquet", "copies": copies, "epochs": epochs}, None)
    part = store.train if split == "train" else store.held_out
    for epoch in range(epochs):
        for shard, number in zip(part.shard, part.number.tolist()):
            table = store.read(shard, [number], PASSAGES.names)
            for copy in range(copies):
                for i in range(len(table)):
                    batch = Batch.from_arrow(table.slice(i, 1), chain.columns(), np.array([copy], np.uint64))
                    seed = recipe.seed if split == "train" else recipe.evaluation.seed
                    after = chain.apply(batch, seed=seed, epoch=epoch, vocabulary=work.vocabulary)
                    framed = frame.apply(after, work.vocabulary)
                    yield {
                        "key": int(batch.keys[0]),
                        "epoch": epoch,
                        "copy": copy,
                        **{name: framed[name].values.tolist() for name in frame.columns},
                    }


def test_every_row_is_its_passage_corrupted_alone(prepared: Recipe, tmp_path: Path) -> None:
    recipe = changed(prepared, "evaluation.seed=5")
    data = generate_here(recipe, tmp_path / "out", copies=2, epochs=2)
    train = rows_of(data, "train")
    assert train == list(alone_rows(recipe, "train", 2, 2))
    assert rows_of(data, "validation") == list(alone_rows(recipe, "validation", 1, 1))
    appearances = Counter((row["key"], row["epoch"], row["copy"]) for row in train)
    assert set(appearances.values()) == {1}
    noise: dict[int, set[tuple]] = {}
    for row in train:
        noise.setdefault(row["key"], set()).add((*row["input_ids"], *row["labels"]))
    longer = [found for key, found in noise.items() if max(map(len, found)) > 40]
    assert longer and all(len(found) == 4 for found in longer), "each epoch and copy has noise of its own"


def test_validation_is_what_evaluation_scores(prepared: Recipe, tmp_path: Path) -> None:
    recipe = changed(prepared, "evaluation.seed=5")
    job, _ = bind_run(recipe, prepare_here(recipe), tmp_path / "run")
    scored = sorted(
        (columns["input_ids"].row(i).tolist(), columns["labels"].row(i).tolist())
        for columns in HeldOutBatches(job).framed()
        for i in range(len(columns["input_ids"]))
    )
    data = generate_here(recipe, tmp_path / "out", copies=3, epochs=2)
    assert sorted((row["input_ids"], row["labels"]) for row in rows_of(data, "validation")) == scored


def test_training_rows_are_what_the_stream_feeds(prepared: Recipe, tmp_path: Path) -> None:
    from pipelines.plan import Address
    from pipelines.window import read_window

    job, _ = bind_run(prepared, prepare_here(prepared), tmp_path / "run")
    plan = job.plan()
    feed = job.feed(plan)
    fed = {}
    for row in plan.table(Address(1, 0, 0), 1).to_pylist():
        for microbatch in read_window(row, feed).to_pylist():
            edges = np.cumsum([0, *microbatch["lengths"]])
            for key, a, b in zip(microbatch["keys"], edges, edges[1:]):
                fed[key] = (microbatch["column_input_ids"][a:b], microbatch["column_labels"][a:b])
    data = generate_here(prepared, tmp_path / "out", epochs=2)
    second = {row["key"]: (row["input_ids"], row["labels"]) for row in rows_of(data, "train") if row["epoch"] == 1}
    assert second == fed


def test_the_manifest_adds_up_and_holds_nothing_of_this_machine(prepared: Recipe, tmp_path: Path) -> None:
    data = generate_here(prepared, tmp_path / "out", copies=2)
    manifest = data.manifest
    assert sorted(path.name for path in data.folder.iterdir()) == sorted(PARTS)
    assert {path.name for path in (data.folder / DATA).iterdir()} == {shard["name"] for shard in data.shards()}
    for split in ("train", "validation"):
        own = data.shards(split)
        for name in ("rows", "tokens"):
            assert manifest[name][split] == sum(shard[name] for shard in own)
            assert manifest["realised"][split][name] == manifest[name][split]
        total: Counter[str] = Counter()
        for shard in own:
            total.update(shard["realised"])
        assert manifest["realised"][split] == dict(total)
        assert manifest["dropped"][split] == {}
    store = open_store(Path(prepared.corpus.store))  # type: ignore[arg-type]
    assert manifest["rows"] == {"train": 2 * store.train.rows, "validation": store.held_out.rows}
    assert manifest["tokens"] == {"train": 2 * store.train.tokens, "validation": store.held_out.tokens}
    assert manifest["store"] == store.identity and manifest["tokenizer"] == store.manifest["tokenizer"]
    text = (data.folder / MANIFEST).read_text() + (data.folder / "README.md").read_text()
    assert str(tmp_path) not in text and not re.search(r'"/|/tmp/|/home/', text)
    assert not re.search(r"20\d\d-\d\d|\d\d:\d\d:\d\d", text)
    assert "model" not in manifest["recipe"] and "tracking" not in manifest["recipe"]


def test_counts_are_those_of_the_rows(prepared: Recipe, tmp_path: Path) -> None:
    data = generate_here(prepared, tmp_path / "out")
    rows = rows_of(data, "train")
    found = data.manifest["realised"]["train"]
    labels = [label for row in rows for label in row["labels"]]
    assert found["labelled"] == sum(label != -100 for label in labels) > 100
    assert found["input_tokens"] == sum(len(row["input_ids"]) - 2 for row in rows)


def test_the_same_request_makes_the_same_bytes_and_finds_them_again(prepared: Recipe, tmp_path: Path) -> None:
    first, again = Heard(), Heard()
    one = generate_here(prepared, tmp_path / "one", heard=first)
    two = generate_here(prepared, tmp_path / "two" / "deeper")
    assert contents(one.folder) == contents(two.folder)
    found = generate_here(prepared, tmp_path / "one", heard=again, run=never)
    assert found.manifest == one.manifest
    assert "the data set one is there already: " in again.out
    assert re.search(r"generating \d+ shards into one\n", first.out) and "generate  done in" in first.out
    assert re.search(r"labelled [\d,]+ of [\d,]+ tokens that may be chosen, rate 0\.1[45]\d\d", first.out)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "stores") == [
        *(path.name for path in sorted(tmp_path.glob(".*.lock"))),
        "one",
        "two",
    ]


def test_the_size_of_a_shard_changes_which_file_a_row_is_in_and_nothing_else(prepared: Recipe, tmp_path: Path) -> None:
    small = generate_here(prepared, tmp_path / "small", epochs=2)
    large = generate_here(prepared, tmp_path / "large", epochs=2, tokens=None)
    assert len(small.shards()) > 2 * len(large.shards())
    for split in ("train", "validation"):
        assert rows_of(small, split) == rows_of(large, split)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (["seed=4"], {}),
        (["evaluation.seed=4"], {}),
        (["corruption.mask.rate=0.3"], {}),
        (["corruption.mask.name=other"], {}),
        ([], {"copies": 2}),
        ([], {"epochs": 2}),
        ([], {"files": "jsonl"}),
        ([], {"tokens": 2048}),
    ],
    ids=str,
)
def test_what_changes_the_data_changes_the_identity_and_is_refused(
    prepared: Recipe, tmp_path: Path, settings: list[str], options: dict
) -> None:
    one = generate_here(prepared, tmp_path / "out")
    other = changed(prepared, *settings)
    with pytest.raises(InputError, match=r"holds another finished data set .*; use another --out, or replace it"):
        generate_here(other, tmp_path / "out", run=never, **options)
    assert open_data_set(tmp_path / "out").identity == one.identity
    replaced = generate_here(other, tmp_path / "out", overwrite=True, **options)
    assert replaced.identity != one.identity
    assert contents(replaced.folder) == contents(generate_here(other, tmp_path / "new", **options).folder)


def test_what_does_not_change_the_data_is_the_same_request(prepared: Recipe, tmp_path: Path) -> None:
    one = generate_here(prepared, tmp_path / "out")
    other = changed(prepared, "train.steps=9", "model.width=64", "cluster.corruptors=1", "tracking.experiment=x")
    assert generate_here(other, tmp_path / "out", run=never).identity == one.identity
    assert contents(generate_here(other, tmp_path / "new").folder) == contents(one.folder)


def test_a_recipe_that_only_makes_data_is_enough(tmp_path: Path) -> None:
    whole = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    lines = (tmp_path / "small.yaml").read_text().splitlines()
    (tmp_path / "data.yaml").write_text("\n".join(x for x in lines if not x.startswith(("model", "train", "tracking"))))
    data = generate_here(load_recipe(tmp_path / "data.yaml"), tmp_path / "a")
    assert data.identity == generate_here(whole, tmp_path / "b").identity


def test_recipe_yaml_makes_it_again(tmp_path: Path) -> None:
    settings = ["corpus.text=body", 'corpus.name="1e5"']
    lines = [json.dumps({"body": f"The {i}th line of a text about moths. It says little."}) for i in range(300)]
    (tmp_path / "a b").mkdir()
    write_corpus(tmp_path / "a b" / "corpus.jsonl", lines)
    recipe = small_recipe(tmp_path, tmp_path / "a b" / "corpus.jsonl", settings, more="")
    one = generate_here(recipe, tmp_path / "one", epochs=2)
    written = load_recipe(one.folder / "recipe.yaml")
    for name in ("seed", "corpus", "tokenizer", "corruption", "objective", "evaluation"):
        assert written.plain()[name] == recipe.plain()[name]
    two = generate_here(written, tmp_path / "two", epochs=2)
    assert two.identity == one.identity
    for name in (DATA, "tokenizer"):
        assert contents(one.folder / name) == contents(two.folder / name)


def test_texts(prepared: Recipe, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    texts = generate_here(prepared, tmp_path / "texts", files="jsonl", epochs=2)
    ids = generate_here(prepared, tmp_path / "ids", epochs=2)
    tokenizer = Tokenizer.from_file(str(texts.tokenizer / "tokenizer.json"))
    for split in ("train", "validation"):
        pairs = list(zip(rows_of(texts, split), rows_of(ids, split), strict=True))
        for text, row in pairs:
            assert list(text) == ["key", "epoch", "copy", "corrupted", "original"]
            assert [text[name] for name in ("key", "epoch", "copy")] == [row[name] for name in ("key", "epoch", "copy")]
            inner, labels = row["input_ids"][1:-1], row["labels"][1:-1]
            assert text["corrupted"] == tokenizer.decode(inner, skip_special_tokens=False)
            original = [token if label == -100 else label for token, label in zip(inner, labels)]
            assert text["original"] == tokenizer.decode(original, skip_special_tokens=False)
        assert any("[MASK]" in text["corrupted"] for text, _ in pairs)
    first = texts.path(texts.shards()[0]).read_text("utf-8").splitlines()[0]
    assert isinstance(json.loads(first)["key"], str), "a reader that takes numbers for doubles would round it"


def test_unusable_rows_are_left_out_and_counted_by_reason(tmp_path: Path) -> None:
    work = made_up_work(tmp_path, Chain((Fussy(20),)), copies=2)
    store = open_store(Path(work.store))
    pieces = plan_shards(store, copies=2, epochs=1, tokens=900, files="parquet")
    records = [make_shard(piece, work) for piece in pieces]
    for split, part, copies in (("train", store.train, 2), ("validation", store.held_out, 1)):
        own = [record for record in records if record["split"] == split]
        short = int(part.histogram[:, :20].sum())
        assert sum(record["dropped"].get("too_short", 0) for record in own) == short * copies > 0
        assert sum(record["rows"] for record in own) == (part.rows - short) * copies
        assert all(record["rows"] == record["realised"]["rows"] for record in own)
    import pyarrow.parquet as pq

    table = pq.read_table([tmp_path / ".x.partial" / MADE / DATA / piece.name for piece in pieces])
    assert min(len(row) for row in table["input_ids"].to_pylist()) == 22


def test_a_shard_without_a_usable_row_is_a_file_without_rows(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    work = made_up_work(tmp_path, Chain((Fussy(10_000),)))
    piece = plan_shards(open_store(Path(work.store)), copies=1, epochs=1, tokens=900, files="parquet")[0]
    record = make_shard(piece, work)
    assert record["rows"] == 0 and record["dropped"]["too_short"] > 0
    assert pq.read_table(tmp_path / ".x.partial" / MADE / DATA / piece.name).num_rows == 0


def test_nothing_usable_at_all_is_one_line_and_leaves_nothing(prepared: Recipe, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Recipe, "chain", lambda _: Chain((Fussy(10_000),)))
    with pytest.raises(InputError, match=r"^corpus: this corruption can use none of its passages \(\d+ too_short"):
        generate_here(prepared, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not partial_of(tmp_path / "out").exists()


@dataclass(frozen=True)
class Foreigner(Fussy):
    """Puts the foreign passage's first token at the front of each row."""

    kind: ClassVar[str] = "foreigner"

    def needs(self):
        return ("tokens", "foreign_tokens")

    def apply(self, batch, noise, vocabulary):
        foreign = batch.columns["foreign_tokens"]
        values = batch.tokens.values.copy()
        values[batch.tokens.offsets[:-1]] = foreign.values[foreign.offsets[:-1]]
        return batch.put(tokens=batch.tokens.with_values(values), labels=batch.tokens)


def test_a_foreign_passage_is_drawn_anew_for_each_epoch_and_copy(tmp_path: Path) -> None:
    from pipelines.foreign import attach

    work = made_up_work(tmp_path, Chain((Foreigner(0),)), copies=2)
    store = open_store(Path(work.store))
    for piece in plan_shards(store, copies=2, epochs=2, tokens=10**9, files="parquet"):
        make_shard(piece, work)
        import pyarrow.parquet as pq

        rows = pq.read_table(tmp_path / ".x.partial" / MADE / DATA / piece.name).to_pylist()
        part, seed = (store.train, 3) if piece.split == "train" else (store.held_out, 5)
        expected = []
        for group in range(piece.first, piece.end):
            table = store.read(part.shard[group], [int(part.number[group])], PASSAGES.names)
            for copy in range(2 if piece.split == "train" else 1):
                beside = attach(store, part, group, table, seed=seed, epoch=piece.epoch, copy=copy)
                expected += [row[0] for row in beside["foreign_tokens"].to_pylist()]
        assert [row["input_ids"][1] for row in rows] == expected


def test_weights_of_sources_do_not_count_and_that_is_said(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"), ["corpus.weight=2.5"])
    heard = Heard()
    data = generate_here(recipe, tmp_path / "out", heard=heard)
    assert "weights of the sources do not count here" in heard.err
    assert data.manifest["rows"]["train"] == open_store(next((tmp_path / "stores").iterdir())).train.rows
