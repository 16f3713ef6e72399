"""Generate without Ray: every row against the chain applied to it alone, its folder, what it refuses, every crash."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames import Single
from corruption.noise_kinds import Mask
from corruption.ragged import Batch
from corruption.realised import realised
from corruption.schema import PASSAGES
from pipelines import generate as generate_module
from pipelines import generate_folder, generate_task
from pipelines.console import Console
from pipelines.data_set import DATA, MANIFEST, PARTS, DataSet, open_data_set, partial_of
from pipelines.generate import follow
from pipelines.generate_folder import MADE, RECORDS, REQUEST
from pipelines.generate_plan import plan_shards
from pipelines.generate_request import bind
from pipelines.generate_task import Work, attempt, make_shard
from pipelines.held_out_batches import HeldOutBatches
from pipelines.out_folder import alone
from pipelines.outcome import JobFailed
from pipelines.pretrain import bind as bind_run
from pipelines.recipe import Recipe, load_recipe
from pipelines.store import open_store
from tests.pipelines.generated import contents, generate_here, make_here
from tests.pipelines.small_run import Heard, prepare_here, small_recipe, write_corpus
from tests.pipelines.synthetic import VOCABULARY, write_store


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A small recipe whose store is named in it, so that nothing is prepared again."""
    folder = tmp_path_factory.mktemp("prepared")
    recipe = small_recipe(folder, write_corpus(folder / "corpus.txt"))
    store = prepare_here(recipe, folder / "store").store.folder
    text = (folder / "small.yaml").read_text().splitlines()
    text[2] = f'corpus:     {{store: "{store}", max_tokens: 48, held_out: 0.2, row_group_tokens: 2048}}'
    (folder / "stored.yaml").write_text("\n".join(line for line in text if not line.startswith("tokenizer:")))
    return load_recipe(folder / "stored.yaml")


def changed(recipe: Recipe, *settings: str) -> Recipe:
    return load_recipe(Path(recipe.corpus.store).parent / "stored.yaml", settings)  # type: ignore[arg-type]


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
    found = generate_here(prepared, tmp_path / "one", heard=again, run=_never)
    assert found.manifest == one.manifest
    assert "the data set one is there already: " in again.out
    assert re.search(r"generating \d+ shards into one\n", first.out) and "generate  done in" in first.out
    assert re.search(r"labelled [\d,]+ of [\d,]+ tokens that may be chosen, rate 0\.1[45]\d\d", first.out)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "stores") == [
        *(path.name for path in sorted(tmp_path.glob(".*.lock"))),
        "one",
        "two",
    ]


def _never(*_: object) -> None:
    raise AssertionError("nothing is to be made")


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
        generate_here(other, tmp_path / "out", run=_never, **options)
    assert open_data_set(tmp_path / "out").identity == one.identity
    replaced = generate_here(other, tmp_path / "out", overwrite=True, **options)
    assert replaced.identity != one.identity
    assert contents(replaced.folder) == contents(generate_here(other, tmp_path / "new", **options).folder)


def test_what_does_not_change_the_data_is_the_same_request(prepared: Recipe, tmp_path: Path) -> None:
    one = generate_here(prepared, tmp_path / "out")
    other = changed(prepared, "train.steps=9", "model.width=64", "cluster.corruptors=1", "tracking.experiment=x")
    assert generate_here(other, tmp_path / "out", run=_never).identity == one.identity
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


@dataclass(frozen=True)
class Fussy:
    """A mask that cannot use passages of fewer than `least` tokens."""

    least: int
    kind: ClassVar[str] = "fussy"
    provides: ClassVar[tuple[str, ...]] = ("labels",)
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    def needs(self):
        return ("tokens",)

    def bounds(self, length):
        return {"tokens": length}

    def check(self, vocabulary, longest=None):
        pass

    def apply(self, batch, noise, vocabulary):
        return Mask().apply(batch, noise, vocabulary).mark(batch.tokens.lengths < self.least, "too_short")


def made_up_work(folder: Path, chain: Chain, **changes) -> Work:
    store = write_store(folder / "store")
    work = Work("id", str(store), str(folder / ".x.partial"), 3, 5, 1, chain, Single(), VOCABULARY)
    return replace(work, **changes)


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
    names = ["key", "doc", "tokens", "sentence_start"]
    for piece in plan_shards(store, copies=2, epochs=2, tokens=10**9, files="parquet"):
        make_shard(piece, work)
        import pyarrow.parquet as pq

        rows = pq.read_table(tmp_path / ".x.partial" / MADE / DATA / piece.name).to_pylist()
        part, seed = (store.train, 3) if piece.split == "train" else (store.held_out, 5)
        expected = []
        for group in range(piece.first, piece.end):
            table = store.read(part.shard[group], [int(part.number[group])], names)
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


# What lies in the folder already


def test_foreign_folders_and_files_are_never_touched(prepared: Recipe, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    (tmp_path / "file").write_text("text")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"^--out mine: the folder holds no data set of ours; give"):
            generate_here(prepared, tmp_path / "mine", overwrite=overwrite, run=_never)
        with pytest.raises(InputError, match="it is a file"):
            generate_here(prepared, tmp_path / "file", overwrite=overwrite, run=_never)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_what_was_put_beside_a_data_set_is_not_taken_away_with_it(prepared: Recipe, tmp_path: Path) -> None:
    made = generate_here(prepared, tmp_path / "out")
    (made.folder / ".git").mkdir()
    with pytest.raises(InputError, match=r"holds \.git, which is no part of a data set; take it out"):
        generate_here(prepared, tmp_path / "out", copies=2, overwrite=True, run=_never)
    assert (made.folder / ".git").exists()


def test_an_empty_folder_and_a_link_to_one_are_filled(prepared: Recipe, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    generate_here(prepared, tmp_path / "link")
    for _ in range(2):
        assert (tmp_path / "link").is_symlink() and (tmp_path / "disk" / MANIFEST).exists()
        generate_here(prepared, tmp_path / "link", copies=2, overwrite=True)


def test_another_command_in_the_folder_is_refused(prepared: Recipe, tmp_path: Path) -> None:
    with alone(tmp_path / "out"), pytest.raises(InputError, match="another command works in it; wait for it"):
        generate_here(prepared, tmp_path / "out", run=_never)


def test_a_damaged_one_is_refused_and_made_again_with_overwrite(prepared: Recipe, tmp_path: Path) -> None:
    made = generate_here(prepared, tmp_path / "out")
    whole = contents(made.folder)
    path = made.path(made.shards()[1])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"the manifest says \d+; generate it again with --overwrite"):
        generate_here(prepared, tmp_path / "out", run=_never)
    generate_here(prepared, tmp_path / "out", overwrite=True)
    assert contents(made.folder) == whole
    data = path.read_bytes()
    path.write_bytes(data[:50] + b"x" + data[51:])
    generate_here(prepared, tmp_path / "out", overwrite=True)
    assert contents(made.folder) == whole
    (made.folder / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="its manifest is damaged"):
        generate_here(prepared, tmp_path / "out", run=_never)
    generate_here(prepared, tmp_path / "out", overwrite=True)
    assert contents(made.folder) == whole
    generate_here(prepared, tmp_path / "out", overwrite=True, run=_never)


def half(pieces, work, folder, total, workers, console) -> None:
    """The job, killed after half of its shards."""
    make_here(pieces[: len(pieces) // 2], work, folder, total - len(pieces) + len(pieces) // 2, workers, console)
    raise KeyboardInterrupt


def test_an_interrupted_one_is_gone_on_with(prepared: Recipe, tmp_path: Path) -> None:
    whole = contents(generate_here(prepared, tmp_path / "whole", epochs=2).folder)
    with pytest.raises(KeyboardInterrupt):
        generate_here(prepared, tmp_path / "cut", epochs=2, run=half)
    assert not (tmp_path / "cut").exists()
    with pytest.raises(InputError, match="it is not finished; run the same papermoth generate again"):
        open_data_set(tmp_path / "cut")
    made: list[str] = []

    def rest(pieces, *others) -> None:
        made.extend(piece.name for piece in pieces)
        make_here(pieces, *others)

    heard = Heard()
    finished = generate_here(prepared, tmp_path / "cut", epochs=2, heard=heard, run=rest)
    assert contents(finished.folder) == whole
    assert len(made) == len(finished.shards()) - len(finished.shards()) // 2
    assert f"{len(finished.shards()) // 2} of them made before" in heard.out
    assert not partial_of(tmp_path / "cut").exists()


def test_only_shards_that_are_whole_count_as_made(prepared: Recipe, tmp_path: Path) -> None:
    whole = contents(generate_here(prepared, tmp_path / "whole", epochs=4).folder)
    with pytest.raises(KeyboardInterrupt):
        generate_here(prepared, tmp_path / "cut", epochs=4, run=half)
    partial = partial_of(tmp_path / "cut")
    records = sorted((partial / RECORDS).iterdir())
    shards = [partial / MADE / DATA / record.name.removesuffix(".json") for record in records]
    assert len(shards) > 5
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:-1])
    data = shards[2].read_bytes()
    shards[2].write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    records[3].write_text("{")
    records[4].write_text(records[4].read_text().replace('"request": "', '"request": "0'))
    (partial / MADE / DATA / ".train-00000.parquet.77.tmp").write_bytes(b"left over")
    (partial / MADE / ".manifest.json.77.tmp").write_bytes(b"left over")
    made: list[str] = []

    def rest(pieces, *others) -> None:
        made.extend(piece.name for piece in pieces)
        make_here(pieces, *others)

    assert contents(generate_here(prepared, tmp_path / "cut", epochs=4, run=rest).folder) == whole
    assert {shard.name for shard in shards[:5]} <= set(made) and not {shard.name for shard in shards[5:]} & set(made)


def test_another_unfinished_one_is_refused_and_discarded_with_overwrite(prepared: Recipe, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        generate_here(prepared, tmp_path / "out", run=half)
    begun = contents(partial_of(tmp_path / "out"))
    with pytest.raises(InputError, match=r"another, unfinished data set lies in \.out\.partial beside it; finish it"):
        generate_here(prepared, tmp_path / "out", copies=2, run=_never)
    assert contents(partial_of(tmp_path / "out")) == begun
    made = generate_here(prepared, tmp_path / "out", copies=2, overwrite=True)
    assert contents(made.folder) == contents(generate_here(prepared, tmp_path / "new", copies=2).folder)
    assert not partial_of(tmp_path / "out").exists()


def test_a_partial_folder_that_is_not_ours_is_refused(prepared: Recipe, tmp_path: Path) -> None:
    partial_of(tmp_path / "out").mkdir()
    (partial_of(tmp_path / "out") / f".{REQUEST}.5.tmp").touch()  # what a kill in the first moment leaves
    generate_here(prepared, tmp_path / "out")
    partial_of(tmp_path / "other").mkdir()
    (partial_of(tmp_path / "other") / "letter.txt").write_text("dear reader")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"\.other\.partial beside it is not ours; use another --out"):
            generate_here(prepared, tmp_path / "other", overwrite=overwrite, run=_never)


class Crash(BaseException):
    """The end of the process, as far as the code under test can tell."""


CALLS = (("os", "rename"), ("os", "replace"), ("os", "fsync"), ("shutil", "rmtree"), ("shutil", "copytree"))


class Crashing:
    """Raises Crash before the nth call that changes names, whichever it is; a second crash follows at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.count, self.at = 0, at
        for module, name in CALLS:
            real = getattr({"os": os, "shutil": shutil}[module], name)
            monkeypatch.setattr(f"{module}.{name}", self._wrapped(real))

    def _wrapped(self, real):
        def call(*args, **kwargs):
            self.count += 1
            if self.count >= self.at:
                raise Crash
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("replacing", [False, True], ids=["new", "overwrite"])
def test_a_crash_at_any_point_leaves_the_old_or_the_new_and_a_rerun_ends_the_same(
    prepared: Recipe, tmp_path: Path, replacing: bool
) -> None:
    options = {"overwrite": replacing, "tokens": 20_000}
    whole = contents(generate_here(prepared, tmp_path / "whole", **options).folder)
    old = contents(generate_here(changed(prepared, "seed=9"), tmp_path / "old", tokens=20_000).folder)
    out, at, states = tmp_path / "out", 0, Counter[str]()
    while True:
        at += 1
        if replacing and not out.exists():
            shutil.copytree(tmp_path / "old", out)
        with pytest.MonkeyPatch.context() as patch:
            crashing = Crashing(patch, at)
            try:
                generate_here(prepared, out, **options)
                ended = True
            except Crash:
                ended = False
        if crashing.count < at:
            break
        # rmtree may end quietly where it ignores errors, but a crash is none
        found = contents(out) if out.exists() else None
        assert found in (None, old, whole)
        states["nothing" if found is None else "old" if found == old else "new"] += 1
        for folder in (partial_of(out), partial_of(out) / MADE):
            with pytest.raises(InputError):
                if (folder / MANIFEST).exists():
                    raise InputError("made", "everything is in it, and only the name is missing", "")
                open_data_set(folder)
        assert contents(generate_here(prepared, out, **options).folder) == whole, f"after call {at}"
        leftover = [
            path.name for path in tmp_path.iterdir() if path.name.startswith(".out") and "lock" not in path.name
        ]
        assert leftover == [], f"after call {at}"
        shutil.rmtree(out)
    assert ended and contents(out) == whole
    assert states["new"] and states["nothing" if not replacing else "old"]
    assert at > 20


# What the machine refuses


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (
            errno.ENOSPC,
            JobFailed,
            r"the disk is full \(No space left on device\); 2 of \d+ shards are finished and kept",
        ),
        (errno.EDQUOT, JobFailed, "the disk is full"),
        (errno.EIO, JobFailed, r"writing failed \(Input/output error\); 2 of \d+ shards are finished and kept; mend"),
        (errno.EROFS, InputError, r"it cannot be written to \(Read-only file system\); 2 of \d+ shards are finished"),
        (errno.EACCES, InputError, r"it cannot be written to \(Permission denied\)"),
        (errno.EPERM, InputError, r"it cannot be written to \(Operation not permitted\)"),
    ],
    ids=lambda value: errno.errorcode.get(value) if isinstance(value, int) else "",
)
def test_a_write_that_fails_in_a_task_is_one_line_and_a_rerun_goes_on(
    prepared: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type, said: str
) -> None:
    real, shards = generate_task.write_atomically, []

    def failing(path: Path, data: bytes) -> None:
        shards.append(path.name)
        if len(shards) > 4:
            raise OSError(number, os.strerror(number), str(path))
        real(path, data)

    monkeypatch.setattr(generate_task, "write_atomically", failing)
    with pytest.raises(kind, match=said) as caught:
        generate_here(prepared, tmp_path / "out")
    assert "run the same command again, which goes on from there" in str(caught.value)
    assert str(caught.value).startswith(f"--out {tmp_path / 'out'}: ") and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    heard = Heard()
    finished = generate_here(prepared, tmp_path / "out", heard=heard)
    assert "2 of them made before" in heard.out
    assert contents(finished.folder) == contents(generate_here(prepared, tmp_path / "new").folder)


@pytest.mark.parametrize("where", ["alone", "claim", "put"])
def test_a_write_that_fails_in_the_command_is_one_line(
    prepared: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(generate_module, where, full)
    with pytest.raises(JobFailed, match=r"^--out .*out: the disk is full"):
        generate_here(prepared, tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    generate_here(prepared, tmp_path / "out")


def test_a_damaged_shard_of_the_store_is_named(tmp_path: Path) -> None:
    work = made_up_work(tmp_path, Chain((Mask(),)))
    store = open_store(Path(work.store))
    path = Path(work.store) / "train-00001.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(200) + data[300:])
    pieces = plan_shards(store, copies=1, epochs=1, tokens=900, files="parquet")
    results = [attempt(piece, work) for piece in pieces]
    assert {bool(result["fault"]) for result in results} == {True, False}
    with pytest.raises(JobFailed, match=r"^shard .*train-00001.parquet: cannot be read \(.*\); prepare the store"):
        follow(results, tmp_path / "x", len(pieces), len(pieces), Console())


def test_an_input_error_in_a_task_comes_out_as_it_is(tmp_path: Path) -> None:
    small = replace(VOCABULARY, size=50)
    work = made_up_work(tmp_path, Chain((Mask(),)), vocabulary=small)
    pieces = plan_shards(open_store(Path(work.store)), copies=1, epochs=1, tokens=900, files="parquet")
    with pytest.raises(InputError, match="is not one of synthetic's 50; use the tokenizer the passages were made with"):
        follow([attempt(pieces[0], work)], tmp_path / "x", 1, 1, Console())


def test_a_bug_in_a_task_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = made_up_work(tmp_path, Chain((Mask(),)))
    pieces = plan_shards(open_store(Path(work.store)), copies=1, epochs=1, tokens=900, files="parquet")
    monkeypatch.setattr(generate_task, "realised", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        attempt(pieces[0], work)


def test_a_lost_shard_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="1 of 3 shards came back: the job lost some"):
        follow([{"name": "a", "rows": 1, "tokens": 1, "fault": ""}], tmp_path, 3, 3, Console())


def test_shards_that_other_machines_kept_to_themselves_are_missed(prepared: Recipe, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shards written by other machines cannot be seen from here; give a"):
        generate_here(prepared, tmp_path / "out", run=lambda *_: None)


def test_progress_counts_what_was_there_but_not_its_tokens() -> None:
    heard = Heard()
    rows = [{"name": "a", "rows": 3, "tokens": 40, "fault": ""}, {"name": "b", "rows": 2, "tokens": 2, "fault": ""}]
    follow(rows, Path("x"), 2, 10, heard.console)
    lines = heard.out.splitlines()
    assert lines[0].startswith("generate  8/10  80%") and "rows 0" in lines[0]
    assert lines[-1].startswith("generate  10/10  100%") and "rows 5" in lines[-1]


def test_the_realised_counts_stay_importable_for_the_preview() -> None:
    assert generate_task.realised is realised and generate_folder.MADE == MADE
