"""The two tasks of `prepare`: read a group of units into parts of a few megabytes of text, and turn a part into shards.

A part is finished when its record (`parts/<name>.json`) is there; the record is written after the shards, so a killed
job leaves either everything of a part or nothing that counts. A rerun reads the units again, which is cheap, and
tokenises only the parts whose record is missing or was made from other text.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corruption.noise import rank_bits, stream
from pipelines.documents import Document, Note, Reject, Tally, documents_to_table, table_to_documents
from pipelines.formats.unit import Unit
from pipelines.passages import PassageBuilder, PassageSettings
from pipelines.store import json_bytes, write_atomically
from pipelines.store_writer import HELD_OUT, TRAIN, write_shard

PARTS = "parts"
ROWS_PER_PART = 20_000
_MAX_QUARANTINE_DETAIL = 400


@dataclass(frozen=True)
class ShardSettings:
    """What a part task must know. `held_out` is the share of documents kept for evaluation, by hash of their key."""

    folder: str
    tokenizer_json: str
    passages: PassageSettings
    held_out: float
    row_group_tokens: int
    vocabulary_size: int


def read_group(units: Sequence[Unit], group: int, part_bytes: int) -> Iterator[dict[str, Any]]:
    """The documents of a group of units, as parts of about `part_bytes` of text; at least one part, the last is marked.

    A part is {group, part, source, last, documents: Arrow IPC bytes, tally, quarantine: JSON}.
    """
    documents: list[Document] = []
    tally, faults, size, part = Tally(), [], 0, 0
    for unit in units:
        for item in _items(unit):
            tally.add(item)
            if isinstance(item, Document):
                documents.append(item)
                size += len(item.text.encode("utf-8", "surrogatepass"))
            elif isinstance(item, Note) or not item.expected:
                faults.append(_fault(item))
            if size >= part_bytes or len(documents) + len(faults) >= ROWS_PER_PART:
                yield _part(group, part, units[0].source, False, documents, tally, faults)
                documents, tally, faults, size, part = [], Tally(), [], 0, part + 1
    yield _part(group, part, units[0].source, True, documents, tally, faults)


def _items(unit: Unit) -> Iterator[Document | Reject | Note]:
    """Everything in one unit."""
    from pipelines.sources import read_unit

    yield from read_unit(unit)


def _fault(item: Reject | Note) -> dict[str, str]:
    used = {"row": "used after repair"} if isinstance(item, Note) else {}
    return {
        "file": item.file,
        "position": item.position,
        "reason": item.reason,
        "detail": item.detail[:_MAX_QUARANTINE_DETAIL],
        **used,
    }


def _part(
    group: int,
    part: int,
    source: int,
    last: bool,
    documents: list[Document],
    tally: Tally,
    faults: list[dict[str, str]],
) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    table = documents_to_table(documents)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {
        "group": group,
        "part": part,
        "source": source,
        "last": last,
        "documents": sink.getvalue().to_pybytes(),
        "tally": json.dumps(tally.to_json()),
        "quarantine": json.dumps(faults),
    }


def part_name(group: int, part: int) -> str:
    """How a part's shards and record are called."""
    return f"{group:05d}-{part:05d}"


def make_shards(part: Mapping[str, Any], settings: ShardSettings) -> dict[str, Any]:
    """Tokenise a part and write its training and held-out shard and its record; returns a line for progress.

    A part whose record was made from the same rows is left alone.
    """
    name = part_name(part["group"], part["part"])
    folder = Path(settings.folder)
    record_path = folder / PARTS / f"{name}.json"
    digest = hashlib.blake2b(part["documents"], digest_size=16)
    digest.update((part["tally"] + part["quarantine"]).encode())
    fingerprint = digest.hexdigest()
    record = _read_record(record_path, fingerprint)
    if record is None:
        record = _build(part, settings, name, fingerprint)
        write_atomically(record_path, json_bytes(record))
    return {
        "group": part["group"],
        "part": part["part"],
        "last": part["last"],
        "documents": record["counts"].get("documents", 0),
        "tokens": record["counts"].get("tokens", 0),
    }


def _read_record(path: Path, fingerprint: str) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if record.get("input") == fingerprint else None


def _build(part: Mapping[str, Any], settings: ShardSettings, name: str, fingerprint: str) -> dict[str, Any]:
    documents = table_to_documents(pa.ipc.open_stream(part["documents"]).read_all())
    passages, counts = _builder(settings).build(documents)
    doc = passages["doc"].combine_chunks().to_numpy() if len(passages) else np.empty(0, np.uint64)
    bits = held_out_bits(doc)
    held = bits < np.uint64(min(settings.held_out * 2.0**64, 2.0**64 - 2048))
    folder, shards = Path(settings.folder), []
    for kind, mask in ((TRAIN, ~held), (HELD_OUT, held)):
        path = folder / f"{kind}-{name}.parquet"
        if mask.any():
            rows = passages.filter(pa.array(mask))
            shards.append(write_shard(rows, path, row_group_tokens=settings.row_group_tokens, source=part["source"]))
        else:
            path.unlink(missing_ok=True)
    distinct = {int(b): int(d) for b, d in zip(bits, doc)}
    return {
        "input": fingerprint,
        "shards": shards,
        "counts": {key: int(value) for key, value in sorted(counts.items())},
        "tally": json.loads(part["tally"]),
        "quarantine": json.loads(part["quarantine"]),
        "documents": len(distinct),
        "held_out_documents": len(np.unique(doc[held])),
        "first_to_hold_out": [[b, distinct[b]] for b in sorted(distinct)[:2]],
    }


def held_out_bits(doc: np.ndarray) -> np.ndarray:
    """uint64: the document is held out when this lies below the share of 2 ** 64; the same in every corpus."""
    return rank_bits(stream(0, "papermoth.held_out"), doc)


_BUILDERS: dict[str, PassageBuilder] = {}


def _builder(settings: ShardSettings) -> PassageBuilder:
    """One builder a process and tokenizer, so that a worker parses the tokenizer once."""
    # One task has one core; inside it the Rust thread pool would only fight with its neighbours.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    key = hashlib.blake2b((settings.tokenizer_json + repr(settings.passages)).encode()).hexdigest()
    if key not in _BUILDERS:
        _BUILDERS.clear()
        _BUILDERS[key] = PassageBuilder(settings.tokenizer_json, settings.passages)
    return _BUILDERS[key]
