"""The chain as a function for `datasets`: `dataset.map(chain.batched(tokenizer, epoch=0), batched=True)`."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from typing import Any, final

import pyarrow as pa

from corruption.chain import Chain
from corruption.door import Door, Examples, one_a_row, warn_dropped


@final
class Batched:
    """A function of a batch of columns that gives the columns of their examples; made by `Chain.batched`.

    It pickles for `num_proc`, and `datasets` finds its cache again for an equal chain, tokenizer, seed, frame and
    epoch of one release.
    """

    def __init__(self, chain: Chain, tokenizer: Any, *, seed: int, epoch: int, frame: str | None) -> None:
        self.door = Door.of(chain, tokenizer, seed=seed, frame=frame)
        self.epoch = epoch
        self.release = _release()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The framed columns: a list of int32 arrays, or int32[rows] for one number an example.

        In a batch that `datasets` hands in lazily, which may be altered, the columns over the old tokens are taken
        out, and of the others the rows that are left out. Any other mapping stays as it is.
        Raises InputError when the rows cannot be used.
        """
        table = getattr(batch, "pa_table", None)
        lazy = isinstance(batch, MutableMapping) and isinstance(table, pa.Table)
        examples = self.door.examples(_as_arrow(batch, table) if lazy else batch, self.epoch)
        warn_dropped(examples.dropped(), stacklevel=2)
        if lazy:
            _follow(batch, table, examples)  # type: ignore[arg-type]
        return {
            name: column.values if one_a_row(name) else [column.row(i) for i in range(len(column))]
            for name, column in examples.columns().items()
        }


def _as_arrow(batch: Mapping[str, Any], table: pa.Table) -> dict[str, Any]:
    """The columns of a lazy batch, from its table where it has not made Python objects of them.

    It keeps those that it makes, and would have to write them out: slowly, and keys above 2 ** 63 not at all.
    """
    unread = getattr(batch, "keys_to_format", ())
    read = copy(batch)
    return {name: table[name] if name in unread else read[name] for name in batch}


def _follow(batch: MutableMapping[str, Any], table: pa.Table, examples: Examples) -> None:
    """Leave in a lazy batch what may stand beside the examples, less the rows that are left out."""
    rows = examples.rows
    for name in examples.used:
        del batch[name]
    if len(rows) < len(examples.unusable):
        unread = getattr(batch, "keys_to_format", ())
        for name in examples.others:
            lazily = name in unread
            batch[name] = table[name].take(pa.array(rows)) if lazily else [batch[name][row] for row in rows.tolist()]


def _release() -> str:
    try:
        return version("papermoth")
    except PackageNotFoundError:
        return "not installed"
