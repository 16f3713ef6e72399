"""Made-up rows for tests of corruptions: a small vocabulary, batches, strategies, and a digest of a batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from corruption.ragged import Batch, Ragged
from corruption.schema import PASSAGES
from corruption.vocabulary import Vocabulary

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = frozenset(range(5))
SIZE = 60
IDS = {"pad": PAD, "unk": UNK, "cls": CLS, "sep": SEP, "mask": MASK}
VOCABULARY = Vocabulary.from_ids(SIZE, ids=IDS, special=SPECIAL, name="small")
FIRST_SENTINEL = SIZE + 4199
MODES = {"[R]": SIZE + 4200, "[S]": SIZE + 4201, "[X]": SIZE + 4202}
RICH = Vocabulary.from_ids(
    SIZE + 4203,
    ids=IDS,
    special=[*SPECIAL, *range(SIZE, SIZE + 4203)],
    sentinels=tuple(range(FIRST_SENTINEL, SIZE - 1, -1)),
    named=MODES,
    name="rich",
)
"""The small vocabulary with sentinels, counting down from the highest id, and mode tokens."""
LARGE = Vocabulary.from_ids(30_000, ids=IDS, special=SPECIAL, name="large")


def batch(
    rows: Sequence[Sequence[int] | np.ndarray],
    starts: Sequence[Sequence[int] | np.ndarray] | None = None,
    keys: Sequence[int] | None = None,
    copies: Sequence[int] | None = None,
) -> Batch:
    """Rows with word starts (each token a word unless given), keys 1, 2, ... and copies 0 unless given."""
    tokens = Ragged.from_rows([np.asarray(row, np.int32) for row in rows])
    flat = (
        np.ones(len(tokens.values), np.int32)
        if starts is None
        else Ragged.from_rows([np.asarray(row, np.int32) for row in starts]).values
    )
    return Batch(
        np.arange(1, len(rows) + 1, dtype=np.uint64) if keys is None else np.array(keys, np.uint64),
        {"tokens": tokens, "word_start": tokens.with_values(flat)},
        np.zeros(0, np.uint64) if copies is None else np.array(copies, np.uint64),
    )


def random_rows(n: int, longest: int, seed: int, size: int = SIZE) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """n rows of 0 to `longest` ids, one in twenty special, and words of one to three tokens."""
    random = np.random.default_rng(seed)
    rows, starts = [], []
    for _ in range(n):
        length = int(random.integers(0, longest + 1))
        row = random.integers(5, size, length)
        row = np.where(random.random(length) < 0.05, random.integers(0, 5, length), row)
        rows.append(row.astype(np.int32))
        starts.append(np.where(np.arange(length) == 0, 1, random.random(length) < 0.6).astype(np.int32))
    return rows, starts


def sentence_starts(starts: np.ndarray, every: int = 3) -> np.ndarray:
    """int32: a sentence at the first token and at each `every`-th word."""
    words = np.cumsum(starts)
    return ((np.arange(len(starts)) == 0) | ((starts == 1) & (words % every == 0))).astype(np.int32)


def passages(rows: Sequence[np.ndarray], starts: Sequence[np.ndarray], keys: Sequence[int]) -> pa.Table:
    """The rows as passages of a store."""
    n = len(rows)
    return pa.table(
        {
            "key": pa.array(keys, pa.uint64()),
            "doc": pa.array(range(n), pa.uint64()),
            "tokens": pa.array(list(rows), pa.list_(pa.int32())),
            "word_start": pa.array(list(starts), pa.list_(pa.int32())),
            "sentence_start": pa.array(
                [sentence_starts(np.asarray(row)) for row in starts], pa.list_(pa.int32())
            ),
            "mentions": pa.array([[]] * n, PASSAGES.field("mentions").type),
            "label": pa.nulls(n, pa.string()),
        },
        schema=PASSAGES,
    )


def paired(table: pa.Table) -> pa.Table:
    """The passages, each with one of another document beside it."""
    foreign, starts = random_rows(len(table), 20, seed=77)
    foreign = [np.append(row, 9).astype(np.int32) for row in foreign]
    flags = [sentence_starts(np.append(s, 1)) for s in starts]
    words = [np.append(s, 1).astype(np.int32) for s in starts]
    table = table.append_column("foreign_tokens", pa.array(foreign, pa.list_(pa.int32())))
    table = table.append_column("foreign_word_start", pa.array(words, pa.list_(pa.int32())))
    return table.append_column("foreign_sentence_start", pa.array(flags, pa.list_(pa.int32())))


def lists(column: Ragged) -> list[list[int]]:
    """A ragged column as Python lists."""
    return [column.row(i).tolist() for i in range(len(column))]


def digest(found: Batch) -> str:
    """A hash of every byte of a batch: keys, copies, and each column's values and offsets."""
    h = hashlib.blake2b(digest_size=16)
    h.update(found.keys.astype("<u8").tobytes() + found.copies.astype("<u8").tobytes())
    for name in sorted(found.columns):
        column = found.columns[name]
        h.update(name.encode() + column.values.astype("<i4").tobytes() + column.offsets.astype("<i8").tobytes())
    return h.hexdigest()


@st.composite
def batches(draw: st.DrawFn, max_rows: int = 5, max_length: int = 40, special: bool = True) -> Batch:
    """Batches of small rows, empty ones and rows of specials among them, with words and any keys."""
    ids = st.integers(0 if special else 5, SIZE - 1)
    rows = draw(st.lists(st.lists(ids, max_size=max_length), max_size=max_rows))
    starts = [draw(st.lists(st.integers(0, 1), min_size=len(row), max_size=len(row))) for row in rows]
    keys = draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(rows), max_size=len(rows)))
    return batch(rows, starts, keys)
