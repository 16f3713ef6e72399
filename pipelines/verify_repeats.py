"""Which rows of a data set are compared with which, to find noise that repeats in other shards or other epochs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corruption.audit import Evidence
from corruption.audit.align import equal
from corruption.audit.finding import Finding
from corruption.audit.masking import recovered
from corruption.audit.repeats import REPEATED, choices, equal_rows, lively, overlap, repeated
from corruption.chain import Chain
from corruption.noise import rank_bits
from corruption.ragged import Batch, Int32, Ragged
from corruption.vocabulary import Vocabulary
from pipelines.data_set import DataSet

SHARD_ROWS = 256
"""First rows of each shard that are compared with those of other shards."""

PASSAGES = 4000
"""About how many passages are followed through epochs and copies."""


@dataclass
class Repeats:
    """Rows kept while shards are read: the first of each shard, and a choice of passages under all their noises."""

    chain: Chain
    vocabulary: Vocabulary
    share: float
    shards: dict[tuple[str, int], list[tuple[str, list[Int32]]]] = field(default_factory=dict)
    noises: dict[tuple[str, int, int], dict[int, tuple[Int32, bool]]] = field(default_factory=dict)

    @staticmethod
    def of(data: DataSet, chain: Chain, vocabulary: Vocabulary) -> Repeats:
        """For a data set: as many passages as PASSAGES of its training rows."""
        noises = max(1, int(data.manifest["epochs"]) * int(data.manifest["copies"]))
        passages = int(data.manifest["rows"].get("train", 0)) / noises
        return Repeats(chain, vocabulary, min(1.0, PASSAGES / max(1.0, passages)))

    @property
    def labelled(self) -> bool:
        """Whether the noise shows in which positions have labels."""
        return "labels" in self.chain.provides()

    def add(self, shard: dict[str, Any], after: Batch, written: Ragged | None) -> None:
        """Some rows of a shard, without their frame; `written` is the passage where a decoder has to write it."""
        if self.labelled:
            labels = after.columns["labels"]
            rows = choices(recovered(after.tokens, labels), labels, self.vocabulary)
            counted = np.ones(len(after), np.bool_)
            own = self.shards.setdefault((shard["split"], int(shard["epoch"])), [])
            if not own or own[-1][0] != shard["name"]:
                own.append((shard["name"], []))
            head = own[-1][1]
            head.extend(rows.row(i).copy() for i in range(min(len(rows), SHARD_ROWS - len(head))))
        else:
            rows = after.tokens
            targets = after.columns.get("targets")
            whole = rows.lengths if targets is None else rows.lengths + targets.lengths
            counted = lively(self.chain, whole if written is None else written.lengths)
            counted &= np.ones(len(after), np.bool_) if written is None else ~equal(rows, written)
        chosen = rank_bits(0, after.keys) < np.uint64(min(self.share, 1.0) * (2**64 - 2**12))
        for i in np.flatnonzero(chosen).tolist():
            place = (shard["split"], int(shard["epoch"]), int(after.copies[i]))
            self.noises.setdefault(place, {})[int(after.keys[i])] = (rows.row(i).copy(), bool(counted[i]))

    def evidence(self) -> Evidence:
        """What comparing them found: neighbouring shards and the first, neighbouring noises and the first."""
        findings: list[Finding] = []
        looked = False
        for parts in self.shards.values():
            for a, b in pairs(len(parts)):
                (one, rows), (other, others) = parts[a], parts[b]
                findings += self._compare(f"{one} and {other}", rows, others)
                looked = True
        if not self.labelled and not lively(self.chain, np.array([1000])).any():
            why = "noise of this kind may be the same twice: only the source can tell"
            return Evidence(tuple(findings), skipped=((REPEATED, why),))
        splits = {split for split, _, _ in self.noises}
        for split in sorted(splits):
            noises = sorted(place for place in self.noises if place[0] == split)
            for a, b in pairs(len(noises)):
                findings += self._noises(noises[a], noises[b])
                looked = True
        if not looked:
            return Evidence(skipped=((REPEATED, "there is one shard, and one noise of each passage"),))
        return Evidence(tuple(findings), laws=frozenset({REPEATED}))

    def _noises(self, one: tuple[str, int, int], other: tuple[str, int, int]) -> tuple[Finding, ...]:
        a, b = self.noises[one], self.noises[other]
        keys = sorted(a.keys() & b.keys())
        what = f"{one[0]}, epoch {one[1]} copy {one[2]} and epoch {other[1]} copy {other[2]}"
        if self.labelled:
            return self._compare(what, [a[key][0] for key in keys], [b[key][0] for key in keys])
        counted = np.array([a[key][1] and b[key][1] for key in keys], np.bool_)
        rows, others = (Ragged.from_rows([side[key][0] for key in keys]) for side in (a, b))
        return repeated(equal_rows(what, rows, others, counted))

    def _compare(self, what: str, rows: list[Int32], others: list[Int32]) -> tuple[Finding, ...]:
        n = min(len(rows), len(others))
        return repeated(overlap(what, Ragged.from_rows(rows[:n]), Ragged.from_rows(others[:n])))


def pairs(n: int) -> list[tuple[int, int]]:
    """Each with the one before it, and with the first."""
    return sorted({(i - 1, i) for i in range(1, n)} | {(0, i) for i in range(2, n)})
