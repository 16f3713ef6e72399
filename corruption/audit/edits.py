"""Laws of rows that lost tokens or got others: what stays is the original in order, and as much as was asked for."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from corruption.audit.align import common, gapped, stretch, subsequence
from corruption.audit.chance import Total, Trial
from corruption.audit.finding import Evidence, at_positions, at_rows
from corruption.audit.masking import (
    RATE,
    SHARES,
    Masking,
    budget,
    count_laws,
    label_laws,
    per_row_sum,
    rate_laws,
    replacement_laws,
)
from corruption.audit.sentinels import SPANS
from corruption.audit.words import WORDS, word_laws
from corruption.noise_kinds.crop import Crop
from corruption.noise_kinds.delete import Delete
from corruption.noise_kinds.infill import Infill
from corruption.noise_kinds.insert_random import InsertRandom
from corruption.noise_kinds.replace_random import ReplaceRandom
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

ALIGNMENT = "alignment"
_MASKS = "masks"


def infill_laws(before: Batch, after: Ragged, vocabulary: Vocabulary, step: Infill) -> Evidence:
    """With a stretch of text for each mask, perhaps none, the row is the original; placement "disjoint" covers as many
    tokens as asked, no two masks meet, and there are as many as spans of such lengths make.

    With random_share above 0 nobody can tell random tokens from kept ones: as many tokens as are kept must stand in
    order in both rows.
    """
    was = before.tokens
    mask = -1 if vocabulary.mask is None else vocabulary.mask
    masks = after.values == mask
    m, n, k = per_row_sum(after, masks), was.lengths, after.lengths
    clear = step.random_share == 0.0
    laws = {ALIGNMENT}
    skipped: tuple[tuple[str, str], ...] = ()
    findings = at_rows(ALIGNMENT, k > np.maximum(n, 1), lambda i: f"{n[i]} tokens became {k[i]}")
    if clear:
        bad = ~gapped(was, after, mask)
        findings += at_rows(
            ALIGNMENT, bad, lambda i: "no stretches of text in place of the masks give the original back"
        )
    trials: tuple[Total, ...] = ()
    if step.placement == "disjoint" and step.unit == "token" and step.count == "exact":
        covered = budget(n, step.rate)
        laws |= {RATE}
        if clear:
            off = k - m != n - covered
            findings += at_rows(
                RATE,
                off,
                lambda i: f"{k[i] - m[i]} of {n[i]} tokens are left, rate {step.rate} leaves {n[i] - covered[i]}",
            )
        else:
            few = common(was, after) < n - covered
            findings += at_rows(
                ALIGNMENT,
                few,
                lambda i: f"fewer than the {n[i] - covered[i]} tokens that rate {step.rate} keeps stand in order",
            )
        table = step.lengths.table()
        mean = float((1.0 - table).sum())
        # Where rows are short or spans many, some are joined or left out, and their number is no longer the law's.
        roomy = (covered > 0) & (3 * covered <= n) & (mean >= 2.0)
        if mean >= 2.0:
            most = int(covered.max(initial=0))
            expected = _expected_spans(tuple(table.tolist()), most)[covered[roomy]]
            made = k[roomy] - (n - covered)[roomy]
            trials = (Total.of(SPANS, "spans, those of length 0 among them", made, expected, float(most)),)
            laws |= {SPANS}
    else:
        skipped = ((RATE, f"of infill with {_which(step)}: what a row's masks cover cannot be told from the row"),)
    if step.placement == "disjoint" and clear:
        meet = masks & np.append(masks[1:], False)
        meet[after.offsets[1:][k > 0] - 1] = False
        findings += at_positions(_MASKS, meet, after, lambda i: "two masks stand side by side")
        laws |= {_MASKS}
    return Evidence(findings, trials, frozenset(laws), skipped)


def _which(step: Infill) -> str:
    if step.placement != "disjoint":
        return f"placement {step.placement}"
    return f"unit {step.unit}" if step.unit != "token" else f"count {step.count}"


@lru_cache(maxsize=8)
def _expected_spans(table: tuple[float, ...], most: int) -> np.ndarray:
    """float64[most + 1]: how many spans are drawn on average until they cover so many tokens."""
    shares = np.diff(np.array([0.0, *table]))
    found = np.zeros(most + 1)
    lengths = np.arange(1, len(shares))
    for covered in range(1, most + 1):
        left = covered - lengths
        found[covered] = (1.0 + (shares[1:] * found[np.maximum(left, 0)])[left > 0].sum()) / (1.0 - shares[0])
    return found


def delete_laws(before: Ragged, after: Ragged, vocabulary: Vocabulary, step: Delete) -> Evidence:
    """The row is the original with tokens left out, as many as asked, never all of them and no special one."""
    n, k = before.lengths, after.lengths
    fixed, still = vocabulary.fixed[before.values] == 1, vocabulary.fixed[after.values] == 1
    lost = per_row_sum(before, fixed) != per_row_sum(after, still)
    findings = (
        *at_rows(ALIGNMENT, ~subsequence(before, after), lambda i: "the row is not the original with tokens left out"),
        *at_rows(ALIGNMENT, lost, lambda i: "a special token was deleted"),
        *at_rows(ALIGNMENT, (k == 0) & (n > 0), lambda i: "nothing is left"),
    )
    evidence = Evidence(findings, laws=frozenset({ALIGNMENT}))
    if step.unit == "word":
        why = "of whole words: which words went cannot be told from the row"
        return evidence + Evidence(skipped=((RATE, why),))
    free = per_row_sum(before, ~fixed)
    return evidence + count_laws(free, n - k, step.rate, step.count, "are deleted", spare=free == n)


def insert_laws(before: Ragged, after: Ragged, vocabulary: Vocabulary, step: InsertRandom) -> Evidence:
    """The original is the row with tokens left out: as many as asked, masks among them as often as asked."""
    n, k = before.lengths, after.lengths - before.lengths
    mask = -1 if vocabulary.mask is None else vocabulary.mask
    masks = int((after.values == mask).sum()) - int((before.values == mask).sum())
    total = int(np.maximum(k, 0).sum())
    findings = at_rows(
        ALIGNMENT, ~subsequence(after, before), lambda i: "the original does not stand in the row in order"
    )
    trial = Trial(SHARES, "inserted masks", masks, total, step.mask_share * total, step.mask_share * total)
    evidence = Evidence(findings, (trial,), frozenset({ALIGNMENT, SHARES}))
    return evidence + count_laws(n, k, step.rate, step.count, "have an insertion")


def replace_laws(before: Batch, after: Ragged, vocabulary: Vocabulary, step: ReplaceRandom) -> Evidence:
    """As many tokens as asked are others, whole words of them where asked, and no special one is touched or put in."""
    was = before.tokens
    labels = was.with_values(np.where(was.values != after.values, was.values, np.int32(IGNORE)))
    asked = Masking(step.rate, step.count, step.unit, 0.0, 1.0)
    evidence = label_laws(after, labels, vocabulary, was) + replacement_laws(after, labels, vocabulary, asked)
    if step.unit == "token":
        return evidence + rate_laws(was, labels, vocabulary, asked)
    if "word_start" not in before.columns:
        return evidence + Evidence(skipped=((WORDS, "where words start is not known without the passages"),))
    return evidence + word_laws(after, labels, was, before.columns["word_start"], vocabulary, asked)


def crop_laws(before: Ragged, after: Ragged, step: Crop) -> Evidence:
    """The row is one stretch of the original, as long as the rate leaves, from each place equally often."""
    n, k = before.lengths, after.lengths
    wanted = n - np.minimum(budget(n, step.rate), np.maximum(n - 1, 0))
    place = stretch(before, after)
    findings = (
        *at_rows(ALIGNMENT, place < 0, lambda i: "the row is not one stretch of the original"),
        *at_rows(RATE, k != wanted, lambda i: f"{k[i]} of {n[i]} tokens are left, rate {step.rate} leaves {wanted[i]}"),
    )
    return Evidence(findings, laws=frozenset({ALIGNMENT, RATE}))
