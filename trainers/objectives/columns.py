"""What each objective reads and counts, as a table that code without torch can read.

An objective that has a row here and no class yet can be previewed and generated offline, not trained.
"""

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
        frame="single",
        perplexity="mlm",
    ),
    "bert": ObjectiveColumns(
        columns=("input_ids", "token_type_ids", "labels", "next_sentence_label"),
        counted={"mlm": "labels", "nsp": "next_sentence_label"},
        needs_tokens=("mask_token", "pad_token"),
        frame="pair",
    ),
    "unilm": ObjectiveColumns(
        columns=("input_ids", "token_type_ids", "labels", "attention_pattern"),
        counted={"mlm": "labels"},
        needs_tokens=("mask_token", "pad_token"),
        frame="pair",
    ),
    "seq2seq": ObjectiveColumns(
        columns=("input_ids", "labels"),
        counted={"seq2seq": "labels"},
        needs_tokens=("pad_token",),
        frame="encoder_decoder",
    ),
    "plm": ObjectiveColumns(
        columns=("input_ids", "token_type_ids", "permutation_order", "labels"),
        counted={"plm": "labels"},
        needs_tokens=("pad_token", "sep_token", "cls_token"),
        frame="permutation",
    ),
    "infonce": ObjectiveColumns(
        columns=("input_ids", "positive_input_ids"),
        counted={},
        needs_tokens=("pad_token",),
        frame="views",
    ),
}
