"""The chain as a collator: rows of a data set in, corrupted, framed and padded tensors out, in any worker process."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from corruption.arrival import columns_of, plain_numbers
from corruption.chain import Chain
from corruption.door import TYPES, Door, Examples, check_own, one_a_row, warn_dropped
from corruption.errors import InputError
from corruption.padding import padded
from corruption.registry import nearest
from corruption.schema import REASONS
from corruption.vocabulary import Vocabulary

SPENT = ("key", "copy")
"""Columns that decide the noise and are no input of a model."""

_COUNTERS = 65
"""Rows of shared counters: one for this process and one each for up to 64 workers, so that none waits for another."""


@final
class Collator:
    """A collator for a `DataLoader` or a Hugging Face `Trainer`, in place of transformers' own.

    chain: what is done. tokenizer: a Hugging Face fast tokenizer or a `Vocabulary`. seed, epoch: with the key of each
    row they decide the noise, whatever the batch or the worker. frame: the name of a frame, None for the one that
    suits the chain. pad_to: a width for all columns, or one by column, for fixed shapes; without it a column is as wide
    as its longest row. pad_to_multiple_of: widths are rounded up to it. return_tensors: "pt" or "np".

    Padding is always on the right. Rows that the chain cannot use are left out, with a warning for each reason, and
    counted in `dropped`. Of the rows' other columns, those of one number a row go along.
    Raises InputError when arguments do not fit, a batch cannot be used, or no row of it can.
    """

    def __init__(
        self,
        chain: Chain,
        tokenizer: Any,
        *,
        seed: int = 0,
        epoch: int = 0,
        frame: str | None = None,
        pad_to: int | Mapping[str, int] | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: Literal["pt", "np"] = "pt",
    ) -> None:
        self.door = Door.of(chain, tokenizer, seed=seed, frame=frame)
        self.tokenizer = None if isinstance(tokenizer, Vocabulary) else tokenizer  # a Trainer saves it with the model
        self.return_tensors = _known(return_tensors)
        if pad_to_multiple_of is not None and pad_to_multiple_of < 1:
            raise InputError("pad_to_multiple_of", f"{pad_to_multiple_of} is below 1", "give a whole number from 1 on")
        self.multiple = pad_to_multiple_of or 1
        self.widths = _widths(self.door, pad_to, self.multiple)
        # In memory that workers share, however they are started: persistent ones see a new epoch.
        self._epoch = _shared(torch.full((1,), epoch, dtype=torch.int64))
        self._dropped = _shared(torch.zeros((_COUNTERS, len(REASONS)), dtype=torch.int64))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _shared(self._epoch)
        _shared(self._dropped)

    @property
    def epoch(self) -> int:
        """The epoch whose noise the next batch is under."""
        return int(self._epoch[0])

    def set_epoch(self, epoch: int) -> None:
        """The noise of another epoch, in this process and in all workers; call it before iterating."""
        self._epoch[0] = epoch

    @property
    def dropped(self) -> dict[str, int]:
        """How many rows were left out so far, by the reason, by this process and its workers."""
        return {reason: count for reason, count in zip(REASONS, self._dropped.sum(0).tolist()) if count}

    def __call__(
        self, features: Sequence[Any] | Mapping[str, Any], return_tensors: Literal["pt", "np"] | None = None
    ) -> dict[str, Any]:
        """A batch of rows as int64[rows, width] (int64[rows] for one number an example) and attention masks.

        features: a list of rows, each a mapping or bare ids; or columns; of lists, arrays or tensors.
        """
        kind = self.return_tensors if return_tensors is None else _known(return_tensors)
        columns = columns_of(features)
        examples = self._examples(columns)
        self._count(examples)
        arrays: dict[str, Any] = dict(padded(examples.framed, self.door.vocabulary, self._fit(examples)))
        others = [name for name in examples.others if name not in SPENT]
        check_own(arrays, others)
        left = []
        for name in others:
            numbers = plain_numbers(columns[name])
            if numbers is not None:
                arrays[name] = numbers[examples.rows]
            elif name == "labels":
                raise InputError("column labels", "it is not one number a row, and no frame pads it", "leave it out")
            else:
                left.append(name)
        if left:
            text = f"columns that do not hold one number a row are left out: {', '.join(left)}"
            warnings.warn(text, UserWarning, stacklevel=2)
        return arrays if kind == "np" else {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _examples(self, columns: Mapping[str, Any]) -> Examples:
        try:
            return self.door.examples(columns, self.epoch)
        except InputError as error:
            if error.where.startswith("column") and "the rows have none" in error.given:
                do = f"{error.do}; a Trainer hands it on with remove_unused_columns=False"
                raise InputError(error.where, error.given, do) from None
            raise

    def _count(self, examples: Examples) -> None:
        dropped = examples.dropped()
        if not dropped:
            return
        worker = get_worker_info()
        mine = self._dropped[0 if worker is None else 1 + worker.id % (_COUNTERS - 1)]
        for reason, count in dropped.items():
            mine[REASONS.index(reason)] += count
        if not len(examples.rows):
            told = ", ".join(reason.replace("_", " ") for reason in dropped)
            given = f"none of its {len(examples.unusable)} rows can be used: {told}"
            raise InputError("batch", given, "leave such rows out of the data set, or make batches larger")
        warn_dropped(dropped, stacklevel=3)

    def _fit(self, examples: Examples) -> dict[str, int]:
        """The width of each column of a batch."""
        widths = {}
        for name, column in examples.framed.items():
            if one_a_row(name):
                continue
            longest = int(column.lengths.max())
            width = self.widths.get(_sequence(self.door, name))
            if width is not None and longest > width:
                row = examples.rows[int(column.lengths.argmax())]
                given = f"its {name} are {longest} with special tokens, and pad_to is {width}"
                raise InputError(f"row {row} of the batch", given, "cut passages beforehand, or raise pad_to")
            widths[name] = -(-longest // self.multiple) * self.multiple if width is None else width
        return widths


def _shared(tensor: Tensor) -> Tensor:
    moved: Tensor = tensor.share_memory_()  # type: ignore[no-untyped-call]
    return moved


def _known(return_tensors: str) -> Literal["pt", "np"]:
    if return_tensors not in ("pt", "np"):
        raise InputError("return_tensors", f"unknown value {return_tensors!r}", "choose one of pt, np")
    return return_tensors  # type: ignore[return-value]


def _sequence(door: Door, column: str) -> str:
    """Columns of one sequence lie over each other and have one width."""
    return door.frame.sequences.get(column, "input")


def _widths(door: Door, pad_to: int | Mapping[str, int] | None, multiple: int) -> dict[str, int]:
    """Sequence -> its fixed width."""
    columns = [name for name in (*door.frame.columns, TYPES) if not one_a_row(name)]
    if pad_to is None:
        return {}
    given = dict.fromkeys(columns, pad_to) if isinstance(pad_to, int) else dict(pad_to)
    widths: dict[str, int] = {}
    for name, width in given.items():
        if name not in columns:
            raise InputError("pad_to", f"no column {name!r} is padded", nearest(name, columns))
        if width < 1 or width % multiple:
            do = "give a width from 1 on" if width < 1 else f"give a multiple of pad_to_multiple_of, {multiple}"
            raise InputError("pad_to", f"{width} is no width for {name}", do)
        if widths.setdefault(_sequence(door, name), width) != width:
            raise InputError("pad_to", f"{name} is to be {width} wide, and lies over another width", "give one width")
    return widths
