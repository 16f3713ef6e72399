"""Laws of frames: special tokens stand where a frame puts them and nowhere else; and what lies between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corruption.audit.finding import Bools, Evidence, Finding, at_positions, at_rows
from corruption.audit.masking import per_row_sum
from corruption.frames import Frame
from corruption.frames.encoder_decoder import EncoderDecoder
from corruption.frames.layout import edge
from corruption.frames.pair import SEGMENT_IDS, Pair
from corruption.frames.permutation import Permutation
from corruption.ragged import Int32, Int64, Ragged
from corruption.schema import COLUMNS, PATTERNS
from corruption.vocabulary import Vocabulary

FRAME = "frame"
_WHY = "its frame"
_CONTENT = {"input_ids": "tokens", "positive_input_ids": "positive"}
_CLS_TYPE = 2


@dataclass(frozen=True)
class Content:
    """Examples without their frame: columns as a chain makes them, of the rows whose frame is sound.

    `written` is what the decoder must write, where there is one. places: where each token of `tokens` stands in
    `input_ids`. rows: int64, which rows of the examples these are.
    """

    columns: Mapping[str, Ragged]
    places: Ragged
    rows: Int64
    evidence: Evidence


def content_of(examples: Mapping[str, Ragged], frame: Frame, vocabulary: Vocabulary) -> Content:
    """The framed columns taken apart, and what is wrong with a frame; rows where anything is are left out."""
    ids = examples["input_ids"]
    lead, tail = _edges(frame, vocabulary)
    findings: list[Finding] = []
    sound = np.ones(len(ids), np.bool_)

    def hold(bad: Bools, given: str) -> None:
        findings.extend(at_rows(FRAME, bad & sound, lambda i: given))
        np.logical_and(sound, ~bad, out=sound)

    for name, column in examples.items():
        if COLUMNS[name].per == "row":
            hold(column.lengths != 1, f"{name} is not one number")
        elif name not in frame.sequences:
            hold(column.lengths != ids.lengths, f"{name} is not as long as input_ids")
        if COLUMNS[name].pad == "pad" or name in frame.sequences:
            outside = (column.values < 0) | (column.values >= vocabulary.size)
            hold(per_row_sum(column, outside) > 0, f"{name} holds a number that is no id of the tokenizer")
            hold(~_begins_and_ends(column, lead, tail), f"{name} does not begin and end as its frame does")
    if isinstance(frame, Pair):
        hold(_marks(ids, tail[0]) > 2, "there are more than two [SEP]")
    rows = np.flatnonzero(sound)
    kept = {name: column.take(rows) for name, column in examples.items()}
    columns, text = _apart(kept, frame, lead, tail)
    for name in {"tokens", "written", "positive"} & columns.keys():
        marks = np.array([i for i in (vocabulary.pad, *lead, *tail) if i is not None], np.int32)
        inside = np.isin(columns[name].values, marks)
        findings += at_positions(
            FRAME, inside, columns[name], lambda i: "padding, or a token of the frame, stands inside the text"
        )
    findings += _between(kept, text, frame)
    ids = kept["input_ids"]
    place = np.arange(len(ids.values)) - np.repeat(ids.offsets[:-1], ids.lengths)
    places = columns["tokens"].with_values(place[text].astype(np.int32))
    return Content(columns, places, rows, Evidence(tuple(findings), laws=frozenset({FRAME})))


def _edges(frame: Frame, vocabulary: Vocabulary) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that a sequence begins and ends with."""
    if isinstance(frame, EncoderDecoder):
        first = vocabulary.bos if vocabulary.bos is not None else vocabulary.cls
        return (() if first is None else (first,)), (edge(vocabulary, "eos", "sep", _WHY),)
    if isinstance(frame, Permutation):
        return (), (vocabulary.need("sep", _WHY), vocabulary.need("cls", _WHY))
    return (edge(vocabulary, "cls", "bos", _WHY),), (edge(vocabulary, "sep", "eos", _WHY),)


def _begins_and_ends(column: Ragged, lead: tuple[int, ...], tail: tuple[int, ...]) -> Bools:
    fits: Bools = column.lengths >= len(lead) + len(tail)
    at = [(column.offsets[:-1] + i, number) for i, number in enumerate(lead)]
    at += [(column.offsets[1:] - len(tail) + i, number) for i, number in enumerate(tail)]
    for places, number in at:
        fits[fits] = column.values[places[fits]] == number
    return fits


def _marks(column: Ragged, number: int) -> Int64:
    return per_row_sum(column, column.values == number)


def _apart(
    framed: Mapping[str, Ragged], frame: Frame, lead: tuple[int, ...], tail: tuple[int, ...]
) -> tuple[dict[str, Ragged], Bools]:
    """The columns between the frame's tokens, and bool[T], which positions of `input_ids` are text."""
    ids = framed["input_ids"]
    text = _between_edges(ids, len(lead), len(tail))
    if isinstance(frame, Pair):
        text &= ids.values != tail[0]
    lengths = per_row_sum(ids, text)
    tokens = Ragged.from_lengths(ids.values[text], lengths)
    columns: dict[str, Ragged] = {}
    for name, column in framed.items():
        if COLUMNS[name].per == "row":
            columns[name] = column
        elif name in frame.sequences:
            inside = _between_edges(column, len(lead), len(tail))
            own = "written" if name == "labels" else _CONTENT[name]
            columns[own] = Ragged.from_lengths(column.values[inside], per_row_sum(column, inside))
        elif name != "token_type_ids":
            columns[_CONTENT.get(name, name)] = tokens.with_values(column.values[text])
    if isinstance(frame, Pair):
        behind = _behind_first(ids, tail[0])
        columns["segment"] = tokens.with_values(behind[text].astype(np.int32))
    return columns, text


def _between_edges(column: Ragged, lead: int, tail: int) -> Bools:
    inside = np.ones(len(column.values), np.bool_)
    for i in range(lead):
        inside[column.offsets[:-1] + i] = False
    for i in range(1, tail + 1):
        inside[column.offsets[1:] - i] = False
    return inside


def _behind_first(column: Ragged, number: int) -> Bools:
    """bool[T]: positions behind the first of that id in their row."""
    found = column.values == number
    count = np.cumsum(found) - found
    behind: Bools = count - np.repeat(count[column.offsets[:-1]] if len(column) else count[:0], column.lengths) > 0
    return behind


def _between(framed: Mapping[str, Ragged], text: Bools, frame: Frame) -> tuple[Finding, ...]:
    """What other columns say at the frame's own tokens, and the types of all."""
    findings: tuple[Finding, ...] = ()
    for name, column in framed.items():
        if COLUMNS[name].per == "row" or name in frame.sequences or name == "input_ids":
            continue
        expected = column.values.copy()
        if name == "token_type_ids":
            expected = _types(framed, frame)
        elif name == "permutation_order":
            expected[~text] = -1
            targets = per_row_sum(column, text & (column.values >= 0))
            expected[column.offsets[1:] - 2], expected[column.offsets[1:] - 1] = targets, targets + 1
        else:
            expected[~text] = int(COLUMNS[name].pad)
        findings += at_positions(
            FRAME,
            column.values != expected,
            column,
            lambda i, n=name, c=column, e=expected: f"{n} is {c.values[i]}, its frame has {e[i]}",  # type: ignore[misc]
        )
    return findings


def _types(framed: Mapping[str, Ragged], frame: Frame) -> Int32:
    ids = framed["input_ids"]
    types = np.zeros(len(ids.values), np.int32)
    if isinstance(frame, Permutation):
        types[ids.offsets[1:] - 1] = _CLS_TYPE
    elif isinstance(frame, Pair) and len(ids):
        # The last token is a [SEP] of either segment.
        second = _behind_first(ids, int(ids.values[ids.offsets[1] - 1])).astype(np.int32)
        pattern = np.zeros(len(ids), np.int64)
        if "attention_pattern" in framed:
            pattern = np.clip(framed["attention_pattern"].values, 0, len(PATTERNS) - 1).astype(np.int64)
        table = np.array([SEGMENT_IDS[name] for name in PATTERNS], np.int32)
        types = table[np.repeat(pattern, ids.lengths), second]
    return types
