"""The chain as an ordinary stage over Arrow tables, such as `ray.data`'s `map_batches`."""

from __future__ import annotations

from typing import Any, final

import pyarrow as pa

from corruption.chain import Chain
from corruption.door import Door, one_a_row, warn_dropped
from corruption.errors import InputError


@final
class Corruptor:
    """A function of an Arrow table of rows that gives the table of their examples: framed, unpadded, int32.

    chain: what is done. tokenizer: a Hugging Face fast tokenizer or a `Vocabulary`; only the latter is kept, so it
    pickles small. seed, epoch: with the key of each row they decide the noise. frame: the name of a frame, None for
    the one that suits the chain.

    Columns over the tokens that came in are used up; all others pass through. Rows that the chain cannot use are
    left out, with a warning for each reason.
    Raises InputError when chain, tokenizer and frame do not fit, or a table cannot be used.
    """

    def __init__(
        self, chain: Chain, tokenizer: Any, *, seed: int = 0, epoch: int = 0, frame: str | None = None
    ) -> None:
        self.door = Door.of(chain, tokenizer, seed=seed, frame=frame)
        self.epoch = epoch

    def __call__(self, table: pa.Table) -> pa.Table:
        """The examples of a table's rows, in order, beside the columns that pass through."""
        _check(table)
        examples = self.door.examples(table, self.epoch)
        warn_dropped(examples.dropped(), stacklevel=2)
        kept = table.select(list(examples.others))
        if len(examples.rows) < len(table):
            kept = kept.take(pa.array(examples.rows))
        for name, column in examples.columns().items():
            values = pa.array(column.values) if one_a_row(name) else column.to_arrow()
            kept = kept.append_column(pa.field(name, values.type), values)
        return kept

    def dropped(self, table: pa.Table) -> dict[str, int]:
        """How many of a table's rows are left out, by the reason."""
        _check(table)
        return self.door.examples(table, self.epoch).dropped()


def _check(table: Any) -> None:
    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        given = f"it was given a {type(table).__name__}, not an Arrow table"
        raise InputError("Corruptor", given, 'call map_batches with batch_format="pyarrow"')
