"""A generated data set on disk: what lies where, what its manifest says, and readers that refuse damage.

A folder without `manifest.json` is no data set, however many shards lie in it; `papermoth generate` gives the folder
its name only when everything is in it. Parquet shards carry page checksums; the manifest carries each file's size and
BLAKE2b.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.errors import InputError
from corruption.frames import FRAMES, Frame
from corruption.schema import COLUMNS, IGNORE, NUMBERS
from pipelines.readable import shown
from pipelines.store import ShardDamaged, digest_of

if TYPE_CHECKING:
    from pipelines.recipe import Recipe

FORMAT = 1
"""Version of the folder's layout; a reader refuses a newer one."""

KIND = "papermoth-data-set"
MANIFEST, CARD, RECIPE, TOKENIZER, DATA = "manifest.json", "README.md", "recipe.yaml", "tokenizer", "data"
PARTS = (MANIFEST, CARD, RECIPE, TOKENIZER, DATA)
"""Everything that lies in a finished folder."""

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)
"""`train` are the passages to train on, `validation` the held-out ones, under the noise that evaluation uses."""

ADDRESS = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("copy", pa.int32(), nullable=False),
    ]
)
"""What names an example: the passage's key, and which epoch's and copy's noise it is under."""

TEXTS = ("corrupted", "original")
"""Columns of a JSONL data set that every kind has; their texts are whole passages, without special tokens around."""

REDO = "generate it again with --overwrite"


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Parquet schema: ADDRESS, then each framed column as int32 for one number a row, else as list<int32>."""
    kinds = {"row": pa.int32(), "token": NUMBERS}
    return pa.schema([*ADDRESS, *(pa.field(name, kinds[COLUMNS[name].per], nullable=False) for name in columns)])


def parquet_options(columns: Sequence[str]) -> dict[str, Any]:
    """How `schema_of(columns)` is written, as arguments of `ParquetWriter`: encodings as old as Parquet 2.

    Ids of a text lie as packed differences, which zstd would not make smaller; labels, mostly IGNORE, lie plainly under
    LZ4. Both write nearly twice as fast as with a dictionary and zstd, which only what has few values has.
    """
    tokens = {name: COLUMNS[name].pad for name in columns if COLUMNS[name].per == "token"}
    paths = {name: f"{name}.list.element" if name in tokens else name for name in (*ADDRESS.names, *columns)}
    packed = [paths[name] for name, pad in tokens.items() if pad not in (0, IGNORE)]
    labels = [paths[name] for name, pad in tokens.items() if pad == IGNORE]
    other = dict.fromkeys(packed, "none") | dict.fromkeys(labels, "lz4")
    return {
        "compression": dict.fromkeys(paths.values(), "zstd") | other,
        "write_page_checksum": True,
        "use_dictionary": [paths[name] for name in paths if name != "key" and tokens.get(name, 0) == 0],
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        "write_statistics": [name for name in paths if name not in tokens],
    }


def _kinds(schema: pa.Schema) -> list[tuple[str, bool, pa.DataType]]:
    """Name, whether it is a list, and type of what it holds: other writers say of every column that it may be null."""
    lists = [pa.types.is_list(field.type) for field in schema]
    return [(f.name, many, f.type.value_type if many else f.type) for f, many in zip(schema, lists)]


def shard_name(split: str, number: int, total: int, files: str) -> str:
    """How shard `number` of a split is called: train-00003-of-00012.parquet."""
    return f"{split}-{number:05d}-of-{total:05d}.{files}"


@dataclass(frozen=True)
class DataSet:
    """A finished data set; open it with `open_data_set`.

    manifest: {format, kind, identity, files, name, recipe, seed, evaluation_seed, copies, epochs, store, tokenizer,
    frame: {name, columns}, columns, shards, rows, tokens, realised, dropped}. Each of `shards` is {name (below
    `data/`), split, epoch, bytes, blake2b, rows, tokens, source: [[store shard, [row group, ...]], ...], realised,
    dropped: {reason: rows}}. rows, tokens, realised and dropped of the whole are {split: the shards' sum}. `tokens` are
    the content tokens of the passages written, before corruption; `realised` is `corruption.realised`'s.

    A shard's rows: its row groups in order; of each, copy after copy; of each, the passages in stored order, without
    those that were dropped.
    """

    folder: Path
    manifest: dict[str, Any]

    @property
    def identity(self) -> str:
        """32 hex characters: what was asked for, whatever the folder is called."""
        return str(self.manifest["identity"])

    @property
    def files(self) -> str:
        """ "parquet" (framed columns) or "jsonl" (texts)."""
        return str(self.manifest["files"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns behind key, epoch and copy, in order."""
        return tuple(self.manifest["columns"])

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.folder / TOKENIZER

    def frame(self) -> Frame:
        """How examples are framed; JSONL texts are not."""
        frame: Frame = FRAMES[self.manifest["frame"]["name"]](tuple(self.manifest["frame"]["columns"]))
        return frame

    def recipe(self) -> Recipe:
        """The recipe's sections that made the data; paths in it are names only."""
        from pipelines.recipe import Recipe

        recipe = Recipe.model_validate_json(json.dumps(self.manifest["recipe"]), strict=True)
        recipe._name = str(self.manifest["name"])
        return recipe

    def seed(self, split: str) -> int:
        """The seed of the split's noise: the recipe's own, or that of evaluation."""
        return int(self.manifest["evaluation_seed" if split == VALIDATION else "seed"])

    def shards(self, split: str | None = None) -> list[dict[str, Any]]:
        """The manifest's shards, of one split or all, in order."""
        return [shard for shard in self.manifest["shards"] if split in (None, shard["split"])]

    def path(self, shard: dict[str, Any]) -> Path:
        """Where a shard lies."""
        return self.folder / DATA / str(shard["name"])

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of every table that is read."""
        if self.files == "parquet":
            return schema_of(self.columns)
        kinds = {"row": pa.int32(), "token": pa.string()}
        return pa.schema([*ADDRESS, *((n, kinds[COLUMNS[n].per if n in COLUMNS else "token"]) for n in self.columns)])

    def read(self, shard: dict[str, Any], columns: Sequence[str] | None = None) -> pa.Table:
        """A whole shard, its checksums verified. Raises ShardDamaged naming the file."""
        tables = list(self.batches(shard, columns))
        names = self.schema.names if columns is None else columns
        return pa.concat_tables(tables) if tables else self.schema.empty_table().select(names)

    def batches(self, shard: dict[str, Any], columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """A shard's rows in order, one Parquet row group at a time (a JSONL shard at once), checksums verified.

        Raises ShardDamaged naming the file, also when rows or columns are not those of the manifest.
        """
        path, names = self.path(shard), list(self.schema.names if columns is None else columns)
        rows = 0
        for table in self._parquet(path, names) if self.files == "parquet" else self._jsonl(path, shard, names):
            rows += len(table)
            yield table
        if rows != shard["rows"]:
            raise _damaged(path, f"it holds {rows} rows, the manifest says {shard['rows']}")

    def _parquet(self, path: Path, names: list[str]) -> Iterator[pa.Table]:
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                if _kinds(file.schema_arrow) != _kinds(self.schema):
                    raise _damaged(path, f"its columns are {', '.join(file.schema_arrow.names)}")
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number, columns=names, use_threads=False).select(names)
        except (OSError, pa.ArrowException) as error:
            raise _damaged(path, _first_line(error)) from error

    def _jsonl(self, path: Path, shard: dict[str, Any], names: list[str]) -> Iterator[pa.Table]:
        try:
            if digest_of(path) != shard["blake2b"]:
                raise _damaged(path, "it was changed")
            lines = [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]
            keys = pa.array(np.array([int(line["key"]) for line in lines], np.uint64))
            rest = [pa.array([line[f.name] for line in lines], f.type) for f in list(self.schema)[1:]]
        except (OSError, ValueError, KeyError) as error:
            raise _damaged(path, _first_line(error)) from error
        yield pa.Table.from_arrays([keys, *rest], schema=self.schema).select(names)

    def check_files(self) -> None:
        """Refuse a data set with a part missing or a shard of another size than the manifest says; reads no content."""
        if missing := [name for name in PARTS if not (self.folder / name).exists()]:
            raise InputError(f"data set {shown(self.folder)}", f"{missing[0]} is missing", REDO)
        for shard in self.manifest["shards"]:
            path = self.path(shard)
            size = path.stat().st_size if path.is_file() else None
            if size != shard["bytes"]:
                found = "missing" if size is None else f"{size} bytes, the manifest says {shard['bytes']}"
                raise InputError(f"data set {shown(self.folder)}", f"shard {shard['name']} is {found}", REDO)

    def changed(self) -> Iterator[str]:
        """Names of the shards that are missing or whose BLAKE2b differs from the manifest; reads everything."""
        for shard in self.manifest["shards"]:
            path = self.path(shard)
            if not path.is_file() or digest_of(path) != shard["blake2b"]:
                yield str(shard["name"])


class BrokenDataSet(InputError):
    """A data set whose manifest is damaged."""


def open_data_set(folder: Path) -> DataSet:
    """A finished data set, or InputError: not there, unfinished, something else, damaged, or of a newer format."""
    folder = Path(folder).expanduser().absolute()
    where, path = f"data set {shown(folder)}", folder / MANIFEST
    if not path.is_file():
        if partial_of(folder).exists():
            given, do = "it is not finished", "run the same papermoth generate again, which goes on with it"
        elif not folder.exists():
            given, do = "the folder is not there", "run papermoth generate to make it"
        else:
            given, do = f"the folder holds no {MANIFEST}, so it is no data set", "give one that papermoth generate made"
        raise InputError(where, given, do)
    try:
        manifest = json.loads(path.read_text("utf-8"))
        kind = manifest.get("kind")
    except (OSError, ValueError, AttributeError) as error:
        raise BrokenDataSet(where, f"its manifest is damaged ({_first_line(error)})", REDO) from None
    if kind != KIND:
        raise InputError(where, "its manifest is not a data set's", "give a folder that papermoth generate made")
    if manifest.get("format") != FORMAT:
        given = f"its format is {manifest.get('format')!r}, this version reads {FORMAT}"
        raise InputError(where, given, "use the version that made it, or generate it again with --overwrite")
    if missing := sorted(_KEYS - manifest.keys()):
        raise BrokenDataSet(where, f"its manifest is damaged (no {missing[0]})", REDO)
    if not isinstance(manifest["shards"], list) or not all(map(_is_shard, manifest["shards"])):
        raise BrokenDataSet(where, "its manifest is damaged (shards)", REDO)
    return DataSet(folder, manifest)


def partial_of(folder: Path) -> Path:
    """Where a data set lies while it is made: beside its place, under a hidden name."""
    return folder.parent / f".{folder.name}.partial"


_KEYS = {
    *("identity", "files", "name", "recipe", "seed", "evaluation_seed", "copies", "epochs", "store", "tokenizer"),
    *("frame", "columns", "shards", "rows", "tokens", "realised", "dropped"),
}


def _is_shard(entry: Any) -> bool:
    """Whether an entry of `shards` has what every reader takes for granted."""
    texts, numbers = ("name", "split", "blake2b"), ("epoch", "bytes", "rows", "tokens")
    return isinstance(entry, dict) and all(
        isinstance(entry.get(name), kind) for names, kind in ((texts, str), (numbers, int)) for name in names
    )


def _damaged(path: Path, why: str) -> ShardDamaged:
    return ShardDamaged(f"shard {shown(path)}: cannot be read ({why}); {REDO}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
