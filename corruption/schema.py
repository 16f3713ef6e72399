"""The column table: every column's name, shape, padding and meaning, and the Arrow schemas of what is stored.

Polarity is 1 = corrupted, replaced, not next, everywhere. On disk and on the wire every number of a token is
int32; int64 appears only in the padded tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

IGNORE = -100
"""The label of a position that carries none."""

PASSAGE_FORMAT = 1
"""Version of the passage store's layout; a reader refuses a newer one."""


@dataclass(frozen=True)
class Column:
    """One column of an example.

    `per` is "token" (one int32 for each token, ragged) or "row" (one int32 for each example). `pad` is what
    fills a padded position: a number, or "pad" for the tokenizer's pad id.
    """

    name: str
    per: Literal["token", "row"]
    pad: int | Literal["pad"]
    meaning: str


COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column("input_ids", "token", "pad", "ids of the corrupted, framed example"),
        Column("token_type_ids", "token", 0, "segment of each token"),
        Column("labels", "token", IGNORE, "the id asked for here (by the decoder, if there is one), else IGNORE"),
        Column("next_sentence_label", "row", IGNORE, "1 if the second segment does not follow the first, else 0"),
        Column("permutation_order", "token", -1, "place in the order of prediction; -1 is context, seen by all"),
        Column("attention_pattern", "row", 0, "who sees whom: a place in PATTERNS"),
        Column("positive_input_ids", "token", "pad", "ids of the other view of the same passage"),
        Column("origin", "token", -1, "index in the original passage of this token, -1 if invented"),
        Column("word_start", "token", 0, "1 where a word starts"),
        Column("sentence_start", "token", 0, "1 where a sentence starts"),
        Column("segment", "token", 0, "0 in the first segment, 1 in the second"),
        Column("targets", "token", "pad", "content the decoder must write"),
        Column("positive", "token", "pad", "content of the other view"),
    )
}

PATTERNS = ("bidirectional", "left_to_right", "right_to_left", "sequence_to_sequence")
"""The attention patterns, numbered by place."""

STARTS = ("word_start", "sentence_start")
"""Flags that follow the text: see `corruption.edit`."""

FOREIGN = ("foreign_tokens", "foreign_word_start", "foreign_sentence_start")
"""A passage of another document, attached by whoever reads row groups; they are aligned with each other."""

LAST = {
    "segment": "two segments stand in order",
    "permutation_order": "each position has its place in the order",
    "attention_pattern": "the pattern lies over fixed positions",
    "positive": "the two views are made",
}
"""Columns after which no step may change the number or order of tokens, and why."""

REASONS = ("too_short", "one_sentence", "no_other_sentence")
"""Why a passage can be unusable for a chain. A batch keeps, for each row, 0 or 1 + the reason's place."""

MENTION = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("target", pa.string())])
"""A link as tokens: it covers tokens start..end-1 of the passage; target is the linked page's title."""

NUMBERS = pa.list_(pa.field("element", pa.int32(), nullable=False))
"""One number a token. That nothing is ever null lets Parquet write and read it a quarter faster."""

PASSAGES = pa.schema(
    [
        ("key", pa.uint64()),  # noise.example_key(document key, passage number)
        ("doc", pa.uint64()),  # noise.hash64(document key)
        pa.field("tokens", NUMBERS, nullable=False),  # content only: no [CLS], [SEP], BOS, EOS
        pa.field("word_start", NUMBERS, nullable=False),  # aligned with tokens, 0 or 1
        pa.field("sentence_start", NUMBERS, nullable=False),  # aligned with tokens, 0 or 1
        ("mentions", pa.list_(MENTION)),
        ("label", pa.string()),
    ]
)
"""A row of the store: whole sentences of one document, in order, as content tokens."""
