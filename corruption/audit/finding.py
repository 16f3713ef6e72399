"""What an audit found: which law was broken, where first, what stood there, and how often."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from corruption.audit.chance import LEVEL, Total, Trial, summed
from corruption.ragged import Ragged

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Place:
    """A row of a part (a shard, a split) and a position in it; what is None is not known, or is all of it."""

    part: str = ""
    row: int | None = None
    position: int | None = None

    def __str__(self) -> str:
        named = ((self.part, "{}"), (self.row, "row {}"), (self.position, "position {}"))
        return ", ".join(form.format(value) for value, form in named if value not in (None, ""))


@dataclass(frozen=True)
class Finding:
    """A law that does not hold: its name, the first place, what was found there, and at how many places."""

    law: str
    where: Place
    given: str
    times: int = 1

    def __str__(self) -> str:
        more = f" (and {self.times - 1:,} more)" if self.times > 1 else ""
        where = f"{self.where}: " if str(self.where) else ""
        return f"{where}{self.given}{more}"


@dataclass(frozen=True)
class Evidence:
    """What laws say of some rows: findings that are certain, and trials, judged once all rows are counted.

    laws: those that were looked at. skipped: what could not be checked -> why.
    """

    findings: tuple[Finding, ...] = ()
    trials: tuple[Trial | Total, ...] = ()
    laws: frozenset[str] = frozenset()
    skipped: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            self.findings + other.findings,
            self.trials + other.trials,
            self.laws | other.laws,
            tuple(dict.fromkeys(self.skipped + other.skipped)),
        )

    @property
    def checked(self) -> frozenset[str]:
        """The laws that were looked at, where there was something to look at."""
        return self.laws | {trial.law for trial in self.trials if trial.size}

    def within(self, part: str, rows: npt.NDArray[np.integer] | None = None, places: Ragged | None = None) -> Evidence:
        """The same, its places in `part`.

        rows: which row of the part each of the rows is. places: where each of a row's tokens stands in the part's.
        """

        def placed(finding: Finding) -> Finding:
            row, position = finding.where.row, finding.where.position
            if row is not None and position is not None and places is not None and len(own := places.row(row)):
                position = int(own[position]) if position < len(own) else position + int(own[0])
            if row is not None and rows is not None:
                row = int(rows[row])
            return replace(finding, where=Place(part, row, position))

        return replace(self, findings=tuple(map(placed, self.findings)))

    def named(self, what: str) -> Evidence:
        """The same, its trials kept apart from others of the same law: they are about `what`."""
        return replace(self, trials=tuple(replace(trial, what=f"{what}, {trial.what}") for trial in self.trials))


def saying(text: str) -> Callable[[int], str]:
    """What `at_rows` and `at_positions` take where every place has the same to say."""
    return lambda _: text


def at_positions(law: str, bad: Bools, column: Ragged, say: Callable[[int], str]) -> tuple[Finding, ...]:
    """One finding, or none: the first true of bool[T], a flag for each token of `column`.

    `say` tells what is wrong from the place in the flat values.
    """
    places = np.flatnonzero(bad)
    if not len(places):
        return ()
    first = int(places[0])
    row = int(np.searchsorted(column.offsets, first, side="right")) - 1
    where = Place(row=row, position=first - int(column.offsets[row]))
    return (Finding(law, where, say(first), len(places)),)


def at_rows(law: str, bad: Bools, say: Callable[[int], str]) -> tuple[Finding, ...]:
    """One finding, or none: the first true of bool[rows]; `say` tells what is wrong with that row."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return ()
    first = int(rows[0])
    return (Finding(law, Place(row=first), say(first), len(rows)),)


def judged(evidence: Evidence, level: float = LEVEL) -> list[Finding]:
    """The findings, those that say the same of one part joined, and one for each trial that chance cannot explain."""
    found: dict[tuple[str, str, str], Finding] = {}
    for finding in evidence.findings:
        key = (finding.law, finding.where.part, re.sub(r"\d+", "", finding.given))
        if key in found:
            found[key] = replace(found[key], times=found[key].times + finding.times)
        else:
            found[key] = finding
    unlikely = [Finding(trial.law, Place(), str(trial)) for trial in summed(evidence.trials) if trial.chance() < level]
    return [*found.values(), *unlikely]
