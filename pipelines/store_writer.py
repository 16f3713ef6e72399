"""Writing a passage store: each shard atomic, the manifest last, the same rows always the same bytes."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.ragged import Ragged
from corruption.schema import MENTION, NUMBERS, PASSAGE_FORMAT, PASSAGES
from pipelines.store import MANIFEST, ROW_GROUP_SCHEMA, ROW_GROUPS, footer_digest, json_bytes, write_atomically

TRAIN, HELD_OUT = "train", "held_out"

_TOKENS = "tokens.list.element"
_REST = [
    f"{f.name}.list.element" if f.type == NUMBERS else f.name for f in PASSAGES if f.name not in ("tokens", "mentions")
]
_REST += [f"mentions.list.element.{field.name}" for field in MENTION]
_OPTIONS: dict[str, Any] = {
    "compression": {_TOKENS: "none", **dict.fromkeys(_REST, "zstd")},
    "use_dictionary": _REST,
    "column_encoding": {_TOKENS: "DELTA_BINARY_PACKED"},
    "write_page_checksum": True,
}
"""How a shard is written: the tokens, read again in every epoch, as packed differences, which are read twice as fast as
a dictionary under zstd for a twentieth more bytes.
"""


def row_group_edges(lengths: np.ndarray, row_group_tokens: int) -> list[int]:
    """Where row groups begin, and the end: each takes passages until it holds `row_group_tokens` tokens."""
    ends = np.cumsum(lengths)
    edges = [0]
    while edges[-1] < len(lengths):
        before = int(ends[edges[-1] - 1]) if edges[-1] else 0
        edges.append(int(np.searchsorted(ends, before + row_group_tokens, side="left")) + 1)
        edges[-1] = min(edges[-1], len(lengths))
    return edges


def write_shard(passages: pa.Table, path: Path, *, row_group_tokens: int, source: int) -> dict[str, Any]:
    """Write one shard atomically, with page checksums, and return what the manifest says of it.

    The schema is corruption.schema.PASSAGES. Raises ValueError for another schema.
    """
    if passages.schema.names != PASSAGES.names:
        raise ValueError(f"columns {passages.schema.names} are not those of a passage store")
    passages = passages.cast(PASSAGES).combine_chunks()
    lengths = Ragged.from_arrow(passages["tokens"]).lengths
    edges = row_group_edges(lengths, row_group_tokens)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, PASSAGES, **_OPTIONS) as writer:
        for a, b in pairwise(edges):
            writer.write_table(passages.slice(a, b - a), row_group_size=b - a)
        writer.add_key_value_metadata({"papermoth.content": _content(passages)})
    data = buffer.getvalue()
    write_atomically(path, data)
    groups = []
    for a, b in pairwise(edges):
        found, counts = np.unique(lengths[a:b], return_counts=True)
        groups.append(
            {
                "rows": b - a,
                "tokens": int(lengths[a:b].sum()),
                "lengths": found.tolist(),
                "counts": counts.tolist(),
            }
        )
    return {
        "name": path.name,
        "bytes": len(data),
        "blake2b": hashlib.blake2b(data, digest_size=16).hexdigest(),
        "footer": footer_digest(data[-8 - int.from_bytes(data[-8:-4], "little") :]),
        "rows": len(passages),
        "tokens": int(lengths.sum()),
        "source": source,
        "held_out": path.name.startswith(HELD_OUT),
        "row_groups": groups,
    }


def _content(passages: pa.Table) -> str:
    """A digest of the passages for the footer, which with it is another one whenever they are others."""
    digest = hashlib.blake2b(passages["key"].to_numpy(), digest_size=16)
    for name in ("tokens", "word_start", "sentence_start"):
        column = Ragged.from_arrow(passages[name])
        digest.update(column.lengths.tobytes())
        digest.update(column.values.tobytes())
    return digest.hexdigest()


def finish_store(folder: Path, shards: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> dict[str, Any]:
    """Write `row_groups.parquet`, then the manifest, which makes the folder a store; returns the manifest.

    `about` holds what else the manifest says (settings, sources, tally); of it `about["settings"]` and
    `about["tokenizer"]` enter the identity, with the shards' checksums.
    """
    shards = sorted(shards, key=lambda shard: str(shard["name"]))
    rows = [
        {
            "shard": shard["name"],
            "row_group": number,
            "source": shard["source"],
            "held_out": shard["held_out"],
            **group,
        }
        for shard in shards
        for number, group in enumerate(shard["row_groups"])
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=ROW_GROUP_SCHEMA), buffer, write_page_checksum=True)
    write_atomically(folder / ROW_GROUPS, buffer.getvalue())
    listed = [
        {key: shard[key] for key in ("name", "bytes", "blake2b", "footer", "rows", "tokens", "held_out")}
        for shard in shards
    ]
    content = {
        "format": PASSAGE_FORMAT,
        "settings": about.get("settings"),
        "tokenizer": about.get("tokenizer"),
        "shards": [(shard["name"], shard["blake2b"]) for shard in listed],
    }
    manifest = {
        **about,
        "format": PASSAGE_FORMAT,
        "identity": hashlib.blake2b(json_bytes(content), digest_size=8).hexdigest(),
        "shards": listed,
        "passages": {part: sum(s["rows"] for s in listed if s["held_out"] == held) for part, held in _PARTS},
        "tokens": {part: sum(s["tokens"] for s in listed if s["held_out"] == held) for part, held in _PARTS},
    }
    write_atomically(folder / MANIFEST, json_bytes(manifest))
    return manifest


_PARTS = ((TRAIN, False), (HELD_OUT, True))
