"""Laws of two segments: sentence pairs and their label, attention patterns and their split."""

from __future__ import annotations

import numpy as np

from corruption.audit.align import back, equal, front, joined, stretch
from corruption.audit.chance import Trial
from corruption.audit.finding import Bools, Evidence, at_rows
from corruption.audit.masking import per_row_sum
from corruption.noise_kinds.attention_pattern import AttentionPattern
from corruption.noise_kinds.sentence_pair import SentencePair
from corruption.ragged import Batch, Int64, Ragged
from corruption.schema import PATTERNS

PAIRS = "sentence pairs"
NEXT = "true next"
BALANCE = "pair balance"
PATTERN = "attention patterns"

_TELLING = 8


def pair_laws(before: Batch | None, after: Batch, step: SentencePair) -> Evidence:
    """Two segments, none empty, and as many labels 1 as 0.

    With the passages: label 0 is the passage as it was; label 1 is another document's text that is not what truly
    follows (task "nsp"), or the two parts swapped (task "sop").
    """
    tokens, label = after.tokens, after.columns["next_sentence_label"].values
    first = _first(after.columns["segment"])
    empty = (first == 0) | (first == tokens.lengths)
    wrong = (label != 0) & (label != 1)
    findings = (
        *at_rows(PAIRS, empty, lambda i: f"the {'first' if first[i] == 0 else 'second'} segment is empty"),
        *at_rows(PAIRS, wrong, lambda i: f"label {label[i]} is neither 0 nor 1"),
    )
    n, ones = int((~wrong).sum()), int((label == 1).sum())
    balance = Trial(BALANCE, "pairs with label 1", ones, n, n / 2, n / 2)
    evidence = Evidence(findings, (balance,), frozenset({PAIRS, BALANCE}))
    if before is None:
        return evidence + Evidence(skipped=((NEXT, "what truly follows is not known without the store"),))
    return evidence + _next(before, tokens, first, label, step)


def _next(before: Batch, tokens: Ragged, first: Int64, label: np.ndarray, step: SentencePair) -> Evidence:
    passage = before.tokens
    whole = equal(tokens, passage)
    a, b = front(tokens, first), back(tokens, first)
    rest = back(passage, first)
    follows = equal(front(rest, b.lengths), b) & equal(front(passage, first), a)
    wanted = follows if step.cut == "both" else whole
    findings = at_rows(
        PAIRS, (label == 0) & ~wanted, lambda i: "label 0, but the second segment does not follow the first"
    )
    if step.task == "sop":
        swapped = equal(joined(b, a), passage)
        findings += at_rows(NEXT, (label == 1) & whole, lambda i: "label 1, but the parts are in their true order")
        findings += at_rows(
            PAIRS, (label == 1) & ~whole & ~swapped, lambda i: "label 1, but the parts are not those of the passage"
        )
        return Evidence(findings, laws=frozenset({NEXT}))
    lead = equal(front(passage, first), a)
    # Few tokens of another document may be those that follow by accident; its sentences are other ones all the same.
    true = follows & ((b.lengths == rest.lengths) | (b.lengths >= _TELLING))
    findings += at_rows(PAIRS, (label == 1) & ~lead, lambda i: "the first segment is not the beginning of the passage")
    findings += at_rows(NEXT, (label == 1) & true, lambda i: "label 1, but the second segment is what truly follows")
    if "foreign_tokens" in before.columns:
        other = stretch(before.columns["foreign_tokens"], b)
        findings += at_rows(
            PAIRS, (label == 1) & (other < 0), lambda i: "label 1, but the second segment is not of the other document"
        )
    return Evidence(findings, laws=frozenset({NEXT}))


def pattern_laws(before: Batch | None, after: Batch, step: AttentionPattern) -> Evidence:
    """Each pattern comes as often as asked; those of two segments have two, the others one."""
    pattern, segment = after.columns["attention_pattern"].values, after.columns["segment"]
    first = _first(segment)
    unknown = (pattern < 0) | (pattern >= len(PATTERNS))
    one_way = np.isin(pattern, [1, 2])
    split = first < segment.lengths
    bad: Bools = ~unknown & np.where(one_way, split, ~split | (first == 0))
    findings = (
        *at_rows(PATTERN, unknown, lambda i: f"{pattern[i]} is none of the {len(PATTERNS)} patterns"),
        *at_rows(
            PATTERN, bad, lambda i: f"{PATTERNS[pattern[i]]} with {'two segments' if one_way[i] else 'one segment'}"
        ),
    )
    n, total = len(pattern), sum(step.shares)
    trials = tuple(
        Trial(PATTERN, f"rows of {name}", int((pattern == place).sum()), n, n * share / total, n * share / total)
        for place, (name, share) in enumerate(zip(PATTERNS, step.shares))
    )
    if before is not None:
        same = equal(before.tokens, after.tokens)
        starts = before.columns["sentence_start"]
        some = per_row_sum(starts, starts.values == 1) - (
            starts.values[np.minimum(starts.offsets[:-1], len(starts.values) - 1)] == 1
        )
        at = np.minimum(starts.offsets[:-1] + first, starts.offsets[1:] - 1)
        inside = split & same & (some > 0) & (starts.values[at] != 1)
        findings += at_rows(PATTERN, inside, lambda i: "the second segment begins inside a sentence")
    return Evidence(findings, trials, frozenset({PATTERN}))


def _first(segment: Ragged) -> Int64:
    """int64[rows]: how many tokens stand before the first of segment 1."""
    return segment.lengths - per_row_sum(segment, segment.values == 1)
