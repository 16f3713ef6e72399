"""Data sets to verify: copies of generated ones that are tampered with, and masked sets as others store them."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.errors import InputError
from corruption.noise_kinds import Mask
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.data_set import MANIFEST, DataSet, open_data_set
from pipelines.outcome import JobFailed
from pipelines.verify import Claims, verify
from tests.pipelines.small_run import Heard
from tests.pipelines.trained import news, trained

Rows = dict[str, list[Any]]


def said(folder: Path, **options: Any) -> tuple[int, str]:
    """The exit code that the command would have, and all it prints; options of Claims among others'."""
    own = {name: options.pop(name) for name in ("store", "rows") if name in options}
    heard = Heard()
    try:
        verify(folder, claims=Claims(**options), console=heard.console, **own)
    except JobFailed as failure:
        return failure.exit_code, f"{heard.out}{failure}"
    except InputError as error:
        return 2, f"{heard.out}{error}"
    return 0, heard.out


def laws(text: str, what: str) -> set[str]:
    """The laws of the lines that begin with "ok", "BREACH" or "not checked"."""
    lines = [line.removeprefix(what).strip() for line in text.splitlines() if line.startswith(what)]
    return {line.split(":")[0].split(" (")[0] for line in lines}


def copied(data: DataSet, folder: Path) -> DataSet:
    """A copy to tamper with."""
    shutil.copytree(data.folder, folder)
    return open_data_set(folder)


def tampered(
    data: DataSet, number: int, change: Callable[[Rows], object], *, group: int = 0, signed: bool = True
) -> None:
    """Rewrite one row group of a shard, its columns as lists; `signed` makes the manifest agree with the file."""
    shard = data.shards()[number]
    tables = list(data.batches(shard))
    rows = tables[group].to_pydict()
    change(rows)
    tables[group] = pa.table(rows, schema=data.schema)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, data.schema, compression="zstd", write_page_checksum=True) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=max(1, len(table)))
    data.path(shard).write_bytes(buffer.getvalue())
    if signed:
        shard["bytes"] = len(buffer.getvalue())
        shard["blake2b"] = hashlib.blake2b(buffer.getvalue(), digest_size=16).hexdigest()
        shard["rows"] = sum(map(len, tables))
        (data.folder / MANIFEST).write_text(json.dumps(data.manifest), "utf-8")


def vocabulary() -> Vocabulary:
    """Of the tokenizer whose ids these sets hold."""
    return Vocabulary.from_tokenizer(trained("wordpiece"))


def texts(rows: int, width: int, seed: int) -> Ragged:
    """Framed passages of news, of any length up to `width`, without padding."""
    tokenizer, random = trained("wordpiece"), np.random.default_rng(seed)
    flat = np.concatenate([tokenizer(line, add_special_tokens=False)["input_ids"] for line in news()[:300]])
    found = []
    for _ in range(rows):
        k = int(random.integers(8, width - 1))
        start = int(random.integers(0, len(flat) - k))
        found.append([tokenizer.cls_token_id, *flat[start : start + k].tolist(), tokenizer.sep_token_id])
    return Ragged.from_rows(found)


def masked(rows: int = 800, width: int = 64, seed: int = 0, step: Mask | None = None, text: int | None = None) -> Rows:
    """Masked rows as others store them: padded to one width, with an attention mask."""
    from corruption.chain import Noise
    from pipelines.verify_guess import word_starts

    tokens = texts(rows, width, seed if text is None else text)
    known = vocabulary()
    starts = word_starts(tokens, trained("wordpiece"), known)
    batch = Batch(np.arange(rows).astype(np.uint64), {"tokens": tokens, "word_start": starts})
    out = (step or Mask()).apply(batch, Noise.of(seed, "mask", 0), known)
    pad = trained("wordpiece").pad_token_id

    def full(column: Ragged, fill: int) -> list[list[int]]:
        return [column.row(i).tolist() + [fill] * (width - len(column.row(i))) for i in range(rows)]

    ones = tokens.with_values(np.ones(len(tokens.values), np.int32))
    return {
        "input_ids": full(out.tokens, pad),
        "labels": full(out.columns["labels"], IGNORE),
        "attention_mask": full(ones, 0),
    }


def written(folder: Path, *parts: Rows) -> Path:
    """A folder of Parquet files, one for each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(parts):
        pq.write_table(pa.table(rows), folder / f"part-{number}.parquet")
    return folder
