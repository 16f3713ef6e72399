"""Opening a store: damage, absence and another format are refused by name, before and while reading."""

from __future__ import annotations

import json
import os

import pytest

from corruption.errors import InputError
from pipelines.store import (
    MANIFEST,
    ShardDamaged,
    damage_in,
    digest_of,
    json_bytes,
    open_store,
    write_atomically,
)
from tests.pipelines.synthetic import write_store

SHARD = "train-00001.parquet"


@pytest.fixture
def folder(tmp_path):
    return write_store(tmp_path / "store", shards=2, rows=40)


def test_a_finished_store_opens_and_checks(folder):
    store = open_store(folder)
    store.check_files()
    store.check_content()
    assert len(store.identity) == 16
    table = store.read(SHARD, [0], ["key", "tokens"])
    assert (
        table.schema.names == ["key", "tokens"]
        and len(table) == store.train.histogram[store.train.shard.index(SHARD)].sum()
    )


def test_absent_and_unfinished_folders_are_told_apart(folder, tmp_path):
    with pytest.raises(InputError, match=r"the folder is not there; run papermoth prepare"):
        open_store(tmp_path / "nowhere")
    (folder / MANIFEST).unlink()
    with pytest.raises(InputError, match=r"holds no manifest.json, so it is no finished store"):
        open_store(folder)


@pytest.mark.parametrize("found", [2, None])
def test_another_format_is_refused(folder, found):
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    (folder / MANIFEST).write_bytes(json_bytes(manifest | {"format": found}))
    with pytest.raises(InputError, match=f"its format is {found}, this version reads 1"):
        open_store(folder)


def test_missing_and_cut_shards_are_named(folder):
    path = folder / SHARD
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(InputError, match=rf"shard {SHARD} is {len(data) - 1} bytes, the manifest says {len(data)}"):
        open_store(folder).check_files()
    path.unlink()
    with pytest.raises(InputError, match=f"shard {SHARD} is missing"):
        open_store(folder).check_files()
    with pytest.raises(ShardDamaged, match=SHARD):
        open_store(folder).read(SHARD, [0], ["tokens"])


def test_a_flipped_byte_is_never_read_as_data(folder):
    """Wherever a bit of the first page flips, reading refuses; and the full check names the shard."""
    path = folder / SHARD
    data = path.read_bytes()
    clean = open_store(folder).read(SHARD, [0], ["tokens"])
    refused = 0
    for place in range(4, 900, 7):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            assert open_store(folder).read(SHARD, [0], ["tokens"]).equals(clean)
        except ShardDamaged as error:
            assert SHARD in str(error) and "prepare" in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 20
    open_store(folder).check_files()
    with pytest.raises(InputError, match=f"shard {SHARD} was changed since prepare"):
        open_store(folder).check_content()


def test_a_whole_shard_of_other_passages_is_never_read_as_the_one_of_the_manifest(folder, tmp_path):
    """Even of the same size, and the shard after it is read all the same."""
    other = write_store(tmp_path / "other", shards=2, rows=40, seed=5)
    store = open_store(folder)
    clean = store.read(SHARD, [0], ["tokens"])
    (folder / SHARD).write_bytes((other / SHARD).read_bytes())
    with pytest.raises(ShardDamaged, match=rf"shard .*{SHARD}: cannot be read \(it was changed since prepare\)"):
        store.read(SHARD, [0], ["tokens"])
    assert len(store.read("train-00000.parquet", [0], ["tokens"])) and len(clean)


def test_a_store_without_digests_of_footers_is_read(folder):
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    for shard in manifest["shards"]:
        del shard["footer"]
    (folder / MANIFEST).write_bytes(json_bytes(manifest))
    assert len(open_store(folder).read(SHARD, [0], ["tokens"]))


def test_the_line_of_a_damaged_shard_is_found_inside_any_traceback():
    line = "shard /stores/x/train-00001.parquet: cannot be read (Page checksum); prepare the store again"
    told = f"task failed\nTraceback:\n  pipelines.store.ShardDamaged: {line}\n  and more"
    assert damage_in(RuntimeError(told)) == damage_in(ShardDamaged(line)) == line
    assert damage_in(RuntimeError("a node died")) is None


def test_writing_replaces_whole_files_and_leaves_no_scrap(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two" and os.listdir(path.parent) == ["file.json"]

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"three")
    assert path.read_bytes() == b"two" and os.listdir(path.parent) == ["file.json"]


def test_json_is_canonical(tmp_path):
    assert json_bytes({"b": 1, "a": "ü"}) == '{\n  "a": "ü",\n  "b": 1\n}\n'.encode()
    (tmp_path / "x").write_bytes(b"abc")
    assert len(digest_of(tmp_path / "x")) == 32
