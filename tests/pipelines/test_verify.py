"""Verify on data sets that generate made: clean ones pass, and whatever is done to one is named with its place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from corruption.schema import IGNORE
from pipelines.data_set import MANIFEST, TOKENIZER, DataSet, open_data_set, partial_of
from tests.pipelines.generated import generate_here
from tests.pipelines.small_run import small_recipe, write_corpus
from tests.pipelines.trained import news, trained
from tests.pipelines.verified import Rows, copied, laws, said, tampered

KINDS = {
    "mask": ("mlm", "[{kind: mask}]"),
    "word": ("mlm", "[{kind: mask, unit: word}]"),
    "span": ("mlm", "[{kind: mask, unit: span, count: bernoulli}]"),
    "nsp": ("bert", "[{kind: sentence_pair}, {kind: mask}]"),
    "unilm": ("unilm", "[{kind: attention_pattern}, {kind: mask}]"),
    "bart": ("seq2seq", "[{kind: shuffle_sentences}, {kind: infill}]"),
    "delete": ("seq2seq", "[{kind: delete, unit: word}]"),
    "t5": ("seq2seq", "[{kind: span_sentinel, rate: 0.05, mean_length: 30.0, placement: anchored}]"),
    "prefix": ("seq2seq", "[{kind: prefix_split}]"),
    "xlnet": ("plm", "[{kind: permutation_order}]"),
    "views": ("infonce", "[{kind: views, first: [{kind: crop}], second: [{kind: delete}]}]"),
    "ul2": (
        "seq2seq",
        "[{kind: mixture, chains: [[{kind: prefix_split, mode: '[R]'}], [{kind: prefix_split, rate: 0.25}]]}]",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a corpus, in which stores and data sets are made."""
    folder = tmp_path_factory.mktemp("verify")
    write_corpus(folder / "corpus.txt", news()[:120])
    return folder


def generated(folder: Path, kind: str, **options: object) -> DataSet:
    """The corpus under one kind of noise, two epochs of it."""
    objective, chain = KINDS[kind]
    sets = [f"objective={{kind: {objective}}}", f"corruption={chain}", "corpus.max_tokens=64"]
    recipe = small_recipe(folder / kind, folder / "corpus.txt", sets)
    name = f"{kind}-{'-'.join(map(str, options.values()))}"
    return generate_here(recipe, folder / name, **{"epochs": 2, "copies": 2, **options})


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def mask(folder: Path) -> DataSet:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return generated(folder, "mask", copies=1)


@pytest.fixture
def data(mask: DataSet, here: Path, tmp_path: Path) -> DataSet:
    """A copy of the masked data set; its store lies where stores lie."""
    return copied(mask, tmp_path / "copy")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_clean_and_derived_again(here: Path, kind: str) -> None:
    made = generated(here, kind)
    code, text = said(made.folder)
    assert code == 0, text
    rows = sum(made.manifest["rows"].values())
    assert f"read {rows:,} rows" in text and f"{rows:,} rows of them derived again" in text
    assert {"checksums", "rows", "counts", "frame", "same as the source", "tokenizer"} <= laws(text, "ok")
    assert text.splitlines()[-1].endswith("all hold")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_clean_without_its_store(here: Path, kind: str, tmp_path: Path, monkeypatch) -> None:
    made = generated(here, kind)
    monkeypatch.chdir(tmp_path)
    code, text = said(made.folder)
    assert code == 0, text
    assert f"not checked  same as the source: its store {made.manifest['store']} is not in stores/" in text


def test_texts_are_derived_again(here: Path, tmp_path: Path) -> None:
    made = generated(here, "bart", files="jsonl")
    code, text = said(made.folder)
    assert code == 0 and "same as the source" in laws(text, "ok"), text
    assert "not checked  the laws of its noise: it holds texts, not token ids" in text
    data = copied(made, tmp_path / "texts")
    shard = data.shards()[0]
    lines = data.path(shard).read_text("utf-8").splitlines()
    row = json.loads(lines[3])
    lines[3] = json.dumps({**row, "corrupted": row["corrupted"] + " more"}, ensure_ascii=False)
    resigned(data, 0, ("\n".join(lines) + "\n").encode())
    code, text = said(data.folder)
    assert code == 1 and f"{shard['name']}, row 3: corrupted is not the text that" in text


def resigned(data: DataSet, number: int, content: bytes) -> None:
    """A shard of other content, and a manifest that agrees with it."""
    import hashlib

    shard = data.shards()[number]
    data.path(shard).write_bytes(content)
    shard["bytes"], shard["blake2b"] = len(content), hashlib.blake2b(content, digest_size=16).hexdigest()
    (data.folder / MANIFEST).write_text(json.dumps(data.manifest), "utf-8")


# files


def test_truncated_shard(data: DataSet) -> None:
    shard = data.shards()[2]
    content = data.path(shard).read_bytes()
    data.path(shard).write_bytes(content[: len(content) // 2])
    code, text = said(data.folder)
    assert code == 1
    assert f"BREACH       checksums: {shard['name']}: it has {len(content) // 2:,} bytes" in text
    assert f"BREACH       rows: {shard['name']}: cannot be read" in text
    assert text.splitlines()[-1].endswith("breaks 2 laws: checksums, rows")


def test_edited_shard(data: DataSet) -> None:
    """Rewritten with one label changed; even where the rest looks right the checksum and the source tell."""
    shard = data.shards()[1]

    def change(rows: Rows) -> None:
        place = next(i for i, label in enumerate(rows["labels"][4]) if label != IGNORE)
        rows["labels"][4][place] = 7 if rows["labels"][4][place] != 7 else 8

    tampered(data, 1, change, signed=False)
    code, text = said(data.folder)
    assert code == 1 and {"checksums", "same as the source", "labels"} <= laws(text, "BREACH")
    assert f"{shard['name']}, row 4, position" in text


def test_edited_shard_with_a_manifest_that_agrees(data: DataSet) -> None:
    def change(rows: Rows) -> None:
        rows["input_ids"][2][3] = 7 if rows["input_ids"][2][3] != 7 else 8

    tampered(data, 1, change)
    code, text = said(data.folder)
    assert code == 1 and "checksums" in laws(text, "ok") and "same as the source" in laws(text, "BREACH")
    assert f"{data.shards()[1]['name']}, row 2, position 3: input_ids is" in text


@pytest.mark.parametrize("byte", [0, 400, -9])
def test_one_flipped_byte(data: DataSet, byte: int) -> None:
    path = data.path(data.shards()[0])
    content = bytearray(path.read_bytes())
    content[byte] ^= 0x20
    path.write_bytes(content)
    code, text = said(data.folder)
    assert code == 1 and "its BLAKE2b is not the manifest's" in text


def test_missing_and_unknown_shards(data: DataSet) -> None:
    name = data.shards()[0]["name"]
    data.path(data.shards()[0]).rename(data.folder / "data" / "train-99999-of-00001.parquet")
    code, text = said(data.folder)
    assert code == 1 and f"{name}: it is missing" in text
    assert "train-99999-of-00001.parquet: the manifest does not know it" in text


def test_rows_twice_or_of_another_epoch(data: DataSet) -> None:
    def twice(rows: Rows) -> None:
        for values in rows.values():
            values.append(values[0])

    def later(rows: Rows) -> None:
        rows["epoch"][1], rows["copy"][2] = 9, 5

    tampered(data, 0, twice)
    tampered(data, 1, later)
    code, text = said(data.folder)
    assert code == 1 and "stands 2 times in epoch 0, copy 0" in text
    assert "its epoch is 9, the manifest says 0" in text and "its copy is 5, of 1" in text


def test_another_tokenizer(data: DataSet) -> None:
    shutil.rmtree(data.folder / TOKENIZER)
    trained("bpe").save_pretrained(data.folder / TOKENIZER)
    code, text = said(data.folder)
    assert code == 1 and "tokenizer" in laws(text, "BREACH")


# noise


def test_the_same_masks_in_two_epochs(data: DataSet, tmp_path: Path, monkeypatch) -> None:
    """A whole second epoch under the noise of the first; the store is not needed to see it."""
    monkeypatch.chdir(tmp_path)
    train = [shard for shard in data.shards() if shard["split"] == "train"]
    half = len(train) // 2
    for number in range(half):
        first = [row for table in data.batches(train[number]) for row in table.to_pylist()]
        for group in range(len(list(data.batches(train[half + number])))):

            def again(rows: Rows, first=first) -> None:
                kept = [row for row in first if row["key"] in set(rows["key"])]
                for name in ("input_ids", "labels"):
                    rows[name] = [row[name] for row in kept]

            tampered(data, half + number, again, group=group)
    code, text = said(data.folder)
    assert code == 1 and laws(text, "BREACH") <= {"noise not repeated", "counts"}
    assert "train, epoch 0 copy 0 and epoch 1 copy 0" in text


def test_the_same_masks_in_two_shards(data: DataSet, tmp_path: Path, monkeypatch) -> None:
    """Each row of the second shard masked where the same row of the first is, as far as it is long enough."""
    monkeypatch.chdir(tmp_path)
    one = [row for table in data.batches(data.shards()[0]) for row in table.to_pylist()]
    mask = _vocabulary(data).mask
    seen = 0
    for group, table in enumerate(list(data.batches(data.shards()[1]))):

        def like(rows: Rows, seen=seen) -> None:
            for i in range(len(rows["key"])):
                was = [t if label == IGNORE else label for t, label in zip(rows["input_ids"][i], rows["labels"][i])]
                other = one[seen + i]["labels"] if seen + i < len(one) else []
                chosen = [p < len(other) and other[p] != IGNORE and 0 < p < len(was) - 1 for p in range(len(was))]
                rows["input_ids"][i] = [mask if c else t for c, t in zip(chosen, was)]
                rows["labels"][i] = [t if c else IGNORE for c, t in zip(chosen, was)]

        tampered(data, 1, like, group=group)
        seen += len(table)
    code, text = said(data.folder)
    assert code == 1 and "noise not repeated" in laws(text, "BREACH")
    assert f"{data.shards()[0]['name']} and {data.shards()[1]['name']}" in text


def _vocabulary(data: DataSet):
    from corruption.vocabulary import Vocabulary
    from pipelines.tokenizers import load_tokenizer

    return Vocabulary.from_tokenizer(load_tokenizer(str(data.tokenizer)))


def test_half_a_word_masked_in_a_set_of_whole_words(here: Path, tmp_path: Path) -> None:
    data = copied(generated(here, "word"), tmp_path / "copy")
    store = next(path.parent for path in (here / "stores").glob("*/manifest.json") if _is(path, data))
    from pipelines.store import open_store

    split, stored = data.shards()[0]["source"][0], open_store(store)
    starts = stored.read(split[0], [split[1][0]], ["word_start"])["word_start"].to_pylist()
    places: list[int] = []

    def change(rows: Rows) -> None:
        for row, labels in enumerate(rows["labels"]):
            inner = [p for p in range(1, len(labels) - 1) if labels[p] != IGNORE and starts[row][p - 1] == 0]
            if inner:
                rows["input_ids"][row][inner[0]] = labels[inner[0]]
                rows["labels"][row][inner[0]] = IGNORE
                places.append(row)
                return

    tampered(data, 0, change)
    code, text = said(data.folder)
    assert code == 1 and "whole words" in laws(text, "BREACH")
    assert f"whole words: {data.shards()[0]['name']}, row {places[0]}, position" in text


def _is(path: Path, data: DataSet) -> bool:
    return json.loads(path.read_text("utf-8"))["identity"] == data.manifest["store"]


def test_an_nsp_negative_that_is_the_true_next_in_a_set(here: Path, tmp_path: Path) -> None:
    """Labels 0 made 1: the store tells that what is called foreign follows."""
    data = copied(generated(here, "nsp"), tmp_path / "copy")

    def change(rows: Rows) -> None:
        rows["next_sentence_label"] = [1] * len(rows["key"])

    tampered(data, 0, change)
    code, text = said(data.folder)
    assert code == 1 and {"true next", "same as the source"} <= laws(text, "BREACH")
    assert "label 1, but the second segment is what truly follows" in text


# what can be checked, and what is refused


def test_only_some_rows_are_derived_again(data: DataSet) -> None:
    code, text = said(data.folder, rows=50)
    rows = sum(data.manifest["rows"].values())
    again = int(text.split(" rows of them")[0].split(", ")[-1])
    assert code == 0 and 50 <= again < rows // 2
    assert said(data.folder, rows=50)[1].split("read")[1] == text.split("read")[1]
    assert f"{rows:,} rows of them derived again" in said(data.folder, rows=0)[1]


def test_a_fault_beyond_the_sample_is_not_seen_by_the_source_alone(data: DataSet, here: Path) -> None:
    """What the laws cannot see, such as another lawful choice, only derivation finds: all rows with rows=0."""

    def change(rows: Rows) -> None:
        keep = [label != IGNORE and label == t for label, t in zip(rows["labels"][0], rows["input_ids"][0])]
        rows["input_ids"][0] = [_vocabulary(data).mask if k else t for k, t in zip(keep, rows["input_ids"][0])]

    for number in range(len(data.shards())):
        tampered(data, number, change)
    code, text = said(data.folder, rows=0)
    assert code == 1 and laws(text, "BREACH") == {"same as the source"}
    assert text.count("BREACH       same as the source") == 4 and "and in" in text


def test_the_store_is_found_or_given(data: DataSet, here: Path, tmp_path: Path, monkeypatch) -> None:
    (store,) = [path.parent for path in (here / "stores").glob("*/manifest.json") if _is(path, data)]
    monkeypatch.chdir(tmp_path)
    code, text = said(data.folder)
    assert code == 0 and "give it with --store" in text
    code, text = said(data.folder, store=store)
    assert code == 0 and "same as the source" in laws(text, "ok")
    other = tmp_path / "other"
    shutil.copytree(store, other)
    manifest = json.loads((other / "manifest.json").read_text("utf-8"))
    (other / "manifest.json").write_text(json.dumps({**manifest, "identity": "0" * 16}), "utf-8")
    code, text = said(data.folder, store=other)
    assert code == 2 and text.endswith(
        f"it is the store {'0' * 16}, not {data.manifest['store']}; give the store that the data set was made of"
    )
    assert said(data.folder, store=tmp_path / "none")[0] == 2


def test_a_damaged_store_is_no_fault_of_the_data_set(data: DataSet, here: Path, tmp_path: Path, monkeypatch) -> None:
    (store,) = [path.parent for path in (here / "stores").glob("*/manifest.json") if _is(path, data)]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(store, tmp_path / "damaged")
    for shard in (tmp_path / "damaged").glob("*.parquet"):
        if shard.name != "row_groups.parquet":
            shard.write_bytes(shard.read_bytes()[:100])
    code, text = said(data.folder, store=tmp_path / "damaged")
    assert code == 0 and "not checked  the store: shard " in text and "prepare the store again" in text


def test_unfinished_and_foreign_folders_are_refused(data: DataSet, tmp_path: Path) -> None:
    unfinished = tmp_path / "set"
    partial_of(unfinished).mkdir()
    assert said(unfinished) == (
        2,
        f"data set {unfinished}: it is not finished; run the same papermoth generate again, which goes on with it",
    )
    assert said(tmp_path / "nowhere")[0] == 2
    (tmp_path / "empty").mkdir()
    code, text = said(tmp_path / "empty")
    assert code == 2 and "holds neither Parquet files nor what datasets saved" in text
    manifest = json.loads((data.folder / MANIFEST).read_text("utf-8"))
    manifest["shards"][0]["rows"] = "x"
    (data.folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    code, text = said(data.folder)
    assert code == 2 and "its manifest is damaged (shards)" in text
    (data.folder / MANIFEST).write_text("{", "utf-8")
    code, text = said(data.folder)
    assert code == 2 and "its manifest is damaged" in text
    (data.folder / MANIFEST).unlink()
    code, text = said(data.folder)
    assert code == 2 and f"the folder holds no {MANIFEST}, so it is no data set" in text


def test_claims_about_a_set_that_says_it_itself_are_refused(data: DataSet) -> None:
    code, text = said(data.folder, rate=0.15, unit="word")
    assert (code, text) == (
        2,
        f"data set {data.folder}: it says itself what was asked for, so --rate, --unit would do nothing; leave it out",
    )


def test_a_store_that_moved_to_another_noise_is_seen(data: DataSet) -> None:
    """The manifest's seed changed: every row derived again is another."""
    data.manifest["seed"] += 1
    (data.folder / MANIFEST).write_text(json.dumps(data.manifest), "utf-8")
    code, text = said(data.folder)
    assert code == 1 and laws(text, "BREACH") == {"same as the source"}


def test_a_rate_the_manifest_does_not_have(data: DataSet) -> None:
    data.manifest["recipe"]["corruption"][0]["rate"] = 0.165
    (data.folder / MANIFEST).write_text(json.dumps(data.manifest), "utf-8")
    code, text = said(data.folder)
    assert code == 1 and {"rate", "same as the source"} == laws(text, "BREACH")


def test_open_data_sets_are_not_altered(mask: DataSet, here: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(mask.folder.rglob("*")) if path.is_file()}
    assert said(mask.folder)[0] == 0
    after = {path: path.read_bytes() for path in sorted(mask.folder.rglob("*")) if path.is_file()}
    assert before == after and open_data_set(mask.folder).manifest == mask.manifest
    assert np.all([path.exists() for path in before])


def test_a_shard_written_anew_in_other_row_groups(data: DataSet) -> None:
    """As most tools would write it: the rows are matched by their keys, and only the edited one is named."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shard = data.shards()[0]
    rows = data.read(shard).to_pydict()
    row = len(rows["key"]) - 2
    rows["labels"][row] = [label if label == IGNORE else 9 for label in rows["labels"][row]]
    pq.write_table(pa.table(rows, schema=data.schema), data.path(shard))
    code, text = said(data.folder)
    assert code == 1 and f"BREACH       labels: {shard['name']}, row {row}, position" in text
    assert f"BREACH       same as the source: {shard['name']}, row {row}, position" in text
    assert laws(text, "BREACH") <= {"checksums", "labels", "same as the source", "shares"}


def test_rows_of_no_passage(data: DataSet) -> None:
    def change(rows: Rows) -> None:
        rows["key"][2] += 1

    tampered(data, 0, change)
    code, text = said(data.folder)
    assert code == 1 and f"same as the source: {data.shards()[0]['name']}, row 2: " in text
