"""A passage of another document beside each passage, for the corruptions that compare the two.

It is drawn by key among the passages of other documents in the same row group; where that holds one document only,
the next row group of the store that holds another is used, wrapping round. So it is found without looking further, and
is the same whoever reads the row group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corruption.errors import InputError
from corruption.noise import rank_bits, stream
from corruption.schema import FOREIGN
from pipelines.store import RowGroups, Store

STORED = {
    "foreign_tokens": "tokens",
    "foreign_word_start": "word_start",
    "foreign_sentence_start": "sentence_start",
}
"""Foreign column -> the stored column it is taken from."""

_READ = ("doc", *STORED.values())


def stored_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """What must be read from the store for a chain's columns: foreign ones need those they are taken from."""
    own = [name for name in columns if name not in FOREIGN]
    return tuple(dict.fromkeys([*own, *(_READ if FOREIGN[0] in columns else ())]))


def attach(store: Store, part: RowGroups, group: int, table: pa.Table, *, seed: int, epoch: int, copy: int) -> pa.Table:
    """The row group's table with the columns of `schema.FOREIGN`.

    part: the part of the store (training or held-out) that `group` counts in. Random: the choice, from seed, epoch,
    key and copy. Raises InputError when the part holds one document only.
    """
    found = _attached(table, _candidates(store, part, group, table), seed, epoch, copy)
    if found is None:
        raise InputError(
            f"store {store.folder}",
            "all its passages are of one document, and this chain pairs two",
            "prepare a corpus of at least two documents in each part",
        )
    return found


def attach_among(table: pa.Table, *, seed: int, epoch: int) -> pa.Table | None:
    """The same for passages that lie in no store, as if they were one row group; None if they are of one document."""
    return _attached(table, iter([table.select(_READ)]), seed, epoch, 0)


def _attached(table: pa.Table, candidates: Iterator[pa.Table], seed: int, epoch: int, copy: int) -> pa.Table | None:
    """The table with a passage of the first candidates that hold one of another document; None if none do."""
    prefix = stream(seed, "papermoth.foreign", epoch, copy)
    bits = rank_bits(prefix, table["key"].combine_chunks().to_numpy(zero_copy_only=False))
    own = table["doc"].combine_chunks().to_numpy()
    index = np.full(len(table), -1, np.int64)
    others: list[pa.Table] = []
    rows = 0
    for group in candidates:
        found = _draw(own, group["doc"].combine_chunks().to_numpy(), bits)
        index = np.where((index < 0) & (found >= 0), found + rows, index)
        others.append(group.select(STORED.values()))
        rows += len(group)
        if (index >= 0).all():
            break
    else:
        return None
    chosen = pa.concat_tables(others).take(pa.array(index))
    for name, stored in STORED.items():
        table = table.append_column(name, chosen[stored])
    return table


def _candidates(store: Store, part: RowGroups, group: int, table: pa.Table) -> Iterator[pa.Table]:
    """The row group itself, then those behind it, wrapping round."""
    yield table.select(_READ)
    for step in range(1, len(part)):
        other = (group + step) % len(part)
        yield store.read(part.shard[other], [int(part.number[other])], _READ)


def _draw(
    own: npt.NDArray[np.uint64], docs: npt.NDArray[np.uint64], bits: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """For each row the place of one candidate of another document, each equally likely; -1 where there is none."""
    order = np.argsort(docs, kind="stable")
    ordered = docs[order]
    start, end = np.searchsorted(ordered, own, "left"), np.searchsorted(ordered, own, "right")
    others = len(docs) - (end - start)
    drawn = ((bits >> np.uint64(32)) * others.astype(np.uint64) >> np.uint64(32)).astype(np.int64)
    place = np.where(drawn < start, drawn, drawn + (end - start))
    found = np.full(len(own), -1, np.int64)
    some = others > 0
    found[some] = order[place[some]]
    return found
