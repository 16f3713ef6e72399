"""Replaced-token detection offline: a frozen masked language model fills every labelled position with a sample.

The chain masks a passage, the generator reads it and a token is drawn from its prediction at every labelled position,
those that the mask left as they were among them. What is written is the passage with the samples in it and, for each
token, whether it differs from the one that stood there; a sample that happens to be right counts as real.

The uniform number behind a sample is a pure function of seed, epoch, key, copy and place. The sample itself is not: it
follows from floating-point sums whose last bits depend on the machine, on versions and on the other rows of its row
group. So these data sets are outside the bit contract of the corruptions; what repeats is the same request on the same
kind of machine with the same versions, whatever the number of workers.

Source: Clark et al. 2020, "ELECTRA", section 2 (samples at temperature 1, selected positions only, right samples count
as real). Deviation: the generator does not learn beside the discriminator; section 3.3 reports what that costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from corruption.noise import draw, fold, stream, unit
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.schema import IGNORE
from pipelines.data_set import VALIDATION
from pipelines.generate_plan import Piece
from pipelines.generate_task import Work, attempt

if TYPE_CHECKING:
    from pipelines.generator_model import GeneratorModel


@njit(cache=True, nogil=True)
def _units(
    prefix: np.uint64, keys: UInt64, copies: UInt64, offsets: Int64, labels: Int32, out: npt.NDArray[np.float64]
) -> None:
    done = 0
    for row in range(len(keys)):
        own = fold(fold(prefix, keys[row]), copies[row])
        for place in range(offsets[row], offsets[row + 1]):
            if labels[place] != IGNORE:
                out[done] = unit(draw(own, np.uint64(place - offsets[row])))
                done += 1


def units(batch: Batch, labels: Ragged, seed: int, epoch: int) -> npt.NDArray[np.float64]:
    """float64[N] in [0, 1): one for each labelled position, in order.

    A pure function of (seed, "generator_replace", epoch, key, copy, position in the framed example).
    """
    out = np.empty(int((labels.values != IGNORE).sum()), np.float64)
    prefix = np.uint64(stream(seed, "generator_replace", epoch))
    _units(prefix, batch.keys, batch.copies, labels.offsets, labels.values, out)
    return out


def replaced(framed: Mapping[str, Ragged], samples: npt.NDArray[np.integer]) -> dict[str, Ragged]:
    """`input_ids` with the samples at the labelled positions, in order, and `labels`: 1 where that changed the token.

    framed: `input_ids` and `labels` as the mask left them.
    """
    ids, labels = framed["input_ids"], framed["labels"].values
    at = labels != IGNORE
    original = np.where(at, labels, ids.values)
    shown = original.copy()
    shown[at] = samples
    return {"input_ids": ids.with_values(shown), "labels": ids.with_values((shown != original).astype(np.int32))}


def replaced_shares(realised: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """The share of the selected positions at which another token stands now, of each split."""
    return {split: own["replaced"] / own["selected"] for split, own in realised.items() if own.get("selected")}


class Replacing:
    """An actor of the Ray Data job: it loads the model with its first shard, and makes shards one after another."""

    def __init__(self, work: Work, device: str) -> None:
        self._work, self._device = work, device

    @cached_property
    def _model(self) -> GeneratorModel:
        from pipelines.generator_model import GeneratorModel

        assert self._work.generator is not None
        return GeneratorModel(self._work.generator, self._work.vocabulary, self._device)

    def rewrite(
        self, batch: Batch, framed: Mapping[str, Ragged], piece: Piece, counts: Counter[str]
    ) -> dict[str, Ragged]:
        """Framed masked examples become replaced ones."""
        seed = self._work.evaluation_seed if piece.split == VALIDATION else self._work.seed
        drawn = units(batch, framed["labels"], seed, piece.epoch)
        made = replaced(framed, self._model.samples(framed["input_ids"], framed["labels"], drawn))
        counts.update(selected=len(drawn), replaced=int(made["labels"].values.sum()))
        return made

    def attempt(self, piece: Piece) -> dict[str, Any]:
        """`generate_task.attempt` of a shard with replaced tokens."""
        return attempt(piece, self._work, self.rewrite)

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        import cloudpickle

        for piece in rows["piece"].to_pylist():
            yield pa.Table.from_pylist([self.attempt(cloudpickle.loads(piece))])


def actors(work: Work, pieces: int, workers: int | None) -> dict[str, Any]:
    """Options of `map_batches` for `Replacing`: on GPUs, one each, where there are any and the recipe does not say no.

    workers: most actors at a time (None: one a GPU, or one a core). Needs a running Ray.
    """
    import ray

    assert work.generator is not None
    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpus = found.get("GPU", 0) >= 1 if work.generator.gpus == "auto" else bool(work.generator.gpus)
    there = int(found.get("GPU" if gpus else "CPU", 1))
    return {
        "fn_constructor_kwargs": {"work": work, "device": "cuda" if gpus else "cpu"},
        "concurrency": max(1, min(pieces, workers or there)),
        "num_cpus": 1,
        **({"num_gpus": 1} if gpus else {}),
    }
