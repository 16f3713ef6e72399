"""At least two documents are held out, and at least one is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from corruption.errors import InputError
from pipelines.held_out import at_least_two_documents
from pipelines.passages import PassageSettings
from pipelines.shard_task import PARTS, ShardSettings, make_shards, read_group
from pipelines.sources import Source, list_units
from tests.pipelines.trained import news, trained, trained_json


def made(folder: Path, documents: int, share: float, part_bytes: int = 1) -> list[dict[str, Any]]:
    """The records of the parts of so many documents, one a part."""
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(news()[:documents]))
    settings = ShardSettings(
        str(folder), trained_json("wordpiece"), PassageSettings(46), share, 2048, len(trained("wordpiece"))
    )
    units = list_units([Source(source=str(corpus), documents="line")], folder)
    for part in read_group(units, 0, part_bytes):
        make_shards(part, settings)
    return records(folder)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / PARTS).iterdir())]


def documents_in(folder: Path, shards: list[dict[str, Any]]) -> tuple[set[int], set[int], int]:
    """(documents to train on, documents held out, passages) of the shards."""
    parts: dict[bool, set[int]] = {False: set(), True: set()}
    passages = 0
    for shard in shards:
        table = pq.read_table(folder / shard["name"])
        parts[shard["held_out"]] |= set(table["doc"].to_pylist())
        passages += len(table)
        assert shard["rows"] == len(table)
    return parts[False], parts[True], passages


@pytest.mark.parametrize("documents", [1, 2])
def test_fewer_than_three_documents_are_refused(tmp_path: Path, documents: int) -> None:
    with pytest.raises(InputError, match=rf"^corpus: {documents} usable documents?; 2 are held out .* three"):
        at_least_two_documents(tmp_path, made(tmp_path, documents, 0.01), 2048)


def test_A_20_a_corpus_too_short_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="documents: line"):
        at_least_two_documents(tmp_path, made(tmp_path, 1, 0.01), 2048)


@pytest.mark.parametrize("part_bytes", [1, 1 << 20])
@pytest.mark.parametrize("documents", [3, 12])
def test_a_share_that_held_out_none_takes_the_first_two_by_hash(
    tmp_path: Path, documents: int, part_bytes: int
) -> None:
    before = made(tmp_path, documents, 1e-9, part_bytes)
    whole = documents_in(tmp_path, [shard for record in before for shard in record["shards"]])
    assert not whole[1]
    shards = at_least_two_documents(tmp_path, before, 2048)
    train, held_out, passages = documents_in(tmp_path, shards)
    assert len(held_out) == 2 and train | held_out == whole[0] and not train & held_out
    assert passages == whole[2]
    first = sorted(tuple(pair) for record in before for pair in record["first_to_hold_out"])[:2]
    assert held_out == {doc for _, doc in first}


def test_a_share_that_held_out_one_keeps_it_and_takes_the_next(tmp_path: Path) -> None:
    """So that a share a little larger holds out a superset."""
    before = made(tmp_path, 12, 1e-9)
    bits = sorted(pair[0] for record in before for pair in record["first_to_hold_out"])
    other = tmp_path / "one"
    other.mkdir()
    after = made(other, 12, (bits[0] + bits[1]) / 2 / 2**64)
    assert sum(record["held_out_documents"] for record in after) == 1
    both = documents_in(other, at_least_two_documents(other, after, 2048))[1]
    assert both == documents_in(tmp_path, at_least_two_documents(tmp_path, before, 2048))[1]


def test_a_share_that_held_out_enough_is_left_alone(tmp_path: Path) -> None:
    before = made(tmp_path, 30, 0.3)
    assert at_least_two_documents(tmp_path, before, 2048) == [s for record in before for s in record["shards"]]
    assert not list(tmp_path.glob("*moved*"))


def test_D_06_a_move_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    """The old shards stay as they were until the manifest is there, so a second try ends in the same files."""
    before = made(tmp_path, 6, 1e-9, 1 << 20)
    old = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    first = at_least_two_documents(tmp_path, before, 2048)
    files = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    assert {path: files[path] for path in old} == old
    # Killed after the first of the two new shards, which a dead writer may have left in any state.
    next(path for path in files if path.name.startswith("train") and "moved" in path.name).unlink()
    next(path for path in files if path.name.startswith("held_out") and "moved" in path.name).write_bytes(b"PAR1")
    assert records(tmp_path) == before
    assert at_least_two_documents(tmp_path, records(tmp_path), 2048) == first
    assert {path: path.read_bytes() for path in tmp_path.glob("*.parquet")} == files
