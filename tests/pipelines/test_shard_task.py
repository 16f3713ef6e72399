"""The two tasks of prepare, run without Ray on real files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corruption.noise import hash64
from pipelines import shard_task
from pipelines.documents import Document, table_to_documents
from pipelines.passages import PassageSettings
from pipelines.shard_task import PARTS, ShardSettings, held_out_bits, make_shards, read_group
from pipelines.sources import Source, list_units
from tests.pipelines.trained import news, trained, trained_json


@pytest.fixture(autouse=True)
def environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part task tells the tokenizer of its process not to start threads; this process is put back as it was."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", os.environ.get("TOKENIZERS_PARALLELISM", "true"))


def write_lines(folder: Path, lines: Sequence[str], files: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"{number}.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in lines[number::files]), "utf-8")
    return folder


def parts_of(folder: Path, part_bytes: int, unit_bytes: int = 64 << 20) -> list[dict[str, Any]]:
    return list(read_group(list_units([Source(source=str(folder))], folder, unit_bytes), 0, part_bytes))


def documents(part: dict[str, Any]) -> list[Document]:
    return table_to_documents(pa.ipc.open_stream(part["documents"]).read_all())


def settings(folder: Path, **fields: Any) -> ShardSettings:
    made = ShardSettings(
        str(folder), trained_json("wordpiece"), PassageSettings(46), 0.2, 2048, len(trained("wordpiece"))
    )
    return replace(made, **fields)


def rows(folder: Path, kind: str) -> dict[int, tuple[int, list[int]]]:
    """key -> (document, tokens) of all shards of a kind."""
    found = {}
    for path in folder.glob(f"{kind}-*.parquet"):
        for row in pq.read_table(path).to_pylist():
            assert row["key"] not in found, "a passage stands twice"
            found[row["key"]] = row["doc"], row["tokens"]
    return found


@pytest.mark.parametrize("part_bytes", [1, 5_000, 1 << 20])
def test_the_parts_of_a_group_add_up(tmp_path: Path, part_bytes: int) -> None:
    texts = news()[:40]
    folder = write_lines(tmp_path / "corpus", [*texts, "   ", "\x00"])
    (folder / "9.jsonl").write_text('{"text": 7}\n{torn\n{"text": "bad \\ud83d end"}\n')
    parts = parts_of(folder, part_bytes)
    assert [part["part"] for part in parts] == list(range(len(parts)))
    assert [part["last"] for part in parts] == [False] * (len(parts) - 1) + [True]
    got = [document for part in parts for document in documents(part)]
    assert len({document.key for document in got}) == len(got)
    assert sorted(d.text for d in got if d.text in texts) == sorted(texts)
    tallies = [json.loads(part["tally"]) for part in parts]
    assert sum(tally["documents"] for tally in tallies) == len(got)
    # Every row that was written is a document or is counted by its reason.
    reasons = [n for tally in tallies for kind in ("rejects", "expected") for n in tally[kind].values()]
    assert len(got) + sum(reasons) == sum(tally["rows"] for tally in tallies) == 45
    faults = [fault for part in parts for fault in json.loads(part["quarantine"])]
    assert {fault["reason"] for fault in faults} >= {"not_text", "invalid_json", "lone_surrogate"}
    assert [f["row"] for f in faults if f["reason"] == "lone_surrogate"] == ["used after repair"]
    for part in parts[:-1]:
        sizes = [len(document.text.encode()) for document in documents(part)]
        assert sum(sizes[:-1]) < part_bytes <= sum(sizes)


def test_a_group_of_nothing_is_one_last_part(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n")
    units = list_units([Source(source=str(tmp_path), documents="line"), Source(source=str(_some(tmp_path)))], tmp_path)
    (part,) = read_group(units[:1], 4, 100)
    assert part["last"] and part["group"] == 4 and documents(part) == []


def _some(folder: Path) -> Path:
    (folder / "other").mkdir()
    (folder / "other" / "b.txt").write_text("something")
    return folder / "other"


def test_a_flood_of_bad_rows_makes_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the faults of a whole unit would have to fit into memory."""
    monkeypatch.setattr(shard_task, "ROWS_PER_PART", 10)
    (tmp_path / "a.jsonl").write_text('{"text": 7}\n' * 35 + '{"text": "good"}\n')
    parts = parts_of(tmp_path, 1 << 20)
    assert [len(json.loads(part["quarantine"])) for part in parts] == [10, 10, 10, 5]
    assert [len(documents(part)) for part in parts] == [0, 0, 0, 1]


def test_rerun_leaves_finished_parts_alone_and_makes_missing_ones(tmp_path: Path) -> None:
    parts = parts_of(write_lines(tmp_path / "corpus", news()[:30]), 8_000)
    assert len(parts) > 2
    out = tmp_path / "store"
    lines = [make_shards(part, settings(out)) for part in parts]
    files = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in out.rglob("*") if path.is_file()}
    gone = out / PARTS / "00000-00001.json"
    gone.unlink()
    assert [make_shards(part, settings(out)) for part in parts] == lines
    for path, (changed, content) in files.items():
        assert path.read_bytes() == content
        assert (path.stat().st_mtime_ns == changed) == ("00000-00001" not in path.name)


@pytest.mark.parametrize("torn", [b"", b'{"input": "', b"{}"])
def test_D_06_a_torn_record_does_not_count(tmp_path: Path, torn: bytes) -> None:
    (part,) = parts_of(write_lines(tmp_path / "corpus", news()[:5]), 1 << 20)
    line = make_shards(part, settings(tmp_path / "store"))
    record = tmp_path / "store" / PARTS / "00000-00000.json"
    whole = record.read_bytes()
    record.write_bytes(torn)
    assert make_shards(part, settings(tmp_path / "store")) == line
    assert record.read_bytes() == whole


def test_changed_text_is_made_again(tmp_path: Path) -> None:
    (part,) = parts_of(write_lines(tmp_path / "one", news()[:20]), 1 << 20)
    make_shards(part, settings(tmp_path / "store"))
    (changed,) = parts_of(write_lines(tmp_path / "two", [*news()[:19], "another text stands here now"]), 1 << 20)
    line = make_shards(changed, settings(tmp_path / "store"))
    make_shards(changed, settings(tmp_path / "fresh"))
    assert line["documents"] == 20
    for name in ("train-00000-00000.parquet", "held_out-00000-00000.parquet", "parts/00000-00000.json"):
        assert (tmp_path / "store" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_a_changed_report_of_the_same_text_is_taken_over(tmp_path: Path) -> None:
    folder = write_lines(tmp_path / "corpus", news()[:5], files=1)
    (part,) = parts_of(folder, 1 << 20)
    make_shards(part, settings(tmp_path / "store"))
    with open(folder / "0.jsonl", "a") as file:
        file.write("{torn\n")
    (part,) = parts_of(folder, 1 << 20)
    make_shards(part, settings(tmp_path / "store"))
    record = json.loads((tmp_path / "store" / PARTS / "00000-00000.json").read_text())
    assert record["tally"]["rejects"] == {"invalid_json": 1}


def test_a_part_that_became_empty_leaves_no_shard_behind(tmp_path: Path) -> None:
    (part,) = parts_of(write_lines(tmp_path / "corpus", news()[:20]), 1 << 20)
    make_shards(part, settings(tmp_path / "store"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.jsonl").write_text('{"text": 7}\n')
    (empty,) = read_group(list_units([Source(source=str(tmp_path / "empty"))], tmp_path), 0, 1 << 20)
    assert make_shards(empty, settings(tmp_path / "store"))["documents"] == 0
    assert not list((tmp_path / "store").glob("*.parquet"))
    record = json.loads((tmp_path / "store" / PARTS / "00000-00000.json").read_text())
    assert record["shards"] == [] and record["first_to_hold_out"] == []


def test_the_same_part_gives_the_same_bytes(tmp_path: Path) -> None:
    parts = parts_of(write_lines(tmp_path / "corpus", news()[:25]), 8_000)
    for out in ("a", "b"):
        for part in parts if out == "a" else parts[::-1]:
            make_shards(part, settings(tmp_path / out))
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) > len(parts)
    assert files == sorted(p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("*") if p.is_file())
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


@pytest.mark.parametrize(("part_bytes", "unit_bytes", "name"), [(1, 64 << 20, "corpus"), (4_000, 2_000, "elsewhere")])
def test_the_held_out_split_follows_the_keys_alone(tmp_path: Path, part_bytes: int, unit_bytes: int, name: str) -> None:
    """Not the parts, not how files were cut, not what the folder is called."""
    texts = news()[:40]
    found = {}
    for out, folder, bytes_, cut in (("a", "first", 1 << 20, 64 << 20), ("b", name, part_bytes, unit_bytes)):
        for part in parts_of(write_lines(tmp_path / folder, texts), bytes_, cut):
            make_shards(part, settings(tmp_path / out))
        found[out] = rows(tmp_path / out, "train"), rows(tmp_path / out, "held_out")
    assert found["a"] == found["b"]
    train, held_out = ({doc for doc, _ in part.values()} for part in found["a"])
    assert not train & held_out and len(train | held_out) == 40
    expected = {hash64(f"{number}.jsonl:{row}") for number in range(3) for row in range(14 if number == 0 else 13)}
    assert train | held_out == expected
    share = held_out_bits(np.array(sorted(expected), np.uint64)) < np.uint64(int(0.2 * 2**64))
    assert held_out == {doc for doc, held in zip(sorted(expected), share) if held}


def test_a_larger_share_keeps_what_a_smaller_one_held_out(tmp_path: Path) -> None:
    (part,) = parts_of(write_lines(tmp_path / "corpus", news()[:40]), 1 << 20)
    held = []
    for share in (0.1, 0.5):
        make_shards(part, settings(tmp_path / str(share), held_out=share))
        held.append({doc for doc, _ in rows(tmp_path / str(share), "held_out").values()})
    assert held[0] and held[0] < held[1]
