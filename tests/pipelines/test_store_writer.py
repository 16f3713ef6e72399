"""Writing a store: the same rows give the same bytes, row groups lose nothing, and the manifest comes last."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.errors import InputError
from corruption.schema import PASSAGES
from pipelines.store import MANIFEST, ROW_GROUPS, open_store
from pipelines.store_writer import finish_store, row_group_edges, write_shard
from tests.pipelines.synthetic import passages, write_store


@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 60))
def test_row_groups_take_whole_passages_until_they_are_full(lengths, wanted):
    edges = row_group_edges(np.array(lengths, np.int64), wanted)
    assert edges[0] == 0 and edges[-1] == len(lengths) and edges == sorted(set(edges))
    groups = [lengths[a:b] for a, b in pairwise(edges)]
    assert all(sum(group) >= wanted for group in groups[:-1])
    assert all(sum(group[:-1]) < wanted for group in groups)


def shard(path, n=50, seed=0, **options):
    options = {"row_group_tokens": 200, "source": 0, **options}
    return write_shard(passages(n, 30, seed=seed, prefix="p"), path, **options)


def test_the_same_rows_give_the_same_bytes_however_they_are_chunked(tmp_path):
    table = passages(50, 30, seed=0, prefix="p")
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 30), table.slice(37)])
    a = write_shard(table, tmp_path / "a" / "train-00000.parquet", row_group_tokens=200, source=0)
    b = write_shard(chunked, tmp_path / "b" / "train-00000.parquet", row_group_tokens=200, source=0)
    assert a == b
    assert (tmp_path / "a/train-00000.parquet").read_bytes() == (tmp_path / "b/train-00000.parquet").read_bytes()


def test_a_shard_reads_back_with_its_schema_and_statistics(tmp_path):
    table = passages(50, 30, seed=1, prefix="p")
    said = write_shard(table, tmp_path / "train-00000.parquet", row_group_tokens=200, source=3)
    file = pq.ParquetFile(tmp_path / "train-00000.parquet")
    assert file.schema_arrow.equals(PASSAGES) and file.read().equals(table)
    assert said["rows"] == 50 and said["source"] == 3 and said["held_out"] is False
    assert said["bytes"] == (tmp_path / "train-00000.parquet").stat().st_size
    assert len(said["row_groups"]) == file.num_row_groups >= 3
    for number, group in enumerate(said["row_groups"]):
        lengths = [len(row) for row in file.read_row_group(number)["tokens"].to_pylist()]
        assert group["rows"] == len(lengths) and group["tokens"] == sum(lengths)
        assert dict(zip(group["lengths"], group["counts"])) == {n: lengths.count(n) for n in lengths}


def test_D_04_shards_of_empty_lists_keep_the_schema(tmp_path):
    table = passages(3, 4, seed=0, prefix="p")
    for name in ("tokens", "word_start", "sentence_start"):
        empty = pa.array([[], [], []], pa.list_(pa.int32()))
        table = table.set_column(table.schema.get_field_index(name), name, empty)
    write_shard(table, tmp_path / "train-0.parquet", row_group_tokens=10, source=0)
    assert pq.read_schema(tmp_path / "train-0.parquet").equals(PASSAGES)


def test_D_05_untyped_columns_are_written_with_the_declared_types(tmp_path):
    table = passages(2, 4, seed=0, prefix="p")
    table = table.set_column(5, "mentions", pa.array([[], []])).set_column(6, "label", pa.nulls(2))
    write_shard(table, tmp_path / "train-0.parquet", row_group_tokens=10, source=0)
    assert pq.read_schema(tmp_path / "train-0.parquet").equals(PASSAGES)


def test_A_20_ids_are_checked_on_write(tmp_path):
    wide = pa.list_(pa.int64())
    table = passages(1, 1, seed=0, prefix="p")
    for ids in ([32_768], [249_999]):
        fits = table.set_column(2, "tokens", pa.array([ids], wide))
        write_shard(fits, tmp_path / "train-0.parquet", row_group_tokens=10, source=0)
        assert pq.read_table(tmp_path / "train-0.parquet")["tokens"].to_pylist() == [ids]
    with pytest.raises(pa.ArrowInvalid):
        overflow = table.set_column(2, "tokens", pa.array([[2**31]], wide))
        write_shard(overflow, tmp_path / "train-1.parquet", row_group_tokens=10, source=0)
    assert not (tmp_path / "train-1.parquet").exists()


def test_other_columns_are_a_callers_error(tmp_path):
    with pytest.raises(ValueError, match="are not those of a passage store"):
        write_shard(pa.table({"tokens": [[1]]}), tmp_path / "x.parquet", row_group_tokens=10, source=0)


def test_a_store_without_its_manifest_is_none(tmp_path):
    shard(tmp_path / "train-00000.parquet")
    with pytest.raises(InputError, match="no finished store"):
        open_store(tmp_path)


def test_D_06_what_a_killed_writer_left_is_not_data(tmp_path):
    """The manifest names what counts: files of a dead writer lie beside it unseen, and a rerun gives the same
    store.
    """
    stats = [shard(tmp_path / f"train-0000{i}.parquet", seed=i) for i in range(2)]
    (tmp_path / ".train-00002.parquet.4711.tmp").write_bytes(b"half")
    (tmp_path / "train-00009.parquet").write_bytes(b"PAR1 of another run")
    before = finish_store(tmp_path, stats, {})
    again = finish_store(tmp_path, [shard(tmp_path / f"train-0000{i}.parquet", seed=i) for i in range(2)], {})
    assert before == again
    store = open_store(tmp_path)
    assert sorted(set(store.train.shard)) == ["train-00000.parquet", "train-00001.parquet"]
    store.check_files()
    store.check_content()


def test_the_order_in_which_shards_were_finished_does_not_matter(tmp_path):
    stats = [shard(tmp_path / f"train-0000{i}.parquet", seed=i) for i in range(3)]
    stats.append(shard(tmp_path / "held_out-00000.parquet", seed=9))
    finish_store(tmp_path, stats, {"note": 1})
    files = {name: (tmp_path / name).read_bytes() for name in (MANIFEST, ROW_GROUPS)}
    finish_store(tmp_path, stats[::-1], {"note": 1})
    assert files == {name: (tmp_path / name).read_bytes() for name in files}
    manifest = json.loads(files[MANIFEST])
    assert manifest["passages"] == {"train": 150, "held_out": 50}
    assert manifest["tokens"]["train"] == sum(s["tokens"] for s in stats[:3])


def test_the_identity_follows_content_settings_and_tokenizer_but_not_the_folder(tmp_path):
    def identity(folder, seed=0, **about):
        return finish_store(folder, [shard(folder / "train-00000.parquet", seed=seed)], about)["identity"]

    first = identity(tmp_path / "a")
    assert identity(tmp_path / "b") == identity(tmp_path / "b", tally={"read": 3}) == first
    others = [
        identity(tmp_path / "c", seed=1),
        identity(tmp_path / "d", settings={"max_tokens": 9}),
        identity(tmp_path / "e", tokenizer="x"),
    ]
    assert len({first, *others}) == 4


def test_histograms_are_those_of_the_passages(tmp_path):
    store = open_store(write_store(tmp_path, sources=2))
    for part, held in ((store.train, False), (store.held_out, True)):
        assert all(name.startswith("held_out") == held for name in part.shard)
        for shard_name, number, histogram in zip(part.shard, part.number.tolist(), part.histogram):
            lengths = [len(row) for row in store.read(shard_name, [number], ["tokens"])["tokens"].to_pylist()]
            assert np.bincount(lengths, minlength=len(histogram)).tolist() == histogram.tolist()
        assert part.rows == store.manifest["passages"]["held_out" if held else "train"]
        assert part.tokens == store.manifest["tokens"]["held_out" if held else "train"]
    assert set(store.train.source.tolist()) == {0, 1}
