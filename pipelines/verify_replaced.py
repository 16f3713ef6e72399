"""Rows whose labelled tokens a generator replaced: their laws, and what the store tells of them.

Which tokens a model sampled follows no law that could be checked: it hangs on the machine. That only the selected
ones are other tokens, and that the labels say which, does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from corruption.audit import Evidence
from corruption.audit.finding import Finding, at_positions, at_rows
from corruption.audit.framing import content_of
from corruption.audit.masking import recovered
from corruption.audit.replaced import REPLACED, replaced_laws
from corruption.frames import Frame
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.verify_source import SAME


def replaced_rows(examples: Mapping[str, Ragged], frame: Frame, vocabulary: Vocabulary, made: Batch | None) -> Evidence:
    """The laws of rows with `input_ids` and labels of 0 and 1.

    made: what the chain makes of their passages, which the generator read, row for row; None without the source.
    """
    tokens, labels = examples["input_ids"], examples["labels"]
    apart = labels.lengths != tokens.lengths
    if apart.any():
        found = at_rows(REPLACED, apart, lambda i: f"{labels.lengths[i]} labels for {tokens.lengths[i]} tokens")
        return Evidence(found, laws=frozenset({REPLACED}))
    labels = tokens.with_values(labels.values)
    content = content_of({"input_ids": tokens}, type(frame)(("input_ids",)), vocabulary)
    evidence = content.evidence
    if made is None:
        wrong = (labels.values != 0) & (labels.values != 1)
        bare = tokens.values == (-1 if vocabulary.mask is None else vocabulary.mask)
        findings = at_positions(REPLACED, wrong, labels, lambda i: f"label {labels.values[i]} is neither 0 nor 1")
        findings += at_positions(REPLACED, bare, tokens, lambda i: "a mask token is left")
        skipped = (("replaced tokens", "which tokens are the originals is not known without the store"),)
        return evidence + Evidence(findings, skipped=skipped)
    framed = frame.apply(made, vocabulary)
    read, asked = framed["input_ids"], framed["labels"]
    other = read.lengths != tokens.lengths
    if other.any():
        found = at_rows(SAME, other, lambda i: f"it has {tokens.lengths[i]} tokens, its passage {read.lengths[i]}")
        return evidence + Evidence(found, laws=frozenset({SAME}))
    original = recovered(read, asked)
    evidence += replaced_laws(tokens, labels, original, vocabulary)
    stray: tuple[Finding, ...] = at_positions(
        SAME,
        (asked.values == IGNORE) & (tokens.values != original.values),
        tokens,
        lambda i: f"{tokens.values[i]} stands where {original.values[i]} was not selected",
    )
    reserved = (asked.values != IGNORE) & (vocabulary.rank[np.clip(tokens.values, 0, vocabulary.size - 1)] < 0)
    stray += at_positions(
        REPLACED, reserved, tokens, lambda i: f"{tokens.values[i]} was sampled, which is no ordinary token"
    )
    return evidence + Evidence(stray, laws=frozenset({SAME}))
