"""What comes in at a door: columns of rows, found, checked and cut to content, as a batch for a chain.

Rows hold either `tokens`, content only, or `input_ids` as a tokenizer makes them; see `corruption.outer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from corruption.arrival import NO_WORD, numbers, of_text, ragged, word_starts
from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise import keys_of_rows
from corruption.outer import Content, content_of
from corruption.ragged import Batch, Ragged, UInt64
from corruption.schema import FOREIGN
from corruption.vocabulary import Vocabulary

AROUND = ("attention_mask", "special_tokens_mask", "token_type_ids")
"""Columns that a tokenizer makes beside `input_ids`; they mean nothing beside `tokens`."""

OVER = (
    "tokens",
    "input_ids",
    *AROUND,
    "word_ids",
    "word_start",
    "sentence_start",
    "offset_mapping",
    "mentions",
    *FOREIGN,
)
"""Columns that lie over the tokens that come in. They are used up: what comes out has other positions."""

_HOW = {
    "word_start": "give it (1 where a word starts), or word_ids as a fast tokenizer's encoding has them",
    "sentence_start": "give it (1 where a sentence starts, else 0)",
}


@dataclass(frozen=True, eq=False)
class Arrived:
    """batch: the content, its keys and copies, and the columns that the chain reads. content: where it lay in rows of
    `input_ids`, None for `tokens`. types: token types of the content, where the rows have them. used: the names of the
    columns that are used up.
    """

    batch: Batch
    content: Content | None
    types: Ragged | None
    whole_types: Ragged | None
    used: tuple[str, ...]


def arrived(columns: Mapping[str, Any], chain: Chain, vocabulary: Vocabulary) -> Arrived:
    """The rows of `columns` as a batch for the chain.

    Raises InputError naming the column or row that is missing, misshapen or contradicts another.
    """
    name = _name_of_ids(columns)
    ids = ragged(columns[name], name)
    if len(ids.values) and not 0 <= int(ids.values.min()) <= int(ids.values.max()) < vocabulary.size:
        wrong = int(ids.values.min()) if ids.values.min() < 0 else int(ids.values.max())
        given = f"id {wrong} is not one of {vocabulary.name}'s {vocabulary.size}"
        raise InputError(f"column {name}", given, "use the tokenizer that the rows were made with")
    around = {mask: _aligned(columns, mask, ids) for mask in AROUND if mask in columns}
    content = None
    if name == "input_ids":
        content = content_of(ids, vocabulary, around.get("attention_mask"), around.get("special_tokens_mask"))
    elif around:
        given = "it stands beside tokens, which are content only"
        raise InputError(f"column {next(iter(around))}", given, "remove it, or call the column of ids input_ids")
    tokens = ids if content is None else content.tokens

    def cut(column: Ragged) -> Ragged:
        return tokens.with_values(column.values) if content is None else content.of(column)

    found = {"tokens": tokens}
    for need in chain.columns():
        if need in FOREIGN:
            found[need] = _foreign(columns, need, found, chain, len(ids))
        elif need == "word_start" and need not in columns and "word_ids" in columns:
            found[need] = word_starts(cut(_aligned(columns, "word_ids", ids, NO_WORD)))
        elif need != "tokens":
            if need not in columns:
                given = f"the rows have none, and the step {_needing(chain, need)!r} needs it"
                raise InputError(f"column {need}", given, _HOW.get(need, "give it, a list a row, aligned with the ids"))
            found[need] = cut(_aligned(columns, need, ids))
    types = around.get("token_type_ids")
    used = tuple(over for over in OVER if over in columns and not (over == "tokens" and name == "input_ids"))
    return Arrived(_batch(columns, found), content, None if types is None else cut(types), types, used)


def _name_of_ids(columns: Mapping[str, Any]) -> str:
    tokens, ids = "tokens" in columns, "input_ids" in columns
    if not tokens and not ids:
        raise InputError("rows", "they have neither tokens nor input_ids", "tokenise them first")
    if tokens and ids and not of_text(columns["tokens"]):
        raise InputError("rows", "they have tokens and input_ids, both of ids", "keep one of the two")
    return "input_ids" if ids else "tokens"


def _aligned(columns: Mapping[str, Any], name: str, ids: Ragged, none: int | None = None) -> Ragged:
    column = ragged(columns[name], name, none)
    if len(column) != len(ids):
        raise InputError(f"column {name}", f"it has {len(column)} rows for {len(ids)}", "give columns of equal length")
    differ = np.flatnonzero(column.lengths != ids.lengths)
    if len(differ):
        row = int(differ[0])
        given = f"row {row} of the batch has {column.lengths[row]} numbers for {ids.lengths[row]} ids"
        raise InputError(f"column {name}", given, "give one for each id")
    return column


def _foreign(columns: Mapping[str, Any], name: str, found: Mapping[str, Ragged], chain: Chain, rows: int) -> Ragged:
    if name not in columns:
        given = f"{_needing(chain, name)!r} needs a passage of another document, and this door sees one row at a time"
        do = f"give the columns {', '.join(FOREIGN)}, or use papermoth pretrain or generate"
        raise InputError("corruption", given, do)
    lead = found.get(FOREIGN[0])
    if lead is not None:
        column = _aligned(columns, name, lead)
        return lead.with_values(column.values)
    column = ragged(columns[name], name)
    if len(column) != rows:
        raise InputError(f"column {name}", f"it has {len(column)} rows for {rows}", "give columns of equal length")
    return column


def _needing(chain: Chain, column: str) -> str:
    return next(name for name, step in zip(chain.names, chain.steps) if column in step.needs())


def _batch(columns: Mapping[str, Any], found: dict[str, Ragged]) -> Batch:
    tokens = found["tokens"]
    given: dict[str, UInt64] = {}
    for name in ("key", "copy"):
        if name in columns:
            given[name] = numbers(columns[name], name)
            if len(given[name]) != len(tokens):
                told = f"it has {len(given[name])} rows for {len(tokens)}"
                raise InputError(f"column {name}", told, "give columns of equal length")
    keys = given["key"] if "key" in given else keys_of_rows(tokens.values, tokens.offsets)
    return Batch(keys, found, given.get("copy", np.zeros(len(tokens), np.uint64)))
