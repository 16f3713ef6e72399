"""Laws of rows that were cut into input and targets: by sentinels, each once and in order, or in two parts."""

from __future__ import annotations

import numpy as np

from corruption.audit.align import equal, joined
from corruption.audit.chance import Total
from corruption.audit.finding import Bools, Evidence, at_positions, at_rows
from corruption.audit.masking import RATE, per_row_sum
from corruption.noise_kinds.prefix_split import PrefixSplit
from corruption.noise_kinds.span_sentinel import SpanSentinel
from corruption.ragged import Int64, Ragged
from corruption.vocabulary import Vocabulary

SENTINELS = "sentinels"
MODE = "mode token"
ORIGINAL = "original restored"
SPANS = "span lengths"
SPLIT = "split"


def sentinel_laws(
    tokens: Ragged, targets: Ragged, vocabulary: Vocabulary, step: SpanSentinel, original: Ragged | None = None
) -> Evidence:
    """Input and targets hold the same sentinels, the first ones there are, each once and in order; targets begin with
    one and have tokens behind each; put in place of the sentinels they give the original; as many tokens are hidden,
    in as many spans, as rate and mean length ask for.
    """
    body, evidence = without_mode(tokens, vocabulary, step.mode)
    kinds = np.full(vocabulary.size, -1, np.int32)
    kinds[list(vocabulary.sentinels)] = np.arange(len(vocabulary.sentinels))
    shown, written = kinds[body.values], kinds[targets.values]
    spans, told = per_row_sum(body, shown >= 0), per_row_sum(targets, written >= 0)

    def order(column: Ragged, found: np.ndarray) -> Bools:
        """bool[T]: sentinels that are not the next one of their row."""
        marks = found >= 0
        before: Int64 = np.append(0, np.cumsum(marks))
        number = before[:-1] - np.repeat(before[column.offsets[:-1]], column.lengths)
        wrong: Bools = marks & (found != number)
        return wrong

    def say(where: str, column: Ragged) -> object:
        return lambda i: f"sentinel {kinds[column.values[i]]} stands out of order in the {where}"

    starts = targets.offsets[:-1][targets.lengths > 0]
    headless = np.zeros(len(targets.values), np.bool_)
    headless[starts] = written[starts] < 0
    last = np.zeros(len(targets.values), np.bool_)
    last[targets.offsets[1:][targets.lengths > 0] - 1] = True
    follows = np.append(written[1:] >= 0, True)
    bare = (written >= 0) & (last | follows)
    missing = spans != told
    findings = (
        *at_positions(SENTINELS, order(body, shown), body, say("input", body)),  # type: ignore[arg-type]
        *at_positions(SENTINELS, order(targets, written), targets, say("target", targets)),  # type: ignore[arg-type]
        *at_rows(SENTINELS, missing, lambda i: f"the input has {spans[i]} sentinels, the target {told[i]}"),
        *at_positions(SENTINELS, headless, targets, lambda i: "the target does not begin with a sentinel"),
        *at_positions(SENTINELS, bare, targets, lambda i: "a sentinel with nothing behind it in the target"),
    )
    hidden = targets.lengths - told
    n = body.lengths - spans + hidden
    wanted, parts = counts(n, step)
    # A span that lies across the row's end counts as two.
    extra = 1 if step.placement == "uniform" else 0
    off = (hidden != wanted) | (spans < parts) | (spans > parts + extra)
    findings += at_rows(
        RATE,
        off & ~missing,
        lambda i: f"{hidden[i]} of {n[i]} tokens are hidden in {spans[i]} spans, asked for {wanted[i]} in {parts[i]}",
    )
    if step.placement == "anchored":
        first = np.zeros(len(body.values), np.bool_)
        first[body.offsets[:-1][body.lengths > 0]] = True
        findings += at_positions(
            SENTINELS, first & (shown >= 0), body, lambda i: "an anchored row begins with a sentinel"
        )
    laws = {SENTINELS, RATE}
    good = np.flatnonzero(~missing & ~off & (spans == parts))
    trials = _lengths(written, targets, good, hidden, parts) if len(good) else ()
    evidence += Evidence(findings, trials, frozenset(laws))
    if original is not None:
        restored = merged(body, targets, kinds)
        bad = ~equal(restored, original)
        evidence += Evidence(
            at_rows(ORIGINAL, bad, lambda i: "input and target do not give the original back"),
            laws=frozenset({ORIGINAL}),
        )
    return evidence


def _lengths(written: np.ndarray, targets: Ragged, rows: Int64, hidden: Int64, parts: Int64) -> tuple[Total, ...]:
    """Spans of one token: all ways to cut m tokens into s spans being equally likely, s (s - 1) / (m - 1) of them."""
    marks = np.flatnonzero(written >= 0)
    row = np.searchsorted(targets.offsets, marks, side="right") - 1
    size = np.diff(np.append(marks, len(written)))
    last = np.append(row[1:] != row[:-1], True)
    size[last] = targets.offsets[row[last] + 1] - marks[last]
    single = np.bincount(row, size == 2, len(targets))
    free = rows[(parts[rows] > 1) & (hidden[rows] > parts[rows])]
    m, s = hidden[free].astype(float), parts[free].astype(float)
    return (Total.of(SPANS, "spans of one token", single[free], s * (s - 1) / (m - 1), float(s.max(initial=1.0))),)


def prefix_laws(
    tokens: Ragged, targets: Ragged, vocabulary: Vocabulary, step: PrefixSplit, original: Ragged | None = None
) -> Evidence:
    """Input and targets are the two parts of the original, neither empty, split at each allowed place equally often."""
    body, evidence = without_mode(tokens, vocabulary, step.mode)
    n = body.lengths + targets.lengths
    part = targets.lengths if step.rate <= 0.5 else body.lengths
    most = np.minimum(np.maximum(np.rint(2.0 * min(step.rate, 1.0 - step.rate) * n).astype(np.int64), 2), n) - 1
    bad = (part < 1) | (part > most)
    findings = at_rows(
        SPLIT,
        bad,
        lambda i: f"a row of {n[i]} tokens has {targets.lengths[i]} in its target, the drawn part has 1 to {most[i]}",
    )
    free = ~bad & (most > 1)
    place = (part[free] - 1) / (most[free] - 1)
    total = Total.of(SPLIT, "places of the split, 0 is the first and 1 the last", place, np.full(len(place), 0.5), 1.0)
    evidence += Evidence(findings, (total,), frozenset({SPLIT}))
    if original is not None:
        lost = ~equal(joined(body, targets), original)
        evidence += Evidence(
            at_rows(ORIGINAL, lost, lambda i: "input and target are not the original in two parts"),
            laws=frozenset({ORIGINAL}),
        )
    return evidence


def without_mode(tokens: Ragged, vocabulary: Vocabulary, mode: str | None) -> tuple[Ragged, Evidence]:
    """The rows behind their mode token, and which do not begin with it."""
    if mode is None:
        return tokens, Evidence()
    number = vocabulary.token(mode, "the audit")
    first = np.full(len(tokens), -1, np.int64)
    some = tokens.lengths > 0
    first[some] = tokens.values[tokens.offsets[:-1][some]]
    bad = first != number
    keep = np.ones(len(tokens.values), np.bool_)
    keep[tokens.offsets[:-1][~bad]] = False
    body = Ragged.from_lengths(tokens.values[keep], tokens.lengths - ~bad)
    return body, Evidence(at_rows(MODE, bad, lambda i: f"the row does not begin with {mode}"), laws=frozenset({MODE}))


def merged(tokens: Ragged, targets: Ragged, kinds: np.ndarray) -> Ragged:
    """Each sentinel of the input replaced by what stands behind it in the targets."""
    rows = []
    for i in range(len(tokens)):
        written = targets.row(i)
        marks = np.flatnonzero(kinds[written] >= 0)
        behind = {int(written[a]): written[a + 1 : b] for a, b in zip(marks, np.append(marks[1:], len(written)))}
        row = tokens.row(i)
        places = np.flatnonzero(kinds[row] >= 0)
        pieces, at = [], 0
        for place in places.tolist():
            pieces += [row[at:place], behind.get(int(row[place]), row[:0])]
            at = place + 1
        rows.append(np.concatenate([*pieces, row[at:]]))
    return Ragged.from_rows(rows)


def counts(n: Int64, step: SpanSentinel) -> tuple[Int64, Int64]:
    """How many tokens a row of n hides, and in how many spans.

    Source: Raffel et al. 2020, section 3.1.4, and the released random_spans_noise_mask; no more spans than kept tokens.
    """
    hidden = np.clip(np.rint(step.rate * n).astype(np.int64), 1, np.maximum(n - 1, 1))
    spans = np.maximum(np.rint(hidden / step.mean_length).astype(np.int64), 1)
    return hidden, np.minimum(spans, np.minimum(hidden, np.maximum(n - hidden, 1)))
