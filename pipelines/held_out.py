"""The held-out part of a store: a share of the documents by hash of their key, and two of them at the least."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corruption.errors import InputError
from corruption.schema import PASSAGES
from pipelines.store import read_row_groups
from pipelines.store_writer import HELD_OUT, TRAIN, write_shard

LEAST = 2


def at_least_two_documents(
    folder: Path, records: Sequence[dict[str, Any]], row_group_tokens: int
) -> list[dict[str, Any]]:
    """The shards of all parts; where the share held out fewer than two documents, the next ones by hash follow.

    Moving a document makes two new shards of its part. Raises InputError when fewer than three documents leave
    nothing to train on.
    """
    total = sum(record["documents"] for record in records)
    if total <= LEAST:
        raise InputError(
            "corpus",
            f"{total} usable {'document' if total == 1 else 'documents'}; {LEAST} are held out for evaluation, so "
            "three is the least",
            "give more documents, or make a document of each line or block (documents: line, documents: block)",
        )
    shards = [shard for record in records for shard in record["shards"]]
    if sum(record["held_out_documents"] for record in records) >= LEAST:
        return shards
    first = sorted((bits, doc) for record in records for bits, doc in record["first_to_hold_out"])[:LEAST]
    wanted = {doc for _, doc in first}
    moved: list[dict[str, Any]] = []
    for record in records:
        if wanted & {doc for _, doc in record["first_to_hold_out"]}:
            moved += _move(folder, record["shards"], wanted, row_group_tokens)
        else:
            moved += record["shards"]
    return moved


def _move(folder: Path, shards: list[dict[str, Any]], wanted: set[int], row_group_tokens: int) -> list[dict[str, Any]]:
    """New shards beside the old ones, under other names, so that a job killed here finds the old ones as they were."""
    tables = [
        read_row_groups(folder / shard["name"], range(len(shard["row_groups"])), PASSAGES.names) for shard in shards
    ]
    passages = pa.concat_tables(tables)
    held = np.isin(passages["doc"].to_numpy(), np.array(sorted(wanted), np.uint64))
    held |= np.concatenate([np.full(len(t), s["held_out"]) for t, s in zip(tables, shards)])
    part = shards[0]["name"].split("-", 1)[1].removesuffix(".parquet")
    made = []
    for kind, mask in ((HELD_OUT, held), (TRAIN, ~held)):
        if mask.any():
            path = folder / f"{kind}-{part}-moved.parquet"
            rows = passages.filter(pa.array(mask))
            made.append(write_shard(rows, path, row_group_tokens=row_group_tokens, source=shards[0]["source"]))
    return made
