"""A corrupted data set that others made, held against the laws that its columns and the user's claims allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corruption.audit import Evidence, Masking, chain_laws
from corruption.audit.align import front
from corruption.audit.chance import summed
from corruption.audit.finding import Bools, Finding, Place, at_positions, at_rows
from corruption.audit.framing import content_of
from corruption.audit.masking import (
    LABELS,
    PADDING,
    RANDOM,
    RATE,
    SHARES,
    SPECIAL,
    label_laws,
    rate_laws,
    recovered,
    replacement_laws,
)
from corruption.audit.repeats import REPEATED, choices, overlap, repeated
from corruption.audit.replaced import REPLACED, replaced_laws
from corruption.audit.words import WORDS, word_laws
from corruption.errors import InputError
from corruption.noise import keys_of_rows
from corruption.ragged import Batch, Int32, Int64, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.console import Console
from pipelines.readable import counted, shown
from pipelines.verify_guess import found_tokenizer, guessed, word_starts
from pipelines.verify_parts import ORIGINALS, Part, PartDamaged, Rows, largest, parts_of, rows_of
from pipelines.verify_repeats import SHARD_ROWS, pairs

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from pipelines.verify import Claims

READABLE = "readable"

_TEXTS = 20_000
"""Rows that are looked through for the same text under two noises."""


@dataclass
class Audit:
    """What is gathered while the parts are read."""

    asked: Masking
    vocabulary: Vocabulary
    tokenizer: PreTrainedTokenizerFast | None
    claims: Claims
    evidence: Evidence = field(default_factory=Evidence)
    counts: np.ndarray = field(default_factory=lambda: np.zeros(5, np.int64))
    heads: list[tuple[str, list[Int32]]] = field(default_factory=list)
    texts: dict[int, list[Int32]] = field(default_factory=dict)
    rows: int = 0

    def add(self, evidence: Evidence) -> None:
        """More evidence; trials are added up at once."""
        found = self.evidence + evidence
        self.evidence = replace(found, trials=tuple(summed(found.trials)))


def audit_foreign(folder: Path, claims: Claims, console: Console) -> Evidence:
    """Everything that can be checked of a data set by its rows, a tokenizer if there is one, and what is claimed.

    Raises InputError when it cannot be read, or a claim cannot be checked without a tokenizer.
    """
    parts = parts_of(folder)
    first = _first(parts, folder)
    tokenizer = found_tokenizer(folder, claims.tokenizer)
    look = _way(first, claims, tokenizer is not None, f"data set {shown(folder)}")
    vocabulary = guessed(first, largest(parts)) if tokenizer is None else Vocabulary.from_tokenizer(tokenizer)
    audit = Audit(claims.masking(), vocabulary, tokenizer, claims)
    if tokenizer is None:
        why = "there is no tokenizer; give --tokenizer"
        audit.add(Evidence(skipped=((SPECIAL, why), (RANDOM, why))))
    for number, part in enumerate(parts):
        row = 0
        try:
            for table in part.read():
                rows = rows_of(table, f"data set {shown(folder)}: {part.name}")
                look(audit, part.name, row, rows)
                row += len(rows)
        except PartDamaged as error:
            audit.add(Evidence((Finding(READABLE, Place(part.name), str(error)),)))
        audit.rows += row
        console.progress("verify", number + 1, len(parts), unit="parts", rows=audit.rows)
    audit.add(Evidence(laws=frozenset({READABLE})))
    if look is _masked:
        audit.add(_hidden(audit) + _repeats(audit))
        console.say(_realised(audit))
    console.say(f"read {counted(audit.rows, 'row')} in {counted(len(parts), 'part')}")
    return audit.evidence


def _first(parts: list[Part], folder: Path) -> Rows:
    """The first rows that there are, to tell what kind of data set it is."""
    why = "it has no rows"
    for part in parts:
        try:
            for table in part.read():
                if len(table):
                    return rows_of(table, f"data set {shown(folder)}: {part.name}")
        except PartDamaged as error:
            why = f"{part.name}: {error}"
    raise InputError(f"data set {shown(folder)}", why, "give one whose rows can be read")


def _way(first: Rows, claims: Claims, named: bool, where: str) -> Callable[[Audit, str, int, Rows], None]:
    """How the rows are looked at: by a recipe, as masked rows, or as replaced tokens; `named`: ids have a tokenizer."""
    if claims.unit == "word" and not named:
        raise InputError("--unit word", "where words start is not known", "give --tokenizer")
    if not claims.masks:
        if not named:
            raise InputError(where, "what the recipe says of ids needs a tokenizer", "give --tokenizer")
        return _chained
    labels = first.labels.values[first.labels.values != IGNORE]
    if first.labels.offsets is not first.tokens.offsets:
        given = "labels are not as long as input_ids, so they are no labels of its positions"
        raise InputError(where, given, "give --recipe, which says how they were made")
    return _replaced if len(labels) and labels.min() >= 0 and labels.max() <= 1 else _masked


def _masked(audit: Audit, part: str, first: int, rows: Rows) -> None:
    """Rows of masked tokens, padding included."""
    tokens, labels, vocabulary, asked = rows.tokens, rows.labels, audit.vocabulary, audit.asked
    if labels.offsets is not tokens.offsets:
        bad = labels.lengths != tokens.lengths
        found = at_rows(LABELS, bad, lambda i: f"{labels.lengths[i]} labels for {tokens.lengths[i]} tokens")
        audit.add(Evidence(found).within(part, np.arange(first, first + len(rows))))
        return
    was = recovered(tokens, labels)
    evidence = label_laws(tokens, labels, vocabulary, rows.original) + _padding(rows, vocabulary)
    evidence += replacement_laws(tokens, labels, vocabulary, asked)
    if audit.tokenizer is None:
        evidence = replace(evidence, laws=evidence.laws - {SPECIAL, RANDOM})
    if asked.rate is None:
        evidence += Evidence(skipped=((RATE, "no rate is asked for; give --rate"),))
    if asked.mask_share is None:
        evidence += Evidence(skipped=((SHARES, "none are asked for; give --mask-share and --random-share"),))
    if asked.unit == "word" and audit.tokenizer is not None:
        starts = word_starts(was, audit.tokenizer, vocabulary)
        evidence += word_laws(tokens, labels, was, starts, vocabulary, asked)
    else:
        evidence += Evidence(skipped=((WORDS, "nobody says that they are masked whole; give --unit word"),))
        if asked.rate is not None:
            evidence += rate_laws(was, labels, vocabulary, asked)
    audit.add(evidence.within(part, np.arange(first, first + len(rows))))
    _keep(audit, part, first, rows, was)


def _padding(rows: Rows, vocabulary: Vocabulary) -> Evidence:
    """What the attention mask leaves out has no label and is the padding token."""
    if rows.real is None:
        return Evidence()
    tokens, labels = rows.tokens, rows.labels
    place = np.arange(len(tokens.values)) - np.repeat(tokens.offsets[:-1], tokens.lengths)
    behind: Bools = place >= np.repeat(rows.real, tokens.lengths)
    findings = at_positions(
        PADDING,
        behind & (labels.values != IGNORE),
        tokens,
        lambda i: "a position that the attention mask leaves out has a label",
    )
    if vocabulary.pad is not None:
        other = behind & (tokens.values != vocabulary.pad) & (labels.values == IGNORE)
        findings += at_positions(
            PADDING, other, tokens, lambda i: f"the attention mask leaves out {tokens.values[i]}, which is no padding"
        )
    return Evidence(findings, laws=frozenset({PADDING}))


def _keep(audit: Audit, part: str, first: int, rows: Rows, was: Ragged) -> None:
    """Counts, the first rows of each part, and rows of one text, for what is looked at in the end."""
    tokens, labels, vocabulary = rows.tokens, rows.labels, audit.vocabulary
    marks = choices(was, labels, vocabulary)
    chosen = labels.values != IGNORE
    hidden = chosen & (tokens.values == (-1 if vocabulary.mask is None else vocabulary.mask))
    kept = chosen & (tokens.values == labels.values)
    found = [int(flags.sum()) for flags in (marks.values > 0, chosen, hidden, chosen & ~hidden & ~kept, kept)]
    audit.counts += np.array(found)
    if not audit.heads or audit.heads[-1][0] != part:
        audit.heads.append((part, []))
    head = audit.heads[-1][1]
    head.extend(marks.row(i).copy() for i in range(min(len(rows), SHARD_ROWS - len(head))))
    if len(audit.texts) < _TEXTS:
        for i, key in enumerate(keys_of_rows(was.values, was.offsets).tolist()):
            audit.texts.setdefault(key, []).append(marks.row(i).copy())


def _replaced(audit: Audit, part: str, first: int, rows: Rows) -> None:
    """Rows whose labels say which tokens were replaced."""
    if rows.original is None:
        why = f"there is no column of the original ids ({', '.join(ORIGINALS)})"
        audit.add(Evidence(skipped=((REPLACED, why),)))
        return
    known = None if audit.tokenizer is None else audit.vocabulary
    evidence = replaced_laws(rows.tokens, rows.labels, rows.original, known)
    audit.add(evidence.within(part, np.arange(first, first + len(rows))))


def _chained(audit: Audit, part: str, first: int, rows: Rows) -> None:
    """Rows that a recipe says how they were made: the laws of its frame and its chain."""
    recipe, pad = audit.claims.recipe, audit.vocabulary.pad
    assert recipe is not None
    frame, chain = recipe.frame(), recipe.chain()
    tokens = _trimmed(rows.tokens, rows.real, pad)
    labels = front(rows.labels, tokens.lengths)
    if "labels" in frame.sequences:
        nothing = np.int32(IGNORE if pad is None else pad)
        filled = np.where(rows.labels.values == IGNORE, nothing, rows.labels.values)
        labels = _trimmed(rows.labels.with_values(filled), None, int(nothing))
    else:
        labels = tokens.with_values(labels.values)
    content = content_of({"input_ids": tokens, "labels": labels}, frame, audit.vocabulary)
    columns = dict(content.columns)
    written = columns.pop("written", None)
    if written is not None and "targets" in chain.provides():
        columns["targets"], written = written, None
    after = Batch(np.arange(len(content.rows)).astype(np.uint64), columns)
    evidence = chain_laws(chain, after, audit.vocabulary, written=written)
    place = np.arange(first, first + len(rows))
    audit.add(content.evidence.within(part, place) + evidence.within(part, place[content.rows], content.places))


def _trimmed(column: Ragged, real: Int64 | None, pad: int | None) -> Ragged:
    """The rows without what the attention mask leaves out, or without the padding at their ends."""
    if real is not None:
        return front(column, real)
    place = np.arange(len(column.values)) - np.repeat(column.offsets[:-1], column.lengths)
    last = np.zeros(len(column), np.int64)
    row = np.repeat(np.arange(len(column)), column.lengths)
    text = column.values != (-1 if pad is None else pad)
    np.maximum.at(last, row[text], place[text] + 1)
    return front(column, last)


def _hidden(audit: Audit) -> Evidence:
    """Something has a label, and something of that was hidden or changed."""
    _, labelled, hidden, random, _ = audit.counts.tolist()
    if labelled == 0:
        return Evidence((Finding(LABELS, Place(), "no position has a label"),))
    if hidden + random == 0 and not (audit.asked.mask_share == audit.asked.random_share == 0.0):
        given = "every label is the token that stands there: nothing was hidden"
        return Evidence((Finding(SHARES, Place(), given),))
    return Evidence()


def _repeats(audit: Audit) -> Evidence:
    """Parts, and rows of one text, that were masked in the same places."""
    findings: list[Finding] = []
    for a, b in pairs(len(audit.heads)):
        (one, rows), (other, others) = audit.heads[a], audit.heads[b]
        n = min(len(rows), len(others))
        trial = overlap(f"{one} and {other}", Ragged.from_rows(rows[:n]), Ragged.from_rows(others[:n]))
        findings += repeated(trial)
    twice = [found for found in audit.texts.values() if len(found) > 1]
    if twice:
        first, second = (Ragged.from_rows([found[i] for found in twice]) for i in (0, 1))
        findings += repeated(overlap("rows of the same text", first, second))
    if len(audit.heads) < 2 and not twice:
        return Evidence(skipped=((REPEATED, "there is one part, and no text comes twice"),))
    return Evidence(tuple(findings), laws=frozenset({REPEATED}))


def _realised(audit: Audit) -> str:
    free, labelled, hidden, random, kept = audit.counts.tolist()
    shares = ", ".join(
        f"{what} {count / max(1, labelled):.3f}"
        for what, count in (("hidden", hidden), ("random", random), ("kept", kept))
    )
    known = "" if audit.tokenizer is not None else " (what is special is guessed)"
    return (
        f"realised: {labelled:,} of {free:,} tokens have a label, rate {labelled / max(1, free):.4f}; {shares}{known}"
    )
