"""Laws of replaced-token detection: a token is labelled as replaced if, and only if, it differs from the original."""

from __future__ import annotations

from corruption.audit.finding import Evidence, at_positions
from corruption.ragged import Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

REPLACED = "replaced tokens"


def replaced_laws(tokens: Ragged, labels: Ragged, original: Ragged, vocabulary: Vocabulary | None = None) -> Evidence:
    """Labels are 1 where the token is not the original, 0 where it is, IGNORE where nothing is asked.

    With a vocabulary: no mask token is left, and special tokens are as they were.
    """
    shown, asked, was = tokens.values, labels.values, original.values
    counted = asked != IGNORE
    other = shown != was
    findings = (
        *at_positions(
            REPLACED, counted & (asked != 0) & (asked != 1), labels, lambda i: f"label {asked[i]} is neither 0 nor 1"
        ),
        *at_positions(
            REPLACED, (asked == 1) & ~other, labels, lambda i: f"labelled as replaced, but {shown[i]} is the original"
        ),
        *at_positions(
            REPLACED, (asked == 0) & other, labels, lambda i: f"labelled as original, but {was[i]} became {shown[i]}"
        ),
        *at_positions(REPLACED, ~counted & other, labels, lambda i: f"no label, but {was[i]} became {shown[i]}"),
    )
    if vocabulary is not None:
        fixed = (vocabulary.fixed[was] == 1) & other
        findings += (
            *at_positions(REPLACED, shown == vocabulary.mask, tokens, lambda i: "a mask token is left"),
            *at_positions(REPLACED, fixed, tokens, lambda i: f"the special token {was[i]} was replaced"),
        )
    return Evidence(findings, laws=frozenset({REPLACED}))
