"""A generated data set's folder: what is read is what was written, and everything else is refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corruption.errors import InputError
from corruption.frames import FRAMES
from corruption.schema import COLUMNS, NUMBERS
from pipelines.data_set import (
    FORMAT,
    MANIFEST,
    SPLITS,
    BrokenDataSet,
    DataSet,
    open_data_set,
    partial_of,
    schema_of,
    shard_name,
)
from pipelines.store import ShardDamaged, digest_of
from tests.pipelines.generated import generate_here
from tests.pipelines.small_run import small_recipe, write_corpus


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataSet]:
    """The same small corpus in both formats. Alter copies only."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        recipe = small_recipe(folder, write_corpus(folder / "corpus.txt"))
        return {files: generate_here(recipe, folder / files, files=files, copies=2) for files in ("parquet", "jsonl")}


@pytest.fixture
def copied(made: dict[str, DataSet], tmp_path: Path) -> DataSet:
    shutil.copytree(made["parquet"].folder, tmp_path / "copied")
    return open_data_set(tmp_path / "copied")


def rewrite(data: DataSet, **changes: object) -> None:
    (data.folder / MANIFEST).write_text(json.dumps({**data.manifest, **changes}), "utf-8")


def test_schema_of_every_frame() -> None:
    for frame in FRAMES.values():
        schema = schema_of(frame().columns)
        assert schema.names == ["key", "epoch", "copy", *frame().columns]
        assert [schema.field(name).type for name in schema.names[:3]] == [pa.uint64(), pa.int32(), pa.int32()]
        for name in frame().columns:
            one = COLUMNS[name].per == "row"
            assert schema.field(name).type == (pa.int32() if one else NUMBERS) and not schema.field(name).nullable


def test_names_sort_as_they_are_numbered() -> None:
    assert shard_name("train", 3, 12, "parquet") == "train-00003-of-00012.parquet"
    names = [shard_name("train", number, 100_000, "jsonl") for number in (0, 9, 10, 99_999)]
    assert names == sorted(names)


@pytest.mark.parametrize("files", ["parquet", "jsonl"])
def test_what_is_read_is_what_the_manifest_says(made: dict[str, DataSet], files: str) -> None:
    data = made[files]
    data.check_files()
    assert data.files == files and not list(data.changed())
    for split in SPLITS:
        shards = data.shards(split)
        tables = [data.read(shard) for shard in shards]
        assert [len(table) for table in tables] == [shard["rows"] for shard in shards]
        assert sum(map(len, tables)) == data.manifest["rows"][split]
        assert all(table.schema.equals(data.schema) for table in tables)
        assert sum(shard["tokens"] for shard in shards) == data.manifest["tokens"][split]
    assert len(data.shards()) == len(data.shards("train")) + len(data.shards("validation")) > 4


@pytest.mark.parametrize("files", ["parquet", "jsonl"])
def test_some_columns_in_the_order_asked_for(made: dict[str, DataSet], files: str) -> None:
    data = made[files]
    shard = data.shards("train")[0]
    names = [data.columns[1], "key"]
    assert data.read(shard, names).equals(data.read(shard).select(names))


def test_one_row_group_at_a_time(made: dict[str, DataSet]) -> None:
    data = made["parquet"]
    for shard in data.shards():
        tables = list(data.batches(shard))
        copies = 2 if shard["split"] == "train" else 1
        assert len(tables) == copies * sum(len(numbers) for _, numbers in shard["source"])
        assert all(len(set(table["copy"].to_pylist())) == 1 for table in tables)


def test_what_it_was_made_of(made: dict[str, DataSet]) -> None:
    data = made["parquet"]
    recipe = data.recipe()
    assert recipe.name == data.manifest["name"] == "small"
    assert recipe.frame() == data.frame() and data.columns == ("input_ids", "labels")
    assert (data.seed("train"), data.seed("validation")) == (3, 0)
    assert made["jsonl"].columns == ("corrupted", "original")


def test_a_flipped_byte_is_never_read_as_data(copied: DataSet) -> None:
    shard = copied.shards("train")[0]
    path = copied.path(shard)
    whole, wrong = path.read_bytes(), 0
    before = copied.read(shard)
    for place in range(4, len(whole) - 8, max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
        assert list(copied.changed()) == [shard["name"]]
        try:
            wrong += not copied.read(shard).equals(before)
        except ShardDamaged as error:
            assert str(error).startswith("shard ") and shard["name"] in str(error) and "\n" not in str(error)
    assert wrong == 0


def test_a_changed_line_of_text_is_never_read(made: dict[str, DataSet], tmp_path: Path) -> None:
    shutil.copytree(made["jsonl"].folder, tmp_path / "texts")
    data = open_data_set(tmp_path / "texts")
    shard = data.shards()[0]
    path = data.path(shard)
    path.write_bytes(path.read_bytes().replace(b"the", b"teh", 1))
    with pytest.raises(ShardDamaged, match=rf"shard .*{shard['name']}: cannot be read \(it was changed\); generate"):
        data.read(shard)


def test_rows_and_columns_must_be_the_manifests(copied: DataSet) -> None:
    shard = copied.shards("train")[0]
    with pytest.raises(ShardDamaged, match="the manifest says"):
        copied.read({**shard, "rows": shard["rows"] + 1})
    pq.write_table(pa.table({"key": [1]}), copied.path(shard))
    with pytest.raises(ShardDamaged, match=r"cannot be read \(its columns are key\)"):
        copied.read(shard)
    copied.path(shard).unlink()
    with pytest.raises(ShardDamaged, match=shard["name"]):
        copied.read(shard)


def test_missing_and_cut_files_are_named(copied: DataSet) -> None:
    shard = copied.shards("train")[0]
    path = copied.path(shard)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{shard['name']} is \d+ bytes, the manifest says \d+; generate it again"):
        copied.check_files()
    assert list(copied.changed()) == [shard["name"]]
    path.unlink()
    with pytest.raises(InputError, match=f"{shard['name']} is missing"):
        copied.check_files()
    assert list(copied.changed()) == [shard["name"]]
    shutil.rmtree(copied.tokenizer)
    with pytest.raises(
        InputError, match=r"data set .*copied: tokenizer is missing; generate it again with --over"
    ):
        copied.check_files()


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        open_data_set(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_refusals(copied: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(tmp_path / "none") == "data set none: the folder is not there; run papermoth generate to make it"
    (tmp_path / "other").mkdir()
    assert "holds no manifest.json, so it is no data set; give one that papermoth generate made" in refusal(
        tmp_path / "other"
    )
    partial_of(tmp_path / "begun").mkdir()
    assert refusal(tmp_path / "begun") == (
        "data set begun: it is not finished; run the same papermoth generate again, which goes on with it"
    )
    rewrite(copied, kind="store")
    assert "its manifest is not a data set's" in refusal(copied.folder)
    rewrite(copied, format=FORMAT + 1)
    assert f"its format is {FORMAT + 1}, this version reads {FORMAT}; use the version that made it" in refusal(
        copied.folder
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"kind": "papermoth-data-set", "format": 1}', "\xff"])
def test_a_damaged_manifest_is_no_traceback(copied: DataSet, text: str) -> None:
    (copied.folder / MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(BrokenDataSet, match=r"its manifest is damaged .*; generate it again with --overwrite"):
        open_data_set(copied.folder)


def test_a_store_is_no_data_set(tmp_path: Path) -> None:
    from tests.pipelines.synthetic import write_store

    assert "its manifest is not a data set's" in refusal(write_store(tmp_path / "store"))


def test_digests_are_those_of_the_files(made: dict[str, DataSet]) -> None:
    for data in made.values():
        for shard in data.shards():
            assert digest_of(data.path(shard)) == shard["blake2b"]
            assert data.path(shard).stat().st_size == shard["bytes"]
