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
        Column("labels", "token", IGNORE, "the original id where the model is asked for it, else IGNORE"),
        Column("origin", "token", -1, "index in the original passage of this token, -1 if invented"),
        Column("word_start", "token", 0, "1 where a word starts"),
        Column("sentence_start", "token", 0, "1 where a sentence starts"),
    )
}

MENTION = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("target", pa.string())])
"""A link as tokens: it covers tokens start..end-1 of the passage; target is the linked page's title."""

PASSAGES = pa.schema(
    [
        ("key", pa.uint64()),  # noise.example_key(document key, passage number)
        ("doc", pa.uint64()),  # noise.hash64(document key)
        ("tokens", pa.list_(pa.int32())),  # content only: no [CLS], [SEP], BOS, EOS
        ("word_start", pa.list_(pa.int32())),  # aligned with tokens, 0 or 1
        ("sentence_start", pa.list_(pa.int32())),  # aligned with tokens, 0 or 1
        ("mentions", pa.list_(MENTION)),
        ("label", pa.string()),
    ]
)
"""A row of the store: whole sentences of one document, in order, as content tokens."""
