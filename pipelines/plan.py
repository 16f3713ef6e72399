"""The order of everything: one endless sequence of microbatches, a pure function of (store, seed, geometry).

Epoch by epoch, the store's row groups are permuted by keyed draws and grouped into windows. A window's rows
are formed into microbatches by descending length, so the number of microbatches is a function of the window's
histogram of stored lengths, which the manifest keeps. So a place in the sequence is an address (epoch,
window, number) that needs no earlier row, and membership never depends on the noise: two corruptions can be
compared on the same examples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from corruption.errors import InputError
from corruption.noise import draw, rank_bits, stream
from pipelines.store import RowGroups

PLAN_ROWS = pa.schema(
    [
        ("epoch", pa.int32()),
        ("window", pa.int32()),
        ("skip", pa.int32()),
        ("windows", pa.int32()),
        ("row_group", pa.list_(pa.int32())),
        ("copy", pa.list_(pa.int32())),
        ("share", pa.list_(pa.float64())),
    ]
)


class Address(NamedTuple):
    """The place of a microbatch in the endless sequence."""

    epoch: int
    window: int
    number: int


@dataclass(frozen=True)
class Epoch:
    """An epoch's appearances of row groups, in order; window w is `part(w)`.

    row_group: int64[n], indices into the store's training row groups. copy: int64[n]. share: float64[n],
    below 1 where only a keyed share of the rows appears.
    """

    number: int
    row_group: npt.NDArray[np.int64]
    copy: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]
    per_window: int

    @property
    def windows(self) -> int:
        """How many windows the epoch has; the last may hold fewer row groups."""
        return -(-len(self.row_group) // self.per_window)

    def part(self, window: int) -> slice:
        """The appearances of one window."""
        return slice(window * self.per_window, min((window + 1) * self.per_window, len(self.row_group)))


@dataclass(frozen=True)
class Geometry:
    """How the sequence is cut: everything but the store and the seed that membership and order depend on.

    positions: int64[longest + 1], the padded positions an example of each stored length may take (the
    corruption's declared bound, framed; encoder plus decoder where there are two). microbatch_tokens: the
    most padded positions of a microbatch. lanes: microbatches in a step. window_row_groups: row groups in a
    window. weights: appearances per epoch of each source's passages.
    """

    positions: npt.NDArray[np.int64]
    microbatch_tokens: int
    lanes: int
    window_row_groups: int = 8
    weights: tuple[float, ...] = (1.0,)


@njit(cache=True, nogil=True)
def _form(
    lengths: npt.NDArray[np.int64], positions: npt.NDArray[np.int64], limit: int, sizes: npt.NDArray[np.int64]
) -> int:
    """Greedy: as many rows as fit at the width of the first, longest one. Returns how many are made."""
    made, i = 0, 0
    while i < len(lengths):
        rows = limit // positions[lengths[i]]
        rows = min(rows, len(lengths) - i)
        sizes[made] = rows
        made += 1
        i += rows
    return made


@njit(cache=True, nogil=True)
def _count(histogram: npt.NDArray[np.int64], positions: npt.NDArray[np.int64], limit: int) -> int:
    """How many microbatches `_form` makes of rows with these lengths, from the histogram alone."""
    made, room = 0, 0
    for length in range(len(histogram) - 1, -1, -1):
        left = histogram[length]
        while left > 0:
            if room == 0:
                made += 1
                room = limit // positions[length]
            taken = min(room, left)
            left -= taken
            room -= taken
    return made


@njit(cache=True, nogil=True)
def _thin(histogram: npt.NDArray[np.int64], share: float, prefix: np.uint64, out: npt.NDArray[np.int64]) -> None:
    for length in range(len(histogram)):
        u = np.float64(draw(prefix, np.uint64(length)) >> np.uint64(11)) / 9007199254740992.0
        out[length] = min(histogram[length], np.int64(np.floor(histogram[length] * share + u)))


def kept(
    histogram: npt.NDArray[np.int64], share: float, seed: int, epoch: int, row_group: int, copy: int
) -> npt.NDArray[np.int64]:
    """int64[longest + 1]: rows of each length that an appearance keeps, a keyed rounding of share * count."""
    if share >= 1.0:
        return histogram
    out = np.empty_like(histogram)
    _thin(histogram, share, np.uint64(stream(seed, "papermoth.share", epoch, row_group, copy)), out)
    return out


@dataclass(frozen=True)
class Plan:
    """The sequence of one run. Raises InputError when a passage can be longer than a microbatch."""

    row_groups: RowGroups
    seed: int
    geometry: Geometry
    _counts: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False, compare=False)
    _last: dict[int, Epoch] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not len(self.row_groups) or not self.row_groups.rows:
            raise InputError("store", "it holds no passage to train on", "add documents, or lower corpus.held_out")
        longest = int(np.flatnonzero(self.row_groups.histogram.sum(axis=0)).max())
        widest = int(self.geometry.positions[: longest + 1].max())
        if widest > self.geometry.microbatch_tokens:
            raise InputError(
                "train.microbatch_tokens",
                f"{self.geometry.microbatch_tokens} holds no example of {widest} positions",
                f"give at least {widest}, or lower corpus.max_tokens",
            )
        sources = int(self.row_groups.source.max()) + 1
        if len(self.geometry.weights) < sources:
            raise ValueError(f"{sources} sources, {len(self.geometry.weights)} weights")

    def epoch(self, number: int) -> Epoch:
        """The epoch's order of row groups. An appearance whose share keeps no row is left out.

        Where that leaves nothing at all, which only a corpus of a few passages can meet, one row group that a share
        was for comes whole, drawn by key: no epoch is empty.
        """
        if number not in self._last:
            self._last.clear()
            self._last[number] = self._order(number)
        return self._last[number]

    def _order(self, epoch: int) -> Epoch:
        weights = np.array(self.geometry.weights)[self.row_groups.source]
        whole = np.floor(weights).astype(np.int64)
        everything = np.arange(len(self.row_groups))
        group = np.repeat(everything, whole)
        copy = np.arange(len(group)) - np.repeat(np.cumsum(whole) - whole, whole)
        partial = [
            int(i)
            for i in np.flatnonzero(weights > whole)
            if kept(
                self.row_groups.histogram[i],
                float(weights[i] - whole[i]),
                self.seed,
                epoch,
                int(i),
                int(whole[i]),
            ).any()
        ]
        group = np.concatenate([group, np.array(partial, np.int64)])
        share = np.concatenate([np.ones(len(copy)), (weights - whole)[partial]])
        copy = np.concatenate([copy, whole[partial]])
        prefix = stream(self.seed, "papermoth.order", epoch)
        if not len(group):
            some = np.flatnonzero(weights > 0)
            if not len(some):
                raise InputError("corpus weights", f"they leave no passage in epoch {epoch}", "raise a weight")
            group = some[np.argsort(rank_bits(prefix, some.astype(np.uint64)), kind="stable")[:1]]
            share, copy = np.ones(1), whole[group]
        bits = rank_bits(prefix, (group * 65536 + copy).astype(np.uint64))
        order = np.argsort(bits, kind="stable")
        return Epoch(epoch, group[order], copy[order], share[order], self.geometry.window_row_groups)

    def window_histogram(self, epoch: Epoch, window: int) -> npt.NDArray[np.int64]:
        """int64[longest + 1]: the window's passages by stored length."""
        part = epoch.part(window)
        if (epoch.share[part] >= 1.0).all():
            whole: npt.NDArray[np.int64] = self.row_groups.histogram[epoch.row_group[part]].sum(axis=0)
            return whole
        rows = zip(epoch.row_group[part].tolist(), epoch.copy[part].tolist(), epoch.share[part].tolist())
        histogram = self.row_groups.histogram
        parts = [kept(histogram[group], share, self.seed, epoch.number, group, copy) for group, copy, share in rows]
        total: npt.NDArray[np.int64] = np.sum(parts, axis=0)
        return total

    def counts(self, number: int) -> npt.NDArray[np.int64]:
        """int64[windows]: how many microbatches each window of the epoch makes."""
        if number not in self._counts:
            epoch = self.epoch(number)
            geometry = self.geometry
            self._counts[number] = np.array(
                [
                    _count(self.window_histogram(epoch, w), geometry.positions, geometry.microbatch_tokens)
                    for w in range(epoch.windows)
                ],
                np.int64,
            )
        return self._counts[number]

    def address_of_step(self, step: int) -> Address:
        """The address of the first microbatch of global step `step`."""
        left, epoch = step * self.geometry.lanes, 0
        while (total := int(self.counts(epoch).sum())) <= left:
            left -= total
            epoch += 1
        ends = np.cumsum(self.counts(epoch))
        window = int(np.searchsorted(ends, left, side="right"))
        return Address(epoch, window, left - int(ends[window] - self.counts(epoch)[window]))

    def epochs_of(self, steps: int) -> float:
        """How many epochs `steps` steps make, counted in microbatches."""
        at = self.address_of_step(steps)
        counts = self.counts(at.epoch)
        return at.epoch + (int(counts[: at.window].sum()) + at.number) / int(counts.sum())

    def padding(self, number: int = 0) -> float:
        """The share of an epoch's positions that padding takes, at the declared bound."""
        total = padded = 0
        epoch = self.epoch(number)
        for window in range(epoch.windows):
            histogram = self.window_histogram(epoch, window)
            lengths = np.repeat(np.arange(len(histogram)), histogram)[::-1].astype(np.int64)
            sizes = form(lengths, self.geometry)
            widths = self.geometry.positions[lengths]
            first = np.cumsum(sizes) - sizes
            padded += int((widths[first] * sizes).sum())
            total += int(widths.sum())
        return 1.0 - total / padded

    def table(self, cursor: Address, microbatches: int) -> pa.Table:
        """The windows from the cursor on, one a row, for at least so many microbatches, as PLAN_ROWS.

        Only the first row skips. No passage is read. The table ends with an epoch, so it may go on for longer
        than asked, never for less.
        """
        parts: list[pa.Table] = []
        left, number = microbatches + cursor.number, cursor.epoch
        while left > 0 or not parts:
            epoch = self.epoch(number)
            first = cursor.window if number == cursor.epoch else 0
            parts.append(_plan_rows(epoch, first, cursor.number if number == cursor.epoch else 0))
            left -= self._at_least(epoch, first)
            number += 1
        return pa.concat_tables(parts)

    def _at_least(self, epoch: Epoch, first: int) -> int:
        """The windows from `first` on make at least so many microbatches; exact where shares are rounded."""
        if (epoch.share < 1.0).any():
            return int(self.counts(epoch.number)[first:].sum())
        groups = epoch.row_group[first * epoch.per_window :]
        return max(1, int(self._positions[groups].sum()) // self.geometry.microbatch_tokens)

    @cached_property
    def _positions(self) -> npt.NDArray[np.int64]:
        """int64[row groups]: the positions of each one's passages, without padding."""
        histogram = self.row_groups.histogram
        total: npt.NDArray[np.int64] = histogram @ self.geometry.positions[: histogram.shape[1]]
        return total


def _plan_rows(epoch: Epoch, first: int, skip: int) -> pa.Table:
    """The epoch's windows from `first` on; the first of them skips so many microbatches."""
    windows = np.arange(first, epoch.windows)
    skips = np.zeros(len(windows), np.int32)
    skips[0] = skip
    start = first * epoch.per_window
    ends = np.minimum(np.append(windows, epoch.windows) * epoch.per_window, len(epoch.row_group))
    offsets = pa.array(ends - start, pa.int32())
    columns = [
        pa.array(np.full(len(windows), epoch.number), pa.int32()),
        pa.array(windows, pa.int32()),
        pa.array(skips, pa.int32()),
        pa.array(np.full(len(windows), epoch.windows), pa.int32()),
        pa.ListArray.from_arrays(offsets, pa.array(epoch.row_group[start:], pa.int32())),
        pa.ListArray.from_arrays(offsets, pa.array(epoch.copy[start:], pa.int32())),
        pa.ListArray.from_arrays(offsets, pa.array(epoch.share[start:], pa.float64())),
    ]
    return pa.Table.from_arrays(columns, schema=PLAN_ROWS)


def form(lengths: npt.NDArray[np.int64], geometry: Geometry) -> npt.NDArray[np.int64]:
    """int64[microbatches]: rows in each microbatch, for stored lengths in descending order."""
    sizes = np.empty(len(lengths), np.int64)
    return sizes[: _form(lengths, geometry.positions, geometry.microbatch_tokens, sizes)]
