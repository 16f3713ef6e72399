"""From the sources of a recipe to units that tasks read on their own, and from a unit to documents.

`list_files` looks at names, sizes and ends only; `list_units` also cuts large files into parts, for which it
reads footers and counts lines. A document's key never depends on how files were cut: it is the user's id, the
page id, or the file and the number of its row (line, block or row, from 0, blank lines included).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from corruption.errors import InputError
from pipelines.documents import Document, Note, Reject
from pipelines.formats.columns import check_columns
from pipelines.formats.dataset import arrow_schema, is_saved_dataset, open_dataset, read_dataset, row_ranges
from pipelines.formats.detect import KNOWN, FileFacts, look_at
from pipelines.formats.jsonl import not_lines, read_jsonl
from pipelines.formats.lines import line_ranges
from pipelines.formats.listing import listed
from pipelines.formats.parquet import open_parquet, read_parquet, row_group_ranges
from pipelines.formats.text import read_text
from pipelines.formats.unit import Format, Source, Unit
from pipelines.formats.wikipedia import read_wikipedia
from pipelines.formats.wikipedia_bytes import dump_ranges

__all__ = ["UNIT_BYTES", "Source", "Unit", "list_files", "list_units", "read_unit"]

UNIT_BYTES = 64 << 20
"""About how much one task reads of a large file."""

_Items = Iterator[Document | Reject | Note]
_READERS: dict[Format, Callable[[Unit], _Items]] = {
    "text": read_text,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "dataset": read_dataset,
    "wikipedia": read_wikipedia,
}
_COLUMN_OPTIONS = ("text", "id", "title", "label", "words")
_WHERE = "corpus.sources"


def list_files(sources: Sequence[Source], base: Path) -> list[Unit]:
    """One unit for each file of the sources, in the order of the sources and then of relative paths; nothing
    is cut.

    Reads at most 128 KiB of each file and asks no network. Relative paths start at `base`.

    Raises:
        InputError: a path matches nothing, no file can be used, two sources give the same key, or an option
            has no use.
    """
    units: list[Unit] = []
    owners: dict[str, int] = {}
    for number, spec in enumerate(sources):
        name = f"{spec.name}/" if spec.name else ""
        mine = [_file_unit(number, name, relative, path, spec) for relative, path in listed(spec, Path(base))]
        for unit in mine:
            other = owners.setdefault(unit.name + unit.relative, number)
            if other != number:
                given = f"sources {other} and {number} both give documents called {unit.name}{unit.relative}"
                raise InputError(_WHERE, given, "give each a different name")
        _check_usable(mine, spec)
        _check_options(mine, spec)
        units += mine
    return units


def list_units(sources: Sequence[Source], base: Path, unit_bytes: int = UNIT_BYTES) -> list[Unit]:
    """The units of `list_files` with large files cut into parts of about `unit_bytes`, in file and byte
    order.

    Cut are plain JSONL and lines of text at line ends, Parquet at row groups, data sets at rows, plain dumps
    at pages and bzip2 dumps at streams. Other archives, blocks and whole-file documents are read in one go.

    Raises:
        InputError: as `list_files`, or a named column is in no file of a source.
    """
    parts: list[Unit] = []
    files = list_files(sources, base)
    for number, spec in enumerate(sources):
        schemas: list[pa.Schema] = []
        mine = [unit for unit in files if unit.source == number]
        for unit in mine:
            parts += _cut(unit, unit_bytes, schemas)
        typed = [unit for unit in mine if unit.fault is None]
        if schemas and len(schemas) == len(
            typed
        ):  # with a JSONL file among them nothing is certain before reading
            check_columns(spec, schemas)
    return parts


def read_unit(unit: Unit) -> _Items:
    """The documents of a unit, what it had to reject, and notes of repairs (each right before its document).

    Bad data never raises: a bad row is a Reject, and a broken file gives what could be read and one Reject
    for the rest.

    Raises:
        ConnectionError: a data set of the hub cannot be reached.
    """
    if unit.fault is not None:
        yield Reject(unit.relative, "", *unit.fault)
        return
    if unit.format == "unknown":
        raise AssertionError("a unit of unknown format has a fault")
    something = False
    for item in _READERS[unit.format](unit):
        something = something or not (isinstance(item, Reject) and item.reason == "blank")
        yield item
    if not something and unit.part is None:
        yield Reject(unit.relative, "", "empty_file", "there is nothing in it")


def _file_unit(number: int, name: str, relative: str, path: str, spec: Source) -> Unit:
    if path.startswith("hub:") or is_saved_dataset(path):
        facts = _dataset_facts(path, spec)
    else:
        facts = look_at(path, spec.format)
        if spec.format == "dataset":
            detail = "it is a file, not a folder that datasets saved"
            facts = replace(facts, fault=facts.fault or ("not_dataset", detail))
    return Unit(
        number,
        name,
        relative,
        path,
        facts.format,
        facts.codec,
        facts.size,
        facts.fingerprint,
        spec,
        fault=facts.fault,
    )


def _dataset_facts(path: str, spec: Source) -> FileFacts:
    if spec.format not in ("auto", "dataset"):
        raise InputError(_WHERE, f"{path} is a data set, not {spec.format}", "leave format out")
    digest = hashlib.blake2b(repr((spec.split, spec.config, spec.revision)).encode(), digest_size=8)
    size = 0
    if path.startswith("hub:"):
        digest.update(path.encode())
    else:
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                facts = look_at(os.path.join(folder, name), "text")
                size += facts.size
                digest.update(
                    f"{os.path.relpath(os.path.join(folder, name), path)}:{facts.fingerprint};".encode()
                )
    return FileFacts("dataset", "", size, digest.hexdigest())


def _check_usable(units: list[Unit], spec: Source) -> None:
    """Refuse a source of which not one file can be used, so that this is known before anything starts."""
    faults = [(unit, unit.fault) for unit in units if unit.fault is not None]
    if len(faults) < len(units):
        return
    unit, (reason, detail) = faults[0]
    shown = unit.relative if len(units) == 1 else f"none of {len(units)} files can be used, {unit.relative}"
    raise InputError(
        _WHERE,
        f"{shown}: {detail}",
        f"set format, or give {KNOWN}" if reason == "unknown_format" else "check it",
    )


def _check_options(units: list[Unit], spec: Source) -> None:
    """Refuse an option that no file of the source would heed."""
    present = {unit.format for unit in units if unit.fault is None}
    given = spec.model_fields_set
    needs: list[tuple[str, set[str], str]] = [
        *((name, {"jsonl", "parquet", "dataset"}, "columns") for name in _COLUMN_OPTIONS),
        ("documents", {"text"}, "plain text"),
        ("split", {"dataset"}, "a data set"),
    ]
    on_hub = any(unit.path.startswith("hub:") for unit in units)
    for name, formats, what in needs:
        if name in given and getattr(spec, name) is not None and not present & formats:
            raise InputError(
                _WHERE,
                f"{name} is for {what}, but the source is {', '.join(sorted(present))}",
                f"remove {name}",
            )
    for name in ("config", "revision"):
        if getattr(spec, name) is not None and not on_hub:
            raise InputError(_WHERE, f"{name} is for hub:<name>, but the source is on disk", f"remove {name}")


def _cut(unit: Unit, unit_bytes: int, schemas: list[pa.Schema]) -> list[Unit]:
    """The unit's parts; the unit itself if it is small, cannot be cut, or is broken in a way that reading
    will tell.
    """
    if unit.fault is not None:
        return [unit]
    ranges: Sequence[tuple[int, ...]] = []
    sizes: list[int] = []
    try:
        if unit.format == "dataset":
            dataset = open_dataset(unit.spec, unit.path)
            schemas.append(arrow_schema(dataset))
            ranges = row_ranges(dataset, unit_bytes)
            sizes = [dataset.data.nbytes * (end - start) // max(1, len(dataset)) for start, end, *_ in ranges]
        elif unit.format == "parquet" and not unit.codec:
            with open(unit.path, "rb") as file:
                parquet = open_parquet(file)
                schemas.append(parquet.schema_arrow)
                ranges = row_group_ranges(parquet, unit_bytes)
                groups = [
                    parquet.metadata.row_group(n).total_byte_size
                    for n in range(parquet.metadata.num_row_groups)
                ]
            sizes = [sum(groups[start:end]) for start, end, *_ in ranges]
        elif unit.size > unit_bytes and unit.format == "wikipedia":
            ranges = dump_ranges(unit.path, unit.codec, unit.size, unit_bytes)
        elif unit.size > unit_bytes and not unit.codec and _has_rows_by_line(unit):
            ranges = line_ranges(unit.path, unit.size, unit_bytes)
    except ConnectionError as error:
        raise InputError(
            _WHERE, f"{unit.path}: {error}", "check the network, or save the data set to disk"
        ) from error
    except (OSError, pa.ArrowException, MemoryError):
        return [unit]
    if len(ranges) < 2:
        return [unit]
    sizes = sizes or [end - start for start, end, *_ in ranges]
    return [replace(unit, part=tuple(part), size=size) for part, size in zip(ranges, sizes)]


def _has_rows_by_line(unit: Unit) -> bool:
    if (unit.format == "text" and unit.spec.documents != "line") or unit.format not in ("text", "jsonl"):
        return False
    with open(unit.path, "rb") as file:
        head = file.read(1 << 16)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False  # UTF-16: a line feed is two bytes
    first = next((line for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()), b"")
    return unit.format == "text" or not_lines(first) is None
