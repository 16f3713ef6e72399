"""How Ray Train gets its data: the stream from the newest checkpoint on, dealt to however many trainers there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray.train

from pipelines.job import Job
from pipelines.stream import split, windows

if TYPE_CHECKING:
    from ray.data import DataIterator, Dataset

DATASET = "train"


@dataclass(frozen=True)
class WindowSource:
    """Called by Ray Train each time a group of trainers starts, so that a restart reads from the newest checkpoint."""

    job: Job
    options: Mapping[str, Any]

    def __call__(self) -> Dataset:
        plan = self.job.plan()
        done, cursor = self.job.resume_point()
        corruptors = self.job.recipe.cluster.corruptors
        return windows(
            plan,
            self.job.feed(plan),
            cursor,
            max(1, self.job.recipe.train.steps - done),
            corruptors=None if corruptors == "auto" else int(corruptors),
            options=self.options,
        )


class LaneConfig(ray.train.DataConfig):
    """Deals whole steps to the W trainers of this start; see pipelines.stream."""

    def __init__(self, job: Job, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._job, self._options = job, dict(options)

    def configure(
        self,
        datasets: dict[str, Dataset],
        world_size: int,
        worker_handles: Any,
        worker_node_ids: Any,
        **kwargs: Any,
    ) -> list[dict[str, DataIterator]]:
        """One exact stream per trainer."""
        dataset = datasets[DATASET].copy(datasets[DATASET])
        dataset.context.execution_options = self._resolve_execution_options(DATASET)
        feed = self._job.feed(self._job.plan())
        chunk = self._job.recipe.cluster.chunk_steps
        parts = split(dataset, feed, world_size, chunk, self._options)
        return [{DATASET: part} for part in parts]
