"""The passage store on disk: Parquet shards, a manifest of what is in them, readers that refuse damage.

A folder without `manifest.json` is not a store, however many shards lie in it. Shards carry page checksums;
the manifest carries each file's size and BLAKE2b, and `row_groups.parquet` each row group's histogram of
passage lengths, so that the plan can turn a step into an address without reading a passage.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.errors import InputError
from corruption.schema import PASSAGE_FORMAT

MANIFEST = "manifest.json"
ROW_GROUPS = "row_groups.parquet"
REDO = "prepare it again with --fresh"

ROW_GROUP_SCHEMA = pa.schema(
    [
        ("shard", pa.string()),
        ("row_group", pa.int32()),
        ("source", pa.int32()),
        ("held_out", pa.bool_()),
        ("rows", pa.int64()),
        ("tokens", pa.int64()),
        ("lengths", pa.list_(pa.int32())),
        ("counts", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True)
class RowGroups:
    """The row groups of one part of a store (training or held-out), in the manifest's order.

    shard: names; number: int32[n], the row group inside its shard; source: int32[n]; histogram: int64[n,
    longest + 1], passages by their stored length.
    """

    shard: list[str]
    number: npt.NDArray[np.int32]
    source: npt.NDArray[np.int32]
    histogram: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.shard)

    @property
    def rows(self) -> int:
        """Passages in all."""
        return int(self.histogram.sum())

    @property
    def tokens(self) -> int:
        """Content tokens in all."""
        return int((self.histogram.sum(axis=0) * np.arange(self.histogram.shape[1])).sum())


@dataclass(frozen=True)
class Store:
    """A finished store; open it with `open_store`."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def identity(self) -> str:
        """16 hex characters: what the passages are, whatever the folder is called."""
        return str(self.manifest["identity"])

    @cached_property
    def train(self) -> RowGroups:
        """The row groups to train on."""
        return self._row_groups(False)

    @cached_property
    def held_out(self) -> RowGroups:
        """The row groups kept for evaluation."""
        return self._row_groups(True)

    def _row_groups(self, held_out: bool) -> RowGroups:
        table = pq.read_table(self.folder / ROW_GROUPS)
        table = table.filter(pa.compute.equal(table["held_out"], held_out)).combine_chunks()
        lengths, counts = table["lengths"].to_pylist(), table["counts"].to_pylist()
        longest = max((max(row, default=0) for row in lengths), default=0)
        histogram = np.zeros((len(table), longest + 1), np.int64)
        for i, (where, how_many) in enumerate(zip(lengths, counts)):
            histogram[i, where] = how_many
        return RowGroups(
            table["shard"].to_pylist(), table["row_group"].to_numpy(), table["source"].to_numpy(), histogram
        )

    def read(self, shard: str, row_groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Rows of one shard, page checksums verified. Raises ShardDamaged naming the shard."""
        return read_row_groups(self.folder / shard, row_groups, columns, self._footers.get(shard))

    @cached_property
    def _footers(self) -> dict[str, str | None]:
        """The digest of each shard's footer; None in a store of a release that did not keep them."""
        return {shard["name"]: shard.get("footer") for shard in self.manifest["shards"]}

    def check_files(self) -> None:
        """Refuse a store with a shard missing or of another size than the manifest says; reads no content."""
        for shard in self.manifest["shards"]:
            path = self.folder / shard["name"]
            size = path.stat().st_size if path.exists() else None
            if size != shard["bytes"]:
                found = "missing" if size is None else f"{size} bytes, the manifest says {shard['bytes']}"
                raise InputError(f"store {self.folder}", f"shard {shard['name']} is {found}", REDO)

    def check_content(self) -> None:
        """Refuse a store with a shard whose BLAKE2b differs from the manifest; reads everything."""
        for shard in self.manifest["shards"]:
            if digest_of(self.folder / shard["name"]) != shard["blake2b"]:
                raise InputError(
                    f"store {self.folder}",
                    f"shard {shard['name']} was changed since prepare",
                    REDO,
                )


class ShardDamaged(RuntimeError):
    """A shard could not be read back as it was written; the message names it."""


def damage_in(error: BaseException) -> str | None:
    """The line of a ShardDamaged that an error is, or holds in the tracebacks of everything that waited for a task."""
    found = re.search(r"shard [^\n]+: cannot be read[^\n]*", str(error))
    return None if found is None else found.group()


def read_row_groups(
    path: Path, row_groups: Sequence[int], columns: Sequence[str], footer: str | None = None
) -> pa.Table:
    """Some row groups of a Parquet file, page checksums verified. Raises ShardDamaged naming the file.

    footer: the digest that its footer must have. The footer names a digest of all its passages, so that a whole file of
    other passages in its place is found as well.
    """
    try:
        found = path.stat()
        digest, parsed = _footer(path, found.st_size, found.st_mtime_ns)
        if footer not in (None, digest):
            raise OSError("it was changed since prepare")
        with pq.ParquetFile(path, metadata=parsed, page_checksum_verification=True, pre_buffer=False) as file:
            return file.read_row_groups(list(row_groups), columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise ShardDamaged(
            f"shard {path}: cannot be read ({str(error).splitlines()[0]}); prepare the store again"
        ) from error


@lru_cache(maxsize=64)
def _footer(path: Path, size: int, _changed: int) -> tuple[str, pq.FileMetaData]:
    """A shard's footer and its digest, for all its row groups; parsing it takes as long as reading a third of one."""
    with open(path, "rb") as file:
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - length))
        return footer_digest(file.read()), pq.read_metadata(path)


def footer_digest(footer: bytes) -> str:
    """16 hex characters of a Parquet file's footer, with the eight bytes that end it."""
    return hashlib.blake2b(footer, digest_size=8).hexdigest()


def open_store(folder: Path) -> Store:
    """A finished store, or InputError: no manifest (unfinished or no store), or one of a newer format."""
    path = folder / MANIFEST
    if not path.exists():
        what = "is not there" if not folder.exists() else "holds no manifest.json, so it is no finished store"
        raise InputError(f"store {folder}", f"the folder {what}", "run papermoth prepare to make or finish it")
    try:
        manifest = json.loads(path.read_text("utf-8"))
        manifest["identity"], manifest["shards"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"store {folder}", f"its manifest is damaged ({error})", REDO) from None
    if manifest.get("format") != PASSAGE_FORMAT:
        raise InputError(
            f"store {folder}",
            f"its format is {manifest.get('format')!r}, this version reads {PASSAGE_FORMAT}",
            "prepare it again with this version",
        )
    return Store(folder, manifest)


def digest_of(path: Path) -> str:
    """32 hex characters of the file's BLAKE2b."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside `path`, flush to disk, rename: a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def json_bytes(value: Any) -> bytes:
    """Canonical, readable JSON: sorted keys, two spaces, one newline at the end."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
