"""A data set that `papermoth generate` made, held against its manifest, the laws of its noise, and its store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corruption.audit import Evidence, chain_laws
from corruption.audit.chance import summed
from corruption.audit.finding import Finding, Place, at_rows
from corruption.audit.framing import content_of
from corruption.chain import Chain
from corruption.frames import Frame
from corruption.ragged import Batch
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.console import Console
from pipelines.data_set import DATA, DataSet
from pipelines.readable import counted
from pipelines.store import ShardDamaged, digest_of
from pipelines.verify_repeats import Repeats
from pipelines.verify_source import SAME, Source, Unit, column_of, find_source, sample

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
    audit.add(_keys(audit) + audit.repeats.evidence())
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
    name, first, labelled, tokens, whole = str(shard["name"]), 0, 0, 0, False
    try:
        for place, table in enumerate(audit.data.batches(shard)):
            audit.add(_addresses(audit, shard, table, first))
            if audit.data.files == "parquet":
                found = _examples(audit, name, shard, place, table, first)
                tokens, labelled = tokens + found[0], labelled + found[1]
            else:
                _texts(audit, name, table)
            first += len(table)
        whole = True
    except ShardDamaged as error:
        audit.add(Evidence((Finding(ROWS, Place(name), _reason(error)),)))
    audit.rows += first
    if whole and audit.data.files == "parquet":
        audit.add(Evidence(tuple(_counts(name, shard, {"input_tokens": tokens, "labelled": labelled}))))


def _examples(
    audit: Audit, name: str, shard: dict[str, Any], place: int, table: pa.Table, first: int
) -> tuple[int, int]:
    """One row group: its frame, its laws, and what it was made of; how many tokens and labels it holds."""
    data, chain = audit.data, audit.chain
    examples = {column: column_of(table, column) for column in data.columns}
    keys = table["key"].combine_chunks().to_numpy(zero_copy_only=False)
    content = content_of(examples, audit.frame, audit.vocabulary)
    audit.add(content.evidence.within(name, np.arange(first, first + len(table))))
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
            differences = audit.source.differences(unit, made[-1], table, first)
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
    audit.add(laws.within(name, first + content.rows, content.places))
    audit.repeats.add(shard, after, written)
    labels = after.columns.get("labels")
    return len(after.tokens.values), 0 if labels is None else int((labels.values != IGNORE).sum())


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
            own = audit.source.differences(unit, made[-1], table.take(pa.array(rows)), 0)
            placed = Evidence(own, laws=frozenset({SAME})).within(name, np.append(rows, len(table)))
            audit.add(placed)
            audit.derived += len(rows)


def _addresses(audit: Audit, shard: dict[str, Any], table: pa.Table, first: int) -> Evidence:
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
    return Evidence(findings).within(name, np.arange(first, first + len(table)))


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


def _counts(name: str, shard: dict[str, Any], found: dict[str, int]) -> Iterator[Finding]:
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
