"""One corrupted passage made by hand, for tests of what a preview shows of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerFast

from corruption.frames import Frame
from corruption.ragged import Batch, Ragged, per_row
from corruption.vocabulary import Vocabulary
from pipelines.preview_page import Page
from pipelines.preview_rows import Line, Row, rows
from pipelines.preview_spelling import Spelling


def ids(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """A text's tokens."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def corrupted(
    original: Sequence[int],
    tokens: Sequence[int] | None = None,
    *,
    origin: Sequence[int] | None = None,
    reason: str | None = None,
    unaligned: dict[str, Sequence[int]] | None = None,
    numbers: dict[str, int] | None = None,
    **aligned: Sequence[int],
) -> Batch:
    """A batch of one row. aligned: other columns; unaligned: ragged ones of their own length; numbers: one a row."""
    before = Batch(np.array([1], np.uint64), {"tokens": Ragged.from_rows([list(original)])})
    now = Ragged.from_rows([list(original if tokens is None else tokens)])
    given = aligned if origin is None else {**aligned, "origin": origin}
    columns = {name: now.with_values(np.array(column, np.int32)) for name, column in given.items()}
    columns |= {name: Ragged.from_rows([list(column)]) for name, column in (unaligned or {}).items()}
    columns |= {name: per_row(np.array([number])) for name, number in (numbers or {}).items()}
    after = before.put(tokens=now, **columns)
    return after if reason is None else after.mark(np.array([True]), reason)


def shown(
    tokenizer: PreTrainedTokenizerFast,
    after: Batch,
    sentence_start: Sequence[int] | None = None,
    frame: Frame | None = None,
) -> Row:
    """Its row in a preview."""
    starts = None if sentence_start is None else Ragged.from_rows([list(sentence_start)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    (row,) = rows(
        after, vocabulary, Spelling(tokenizer), titles=["document a"], sentence_start=starts, frame=frame
    )
    return row


def line(row: Row, name: str) -> Line:
    """The row's line of that name."""
    (found,) = [line for line in row.lines if line.name == name]
    return found


def pieces(row: Row, name: str) -> list[tuple[str, str]]:
    """(text, kind) of each piece of a line."""
    return [(piece.text, piece.kind) for piece in line(row, name).pieces]


def below(row: Row, name: str, under: str) -> list[tuple[str, str]]:
    """(text, what stands under it) of the pieces of a line that have something under them."""
    return [(piece.text, piece.under[under]) for piece in line(row, name).pieces if under in piece.under]


def page_of(*found: Row, **more) -> Page:
    """A page of these rows."""
    return Page("small", "recipe small, seed 3", (), found, (("came to", "nothing"),), "[MASK]", **more)
