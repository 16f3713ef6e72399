"""One run as data: what every process of it must know. It travels from the driver to trainers and data tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from corruption.chain import Chain
from corruption.frames import Frame
from corruption.vocabulary import Vocabulary
from pipelines.plan import Address, Geometry, Plan
from pipelines.recipe import Recipe
from pipelines.store import RowGroups, Store, open_store
from pipelines.window import Feed
from trainers.objectives.columns import OBJECTIVE_COLUMNS, ObjectiveColumns

if TYPE_CHECKING:
    from pipelines.tracking_store import RunHandle

CHECKPOINTS, MODEL, DIGESTS, OUTCOME = "checkpoints", "model", "digests.jsonl", "outcome.json"


@dataclass(frozen=True)
class Job:
    """A recipe bound to its store, tokenizer and run folder.

    identity: dotted keys to text; see pipelines.identity. tracking: where trainer 0 logs, None for nowhere.
    """

    recipe: Recipe
    store: str
    folder: str
    vocabulary: Vocabulary
    identity: Mapping[str, str]
    tracking: RunHandle | None = None

    @property
    def data(self) -> ObjectiveColumns:
        """What the objective reads and counts."""
        return OBJECTIVE_COLUMNS[self.recipe.objective.kind]

    def opened_store(self) -> Store:
        """The store, its manifest read."""
        return open_store(Path(self.store))

    def geometry(self, row_groups: RowGroups) -> Geometry:
        """How the sequence of microbatches is cut over these row groups."""
        recipe = self.recipe
        chain, frame = recipe.chain(), recipe.frame()
        positions = positions_of(chain, frame, row_groups.histogram.shape[1])
        weights = tuple(source.weight for source in recipe.corpus.sources) or (1.0,) * (
            int(row_groups.source.max(initial=0)) + 1
        )
        return Geometry(
            positions,
            recipe.train.microbatch_tokens,
            recipe.train.lanes,
            recipe.sampler.window_row_groups,
            weights,
        )

    def plan(self) -> Plan:
        """The run's endless sequence of microbatches."""
        row_groups = self.opened_store().train
        return Plan(row_groups, self.recipe.seed, self.geometry(row_groups))

    def feed(self, plan: Plan) -> Feed:
        """What the window tasks must know."""
        chain, frame = self.recipe.chain(), self.recipe.frame()
        chain.check(self.vocabulary, len(plan.geometry.positions) - 1)
        frame.check(self.vocabulary)
        return Feed(self.store, self.recipe.seed, plan.geometry, chain, frame, self.vocabulary, dict(self.data.counted))

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return Path(self.folder) / CHECKPOINTS

    def resume_point(self) -> tuple[int, Address]:
        """(steps done, address of the next microbatch) of the newest whole checkpoint, or (0, the beginning)."""
        from trainers.checkpoint import latest

        return place_of(latest(self.checkpoints)[0])


def place_of(checkpoint: Path | None) -> tuple[int, Address]:
    """(steps done, address of the next microbatch) of a checkpoint, or (0, the beginning) where there is none."""
    from trainers.checkpoint import position

    if checkpoint is None:
        return 0, Address(0, 0, 0)
    step, cursor = position(checkpoint)
    return step, Address(*cursor)


def positions_of(chain: Chain, frame: Frame, lengths: int) -> npt.NDArray[np.int64]:
    """int64[lengths]: the positions that a passage of each length can take, over all sequences of its example."""
    return np.array([sum(frame.lengths(chain.bounds(n)).values()) for n in range(lengths)], np.int64)


def flat_identity(parts: Mapping[str, Any]) -> dict[str, str]:
    """The identity's parts as text, as checkpoints keep them."""
    return {key: str(value) for key, value in parts.items()}


def read_outcome(folder: Path) -> dict[str, Any]:
    """How trainer 0 said that the run ended."""
    outcome: dict[str, Any] = json.loads((folder / OUTCOME).read_text("utf-8"))
    return outcome
