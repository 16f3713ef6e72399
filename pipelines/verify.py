"""Verify: does a corrupted data set, ours or anyone's, obey the laws of its noise? One line for each law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from corruption.audit import Evidence, Finding, Masking, judged
from corruption.errors import InputError
from corruption.noise_kinds import Mask
from pipelines.console import Console
from pipelines.data_set import CARD, DATA, MANIFEST, RECIPE, TOKENIZER, open_data_set, partial_of
from pipelines.outcome import JobFailed
from pipelines.readable import counted, shown
from pipelines.recipe import Recipe

ROWS = 10_000
"""How many rows are derived again unless told otherwise."""

SHOWN = 3
"""Breaches of one law that are shown; the rest are counted."""


@dataclass(frozen=True)
class Claims:
    """What the user says of a data set that is not ours; None is not said."""

    recipe: Recipe | None = None
    rate: float | None = None
    count: Literal["exact", "bernoulli", "stochastic"] | None = None
    unit: Literal["token", "word"] | None = None
    mask_share: float | None = None
    random_share: float | None = None
    tokenizer: Path | None = None

    def given(self) -> list[str]:
        """The options that say something."""
        return [f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value is not None]

    @property
    def masks(self) -> bool:
        """Whether the rows are said to be masked and nothing else: by no recipe, or by one of that step alone."""
        return self.recipe is None or [step.kind for step in self.recipe.chain().steps] == ["mask"]

    def masking(self) -> Masking:
        """What is said of masked rows, by the options or the recipe.

        Raises InputError when a share is out of range or says too little, or an option is beside a recipe.
        """
        if self.recipe is not None:
            if others := [name for name in self.given() if name not in ("--recipe", "--tokenizer")]:
                given = f"the recipe says it already, so {', '.join(others)} would do nothing"
                raise InputError("--recipe", given, "leave one of the two out")
            steps = self.recipe.chain().steps
            return replace(Masking.of(steps[0]), same=True) if isinstance(steps[0], Mask) else Masking()
        if (self.mask_share is None) != (self.random_share is None):
            given = "--mask-share" if self.random_share is None else "--random-share"
            raise InputError(given, "says only half of what happens at a label", "give --mask-share and --random-share")
        for name in ("rate", "mask_share", "random_share"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise InputError(f"--{name.replace('_', '-')}", f"{value} is outside 0 to 1", "give a share")
        return Masking(self.rate, self.count, self.unit, self.mask_share, self.random_share, same=True)


def verify(
    folder: Path,
    *,
    store: Path | None = None,
    claims: Claims = Claims(),
    rows: int | None = None,
    console: Console,
) -> None:
    """Print what holds, what is broken and what could not be checked of a data set.

    store: the store it was made of (ours only; None: its default place). claims: what is said of a data set that is
    not ours. rows: how many are derived again from the store (0: all; None: ROWS).
    Raises InputError when it is unfinished or no data set, or an option has no meaning for it; JobFailed for a breach.
    """
    folder = folder.expanduser()
    # What has everything of ours but the manifest lost it: as another's it would pass without its checksums.
    beside = all((folder / name).exists() for name in (CARD, RECIPE, TOKENIZER, DATA))
    ours = (folder / MANIFEST).is_file() or beside or partial_of(folder.absolute()).exists()
    if ours:
        data = open_data_set(folder)
        if claims.given():
            given = f"it says itself what was asked for, so {', '.join(claims.given())} would do nothing"
            raise InputError(f"data set {shown(folder)}", given, "leave it out")
        from pipelines.verify_made import audit_made

        evidence = audit_made(data, store, ROWS if rows is None else rows, console)
    else:
        if store is not None or rows is not None:
            given = f"{'--store' if store is not None else '--rows'} does nothing with a data set that is not ours"
            raise InputError(f"data set {shown(folder)}", given, "leave it out")
        from pipelines.verify_foreign import audit_foreign

        evidence = audit_foreign(folder, claims, console)
    findings = judged(evidence)
    for line in told(evidence, findings):
        console.say(line)
    broken = list(dict.fromkeys(finding.law for finding in findings))
    if broken:
        laws = "a law" if len(broken) == 1 else f"{len(broken)} laws"
        raise JobFailed(f"data set {shown(folder)} breaks {laws}: {', '.join(broken)}")
    console.say(f"data set {shown(folder)}: {counted(len(evidence.checked), 'law')} checked, all hold")


def told(evidence: Evidence, findings: list[Finding]) -> Iterator[str]:
    """The report: laws that hold, laws that do not and where, and what was not checked and why."""
    broken: dict[str, list[Finding]] = {}
    for finding in findings:
        broken.setdefault(finding.law, []).append(finding)
    partly = {law for law, _ in evidence.skipped}
    for law in sorted(evidence.checked - broken.keys()):
        yield f"ok           {law}" + (" (in the rows derived again)" if law in partly else "")
    for law in sorted(broken):
        for finding in broken[law][:SHOWN]:
            yield f"BREACH       {law}: {finding}"
        if len(broken[law]) > SHOWN:
            yield f"BREACH       {law}: and in {counted(len(broken[law]) - SHOWN, 'other place')}"
    for law, why in dict(evidence.skipped).items():
        if law not in evidence.checked and law not in broken:
            yield f"not checked  {law}: {why}"
