"""The core of the doors from Python: rows of any shape in, framed ragged columns out, through the kernels of a job.

The same chain, seed, epoch, keys and content give the same bytes as a pretraining run or `papermoth generate` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corruption.arrival import columns_of
from corruption.chain import Chain
from corruption.entrance import Arrived, arrived
from corruption.errors import InputError
from corruption.frames import FRAMES, Frame, missing, suited
from corruption.ragged import Int32, Ragged
from corruption.registry import nearest
from corruption.schema import COLUMNS, REASONS
from corruption.vocabulary import Vocabulary

TYPES = "token_type_ids"

_ASKED = {"pair": "segment", "permutation": "permutation_order", "views": "positive"}
"""What a frame cannot do without."""

_ONE_PIECE = ("single", "encoder_decoder")
"""Frames that keep the input in one piece: inner special tokens, and types of tokens, may stay where they are."""


@dataclass(frozen=True, eq=False)
class Examples:
    """What came of some rows.

    framed: the columns of the usable rows. unusable: int8[rows], 0 or 1 + the place in `schema.REASONS`. used: those
    columns of the rows that are used up. others: the names of the rest.
    """

    framed: dict[str, Ragged]
    unusable: npt.NDArray[np.int8]
    used: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The places of the usable rows, in order."""
        return np.flatnonzero(self.unusable == 0)

    def dropped(self) -> dict[str, int]:
        """How many rows are not among the framed, by the reason."""
        counts = np.bincount(self.unusable, minlength=len(REASONS) + 1)[1:].tolist()
        return {reason: count for reason, count in zip(REASONS, counts) if count}

    def columns(self) -> dict[str, Ragged]:
        """The framed columns, and attention masks of ones in place of those that came."""
        if "attention_mask" not in self.used:
            return self.framed
        ids = self.framed["input_ids"]
        return {**self.framed, "attention_mask": ids.with_values(np.ones_like(ids.values))}


@dataclass(frozen=True, eq=False)
class Door:
    """A chain with all it takes to make examples of rows, but for the epoch. Make one with `Door.of`.

    framing: the frame's name.
    """

    chain: Chain
    vocabulary: Vocabulary
    frame: Frame
    framing: str
    seed: int

    @staticmethod
    def of(chain: Chain, tokenizer: Any, *, seed: int = 0, frame: str | None = None) -> Door:
        """From a Hugging Face fast tokenizer or a `Vocabulary`, and the name of a frame (None: the one that suits).

        Raises InputError when the tokenizer lacks what the chain or the frame needs, or the frame does not fit.
        """
        vocabulary = tokenizer if isinstance(tokenizer, Vocabulary) else Vocabulary.from_tokenizer(tokenizer)
        made, name = _frame(chain, frame)
        chain.check(vocabulary)
        made.check(vocabulary)
        return Door(chain, vocabulary, made, name, seed)

    def examples(self, rows: Any, epoch: int) -> Examples:
        """Corrupted and framed examples of rows: an Arrow table, a mapping of columns, or a list of rows.

        Raises InputError naming the column or the row that cannot be used, and what to do.
        """
        columns = columns_of(rows)
        came = arrived(columns, self.chain, self.vocabulary)
        self._check_inside(came)
        batch, frame = came.batch, self.frame
        typed = came.types is not None and self.framing in _ONE_PIECE
        if came.types is not None and typed and not self.chain.moves:
            batch = batch.put(token_type_ids=came.types)
            frame = FRAMES[self.framing]((*frame.columns, TYPES))
        after = self.chain.apply(batch, seed=self.seed, epoch=epoch, vocabulary=self.vocabulary)
        usable = np.flatnonzero(after.usable)
        framed = frame.apply(after if len(usable) == len(after) else after.take(usable), self.vocabulary)
        if typed:
            framed[TYPES] = _typed(framed, came, usable)
        others = tuple(name for name in columns if name not in came.used)
        check_own(framed, others)
        return Examples(framed, after.unusable, came.used, others)

    def _check_inside(self, came: Arrived) -> None:
        """Special tokens inside a row, or types of a second segment, can only stay where nothing moves."""
        if came.content is None:
            return
        inner = came.content.inner.copy()
        if came.types is not None:
            rows = np.repeat(np.arange(len(inner)), came.types.lengths)
            inner[rows[came.types.values != 0]] = True
        if not inner.any() or (not self.chain.moves and self.framing in _ONE_PIECE):
            return
        row = int(np.flatnonzero(inner)[0])
        found = "special tokens stand inside it" if came.content.inner[row] else "its token_type_ids are not all 0"
        moving = [name for name, step in zip(self.chain.names, self.chain.steps) if step.moves]
        why = f"the step {moving[0]!r} moves tokens" if moving else f"the frame {self.framing!r} makes segments itself"
        raise InputError(f"row {row} of the batch", f"{found}, and {why}", "give each text a row of its own")


def one_a_row(name: str) -> bool:
    """Whether a framed column has one number an example."""
    return name in COLUMNS and COLUMNS[name].per == "row"


def check_own(made: Collection[str], own: Collection[str]) -> None:
    """Raise InputError when rows bring a column that is made here: theirs would be overwritten."""
    for name in made:
        if name in own:
            given = "the rows bring one, and the examples made of them have one of that name"
            raise InputError(f"column {name}", given, "remove it or rename it")


def warn_dropped(reasons: Collection[str], stacklevel: int) -> None:
    """Tell which rows are dropped; Python's own filter shows each line once."""
    for reason in reasons:
        text = f"rows that the chain cannot use are dropped: {reason.replace('_', ' ')}"
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


def _frame(chain: Chain, name: str | None) -> tuple[Frame, str]:
    provides = chain.provides()
    if name is None:
        made = suited(provides)
        return made, next(name for name, kind in FRAMES.items() if type(made) is kind)
    if name not in FRAMES:
        raise InputError("frame", f"unknown frame {name!r}", nearest(name, FRAMES))
    need = _ASKED.get(name)
    if need is not None and need not in provides:
        fitting = ", ".join(other for other in FRAMES if _ASKED.get(other, "") in ("", *provides))
        given = f"{name!r} needs the column {need!r}, which no step of the chain provides"
        raise InputError("frame", given, f"choose one of {fitting}, or leave it out")
    whole = FRAMES[name]()
    return FRAMES[name](tuple(c for c in whole.columns if not missing(whole, (c,), provides))), name


def _typed(framed: dict[str, Ragged], came: Arrived, usable: npt.NDArray[np.int64]) -> Ragged:
    """The rows' own token types over the framed input; 0 throughout where the chain moved tokens."""
    ids, content, types = framed["input_ids"], came.content, came.whole_types
    assert content is not None and types is not None
    if TYPES not in framed:
        return ids.with_values(np.zeros_like(ids.values))
    values: Int32 = framed[TYPES].values.copy()
    starts = content.starts
    ends = starts + content.tokens.lengths
    # Behind the content stands the type of the token that stood there, else that of the content's last token.
    last = np.where(content.last, ends, np.where(ends > starts, ends - 1, -1))[usable]
    values[ids.offsets[1:] - 1] = _at(types, last)
    if len(usable) and (ids.lengths - content.tokens.lengths[usable] == 2).all():
        values[ids.offsets[:-1]] = np.where(content.first[usable], _at(types, starts[usable] - 1), 0)
    return ids.with_values(values)


def _at(column: Ragged, places: npt.NDArray[np.int64]) -> Int32:
    """Values at flat places, 0 at those outside."""
    inside = (places >= 0) & (places < len(column.values))
    found = np.zeros(len(places), np.int32)
    found[inside] = column.values[places[inside]]
    return found
