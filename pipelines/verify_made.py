"""A data set that `papermoth generate` made, held against its manifest, the laws of its noise, and its store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corruption.audit import Evidence, chain_laws
from corruption.audit.chance import summed
from corruption.audit.finding import Finding, Place, at_rows
from corruption.audit.framing import content_of
from corruption.chain import Chain
from corruption.frames import Frame
from corruption.ragged import Batch, Int64
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.console import Console
from pipelines.data_set import DATA, DataSet
from pipelines.readable import counted
from pipelines.store import ShardDamaged, digest_of
from pipelines.verify_repeats import Repeats
from pipelines.verify_replaced import replaced_rows
from pipelines.verify_source import SAME, Source, Unit, column_of, find_source, sample, units_of

CHECKSUMS, ROWS, TOKENIZER, COUNTS = "checksums", "rows", "tokenizer", "counts"


@dataclass
class Audit:
    """What is gathered while the shards are read, one after the other."""

    data: DataSet
    chain: Chain
    frame: Frame
    vocabulary: Vocabulary
    source: Source | None
    units: dict[tuple[str, int], Unit]
    repeats: Repeats
    evidence: Evidence = field(default_factory=Evidence)
    keys: dict[tuple[str, int, int], list[npt.NDArray[np.uint64]]] = field(default_factory=dict)
    rows: int = 0
    derived: int = 0

    def add(self, evidence: Evidence) -> None:
        """More evidence; trials are added up at once, so that many row groups take no room."""
        found = self.evidence + evidence
        self.evidence = replace(found, trials=tuple(summed(found.trials)))


def audit_made(data: DataSet, store: Path | None, rows: int, console: Console) -> Evidence:
    """Everything that can be checked of a data set; `rows` of them are derived again (0: all).

    store: where its store lies, None for the default place. Raises InputError when `store` is not its store.
    """
    from pipelines.tokenizers import load_tokenizer, tokenizer_fingerprint

    tokenizer = load_tokenizer(str(data.tokenizer))
    vocabulary, recipe = Vocabulary.from_tokenizer(tokenizer), data.recipe()
    chain, frame = recipe.chain(), data.frame()
    source, why = find_source(data, store, chain, frame, vocabulary)
    units = {} if source is None else sample(data, rows)
    audit = Audit(data, chain, frame, vocabulary, source, units, Repeats.of(data, chain, vocabulary))
    if source is None:
        audit.add(Evidence(skipped=((SAME, why),)))
    fingerprint, wanted = tokenizer_fingerprint(tokenizer), data.manifest["tokenizer"]
    if fingerprint != wanted:
        given = f"its fingerprint is {fingerprint}, the manifest says {wanted}"
        audit.add(Evidence((Finding(TOKENIZER, Place("tokenizer"), given),)))
    audit.add(Evidence(_files(data), laws=frozenset({CHECKSUMS, TOKENIZER, ROWS, COUNTS})))
    if data.files != "parquet":
        audit.add(Evidence(skipped=(("the laws of its noise", "it holds texts, not token ids"),)))
    shards = data.shards()
    for number, shard in enumerate(shards):
        _read(audit, shard)
        console.progress("verify", number + 1, len(shards), unit="shards", rows=audit.rows)
    audit.add(_keys(audit))
    if "generator" in data.manifest:
        why = "a model sampled it: which tokens it drew follows no law"
        audit.add(Evidence(skipped=(("the noise of the generator", why),)))
    elif data.files == "parquet":
        audit.add(audit.repeats.evidence())
    again = f", {counted(audit.derived, 'row')} of them derived again" if source is not None else ""
    console.say(f"read {counted(audit.rows, 'row')} in {counted(len(shards), 'shard')}{again}")
    return audit.evidence


def _files(data: DataSet) -> tuple[Finding, ...]:
    """Shards that are missing, cut or changed, and files that the manifest does not know."""
    found = []
    for shard in data.shards():
        path, place = data.path(shard), Place(str(shard["name"]))
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            found.append(Finding(CHECKSUMS, place, "it is missing"))
        elif size != shard["bytes"]:
            found.append(Finding(CHECKSUMS, place, f"it has {size:,} bytes, the manifest says {shard['bytes']:,}"))
        elif digest_of(path) != shard["blake2b"]:
            found.append(Finding(CHECKSUMS, place, "it was changed: its BLAKE2b is not the manifest's"))
    known = {str(shard["name"]) for shard in data.shards()}
    for path in sorted((data.folder / DATA).iterdir() if (data.folder / DATA).is_dir() else ()):
        if path.name not in known:
            found.append(Finding(CHECKSUMS, Place(path.name), "the manifest does not know it"))
    return tuple(found)


def _read(audit: Audit, shard: dict[str, Any]) -> None:
    """One shard: its row groups, as far as they can be read."""
    name, read, found = str(shard["name"]), 0, Counter[str]()
    look = _replaced if "generator" in audit.data.manifest else _examples
    try:
        for place, table, rows in _groups(audit, shard):
            audit.add(_addresses(audit, shard, table, rows))
            if audit.data.files == "parquet":
                found.update(look(audit, shard, place, table, rows))
            else:
                _texts(audit, name, table)
            read += len(table)
        audit.add(Evidence(tuple(_counts(name, shard, found))))
    except ShardDamaged as error:
        audit.add(Evidence((Finding(ROWS, Place(name), _reason(error)),)))
    audit.rows += read


def _groups(audit: Audit, shard: dict[str, Any]) -> Iterator[tuple[int, pa.Table, Int64]]:
    """The row groups of a shard: place, rows, and which rows of the shard these are.

    Where someone has written the shard anew in other row groups, they are put together again by their keys.
    """
    path, units = audit.data.path(shard), units_of(audit.data, shard)
    try:
        as_made = audit.data.files != "parquet" or pq.read_metadata(path).num_row_groups == len(units)
    except (OSError, pa.ArrowException):
        as_made = True
    if as_made or audit.source is None:
        first = 0
        for place, table in enumerate(audit.data.batches(shard)):
            yield place, table, np.arange(first, first + len(table))
            first += len(table)
        return
    whole = audit.data.read(shard)
    keys, copies = (whole[name].combine_chunks().to_numpy(zero_copy_only=False) for name in ("key", "copy"))
    left = np.ones(len(whole), np.bool_)
    for unit in units:
        rows = np.flatnonzero(left & (copies == unit.copy) & np.isin(keys, audit.source.keys(unit)))
        left[rows] = False
        yield unit.place, whole.take(pa.array(rows)), rows
    rest = np.flatnonzero(left)
    if len(rest):
        yield len(units), whole.take(pa.array(rest)), rest


def _examples(audit: Audit, shard: dict[str, Any], place: int, table: pa.Table, rows: Int64) -> dict[str, int]:
    """One row group: its frame, its laws, and what it was made of; counts that the manifest has too."""
    data, chain, name = audit.data, audit.chain, str(shard["name"])
    examples = {column: column_of(table, column) for column in data.columns}
    keys = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
    content = content_of(examples, audit.frame, audit.vocabulary)
    audit.add(content.evidence.within(name, rows))
    copies = np.full(len(content.rows), int(table["copy"][0].as_py()) if len(table) else 0, np.uint64)
    columns = dict(content.columns)
    written = columns.pop("written", None)
    if written is not None and "targets" in chain.provides():
        columns["targets"], written = written, None
    after = Batch(keys[content.rows], columns, copies)
    stages = None
    unit = audit.units.get((name, place))
    if unit is not None and audit.source is not None:
        made = _derived(audit, unit)
        if made:
            differences = audit.source.differences(unit, made[-1], table, rows)
            audit.add(Evidence(differences, laws=frozenset({SAME})))
            audit.derived += len(table)
            if np.array_equal(made[-1].keys, keys):
                stages = [stage.take(content.rows) for stage in made[:-1]]
    laws = chain_laws(
        chain,
        after,
        audit.vocabulary,
        stages=stages,
        written=written,
        seed=data.seed(shard["split"]),
        epoch=int(shard["epoch"]),
    )
    audit.add(laws.within(name, rows[content.rows], content.places))
    audit.repeats.add(shard, after, written)
    labels = after.columns.get("labels")
    labelled = 0 if labels is None else int((labels.values != IGNORE).sum())
    return {"input_tokens": len(after.tokens.values), "labelled": labelled}


def _replaced(audit: Audit, shard: dict[str, Any], place: int, table: pa.Table, rows: Int64) -> dict[str, int]:
    """The same of a row group whose labelled tokens a generator replaced."""
    name = str(shard["name"])
    examples = {column: column_of(table, column) for column in audit.data.columns}
    keys = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
    made = None
    unit = audit.units.get((name, place))
    if unit is not None and audit.source is not None and (stages := _derived(audit, unit)):
        made = stages[-1]
        audit.derived += len(table)
        if not np.array_equal(made.keys, keys):
            audit.add(Evidence(audit.source.differences(unit, made, table, rows), laws=frozenset({SAME})))
            made = None
    evidence = replaced_rows(examples, audit.frame, audit.vocabulary, made)
    audit.add(evidence.within(name, rows))
    return {"replaced": int((examples["labels"].values == 1).sum())}


def _derived(audit: Audit, unit: Unit) -> list[Batch]:
    """The stages of a unit; none, and said so once, where the store is damaged."""
    assert audit.source is not None
    try:
        return audit.source.stages(unit)
    except ShardDamaged as error:
        audit.add(Evidence(skipped=(("the store", str(error)),)))
        return []


def _texts(audit: Audit, name: str, table: pa.Table) -> None:
    """A shard of texts: only what it was made of can be checked."""
    keys = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
    copies = table["copy"].combine_chunks().to_numpy(zero_copy_only=False)
    for (shard, _), unit in audit.units.items():
        if shard == name and audit.source is not None:
            made = _derived(audit, unit)
            if not made:
                return
            rows = np.flatnonzero(np.isin(keys, made[-1].keys) & (copies == unit.copy))
            own = audit.source.differences(unit, made[-1], table.take(pa.array(rows)), rows)
            audit.add(Evidence(own, laws=frozenset({SAME})))
            audit.derived += len(rows)


def _addresses(audit: Audit, shard: dict[str, Any], table: pa.Table, rows: Int64) -> Evidence:
    """Keys, epochs and copies of some rows; keys are kept to find doubles."""
    name, split = str(shard["name"]), str(shard["split"])
    epoch, copy = (table[column].combine_chunks().to_numpy(zero_copy_only=False) for column in ("epoch", "copy"))
    keys = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
    for number in np.unique(copy).tolist():
        audit.keys.setdefault((split, int(shard["epoch"]), number), []).append(keys[copy == number])
    most = int(audit.data.manifest["copies"]) if split == "train" else 1
    findings = (
        *at_rows(
            ROWS, epoch != shard["epoch"], lambda i: f"its epoch is {epoch[i]}, the manifest says {shard['epoch']}"
        ),
        *at_rows(ROWS, (copy < 0) | (copy >= most), lambda i: f"its copy is {copy[i]}, of {most}"),
    )
    return Evidence(findings).within(name, rows)


def _keys(audit: Audit) -> Evidence:
    """Each passage once under each epoch's and copy's noise."""
    findings = []
    for (split, epoch, copy), parts in audit.keys.items():
        keys, counts = np.unique(np.concatenate(parts), return_counts=True)
        double = np.flatnonzero(counts > 1)
        if len(double):
            given = f"the passage {keys[double[0]]} stands {counts[double[0]]} times in epoch {epoch}, copy {copy}"
            findings.append(Finding(ROWS, Place(split), given, len(double)))
    return Evidence(tuple(findings))


def _counts(name: str, shard: dict[str, Any], found: Mapping[str, int]) -> Iterator[Finding]:
    """Counts that the manifest has of the shard and that can be counted in it."""
    for what, number in found.items():
        told = shard["realised"].get(what)
        if told is not None and told != number:
            given = f"{what} is {number:,}, the manifest says {told:,}"
            yield Finding(COUNTS, Place(name), given)


def _reason(error: ShardDamaged) -> str:
    """What is wrong with a shard, without its name and what to do."""
    text = str(error)
    return text[text.find(": ") + 2 : text.rfind(";")]
