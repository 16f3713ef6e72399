"""Corrupted data sets in memory for tests of the audit: clean ones of every kind, and what the audit says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corruption.audit import Evidence, chain_laws, judged
from corruption.audit.chance import summed
from corruption.audit.framing import content_of
from corruption.chain import Chain, Corruption, Noise
from corruption.frames import Frame, suited
from corruption.ragged import Batch, Ragged
from corruption.vocabulary import Vocabulary
from tests.corruption.rows import RICH, UNK, paired, passages, random_rows

SEED, EPOCH = 3, 1


@dataclass(frozen=True)
class Made:
    """Passages, what each step of a chain made of them, and the examples: usable rows only."""

    chain: Chain
    frame: Frame
    stages: tuple[Batch, ...]
    examples: dict[str, Ragged]
    vocabulary: Vocabulary
    seed: int
    epoch: int

    @property
    def keys(self) -> np.ndarray:
        return self.stages[0].keys

    def with_column(self, name: str, column: Ragged) -> Made:
        """The same set with another column in its examples."""
        return replace(self, examples={**self.examples, name: column})

    def after(self) -> Batch:
        """What the chain made."""
        return self.stages[-1]


def words_and_text(n: int, longest: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows of ordinary ids, one in a hundred [UNK], and words of one to three tokens."""
    rows, starts = random_rows(n, longest, seed)
    random = np.random.default_rng(seed + 1000)
    return [
        np.where((row < 5) & (random.random(len(row)) < 0.8), 5 + row, np.where(row < 5, UNK, row)).astype(np.int32)
        for row in rows
    ], starts


def made(
    steps: Corruption | Sequence[Corruption],
    n: int = 300,
    longest: int = 60,
    *,
    seed: int = SEED,
    epoch: int = EPOCH,
    text: int = 1,
    vocabulary: Vocabulary = RICH,
    frame: Frame | None = None,
) -> Made:
    """A clean set: `n` passages (`text` draws them) under the steps' noise, framed; usable rows only."""
    chain = Chain(tuple(steps) if isinstance(steps, Sequence) else (steps,))
    rows, starts = words_and_text(n, longest, text)
    keys = [int(key) for key in np.random.default_rng(text).integers(0, 2**63, n)]
    stages = [_text_alone(Batch.from_arrow(paired(passages(rows, starts, keys)), chain.columns()))]
    for name, step in zip(chain.names, chain.steps):
        stages.append(step.apply(stages[-1], Noise.of(seed, name, epoch), vocabulary))
    usable = np.flatnonzero(stages[-1].usable)
    stages = [stage.take(usable) for stage in stages]
    frame = frame or suited(chain.provides())
    return Made(chain, frame, tuple(stages), dict(frame.apply(stages[-1], vocabulary)), vocabulary, seed, epoch)


def _text_alone(batch: Batch) -> Batch:
    """Passages of other documents hold content only, as all passages do."""
    if "foreign_tokens" not in batch.columns:
        return batch
    other = batch.columns["foreign_tokens"]
    return batch.put(foreign_tokens=other.with_values(np.where(other.values < 5, np.int32(UNK), other.values)))


def evidence(found: Made, *, source: bool = True) -> Evidence:
    """Everything the audit says of the examples, with the passages at hand or without."""
    content = content_of(found.examples, found.frame, found.vocabulary)
    columns = dict(content.columns)
    written = columns.pop("written", None)
    if written is not None and "targets" in found.chain.provides():
        columns["targets"], written = written, None
    rows = content.rows
    after = Batch(found.keys[rows], columns, found.stages[0].copies[rows])
    stages = [stage.take(rows) for stage in found.stages[:-1]] if source else None
    laws = chain_laws(
        found.chain, after, found.vocabulary, stages=stages, written=written, seed=found.seed, epoch=found.epoch
    )
    return content.evidence + laws.within("", rows, content.places)


def broken(found: Made, *, source: bool = True) -> dict[str, str]:
    """The laws that do not hold, and what is said of each."""
    return {finding.law: str(finding) for finding in judged(evidence(found, source=source))}


def least_chance(found: Evidence) -> float:
    """How likely the least likely count of a set is."""
    return min((trial.chance() for trial in summed(found.trials)), default=1.0)
