"""What each objective reads and counts, as a table that code without torch can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectiveColumns:
    """The data side of an objective.

    columns: what a microbatch must hold. counted: for each loss term the column whose entries other than
    IGNORE are its count, so the count of a step is known before any forward. needs_tokens: what the
    tokenizer must have. frame: how examples are framed. perplexity: the term whose exponential is one, if
    any.
    """

    columns: tuple[str, ...]
    counted: Mapping[str, str]
    needs_tokens: tuple[str, ...]
    frame: str
    perplexity: str | None = None


OBJECTIVE_COLUMNS: dict[str, ObjectiveColumns] = {
    "mlm": ObjectiveColumns(
        columns=("input_ids", "labels"),
        counted={"mlm": "labels"},
        needs_tokens=("mask_token", "pad_token"),
        frame="bert",
        perplexity="mlm",
    ),
}
