"""Every registered kind of corruption, and one from elsewhere, is shown without the preview knowing its name."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from rich.cells import cell_len

from corruption import registry
from corruption.chain import Chain
from corruption.edit import take
from corruption.frames import suited
from corruption.ragged import Ragged
from corruption.realised import realised
from pipelines.preview_html import render
from pipelines.preview_rates import count, rates
from pipelines.preview_rows import HIDDEN, LABELS, MOVED, REMOVED, SPECIAL, rows
from pipelines.preview_text import print_page, row_lines
from tests.corruption.block import block, cases
from tests.corruption.rows import RICH
from tests.pipelines.preview_case import page_of
from tests.pipelines.test_preview_html import Read

SHOWN = 20
CASES = {
    case: step
    for kind in registry.kinds()
    for found in [[(case, step) for case, step in cases().items() if step.kind == kind]]
    for case, step in (found[0], found[-1])
}
"""The first and the last variant of each kind."""


class Numbers:
    """A spelling that writes ids as numbers."""

    mask = "4"

    def text(self, ids):
        return " ".join(map(str, ids))

    def spaced(self, token):
        return True

    def whole(self, ids):
        return [1] * len(ids)


def seen(chain: Chain):
    """The first rows of the block before and after, and as they are shown."""
    before = block(chain)
    before = before.take(np.arange(SHOWN))
    after = chain.apply(before, seed=3, epoch=1, vocabulary=RICH)
    starts = before.tokens.with_values((np.arange(len(before.tokens.values)) % 7 == 0).astype(np.int32))
    frame = suited(chain.provides())
    titles = [f"row {i}" for i in range(SHOWN)]
    return before, after, rows(after, RICH, Numbers(), titles=titles, sentence_start=starts, frame=frame)


def tokens(row, *names: str, kind: str | None = None) -> list[int]:
    """The ids in the row's lines of these names, of one kind if one is given."""
    return [
        int(token)
        for line in row.lines
        if line.name in names
        for piece in line.pieces
        if kind in (None, piece.kind)
        for token in piece.text.split()
        if token != "␣"
    ]


@pytest.mark.parametrize("case", CASES)
def test_every_kind_is_shown_truly(case):
    chain = Chain((CASES[case],))
    before, after, found = seen(chain)
    said = Counter[str]()
    for i, row in enumerate(found):
        assert tokens(row, "original") == before.tokens.row(i).tolist()
        if not after.usable[i]:
            assert row.facts[0][0] == "dropped"
            continue
        now = after.tokens.row(i).tolist()
        if ("corrupted", "the same text") in row.facts:
            assert now == before.tokens.row(i).tolist()
        else:
            assert tokens(row, "corrupted", "segment A", "segment B") == now
        if "targets" in after.columns:
            assert tokens(row, "targets") == after.columns["targets"].row(i).tolist()
        said["removed"] += len(tokens(row, "original", kind=REMOVED))
        said["labelled"] += sum(LABELS in piece.under for line in row.lines for piece in line.pieces)
        said["moved"] += len(tokens(row, "corrupted", "segment A", "segment B", kind=MOVED))
        said["hidden"] += len(tokens(row, "corrupted", "segment A", "segment B", kind=HIDDEN))
    usable = np.flatnonzero(after.usable)
    counts = realised(before.take(usable), after.take(usable), RICH)
    for name in ("removed", "labelled", "hidden"):
        assert said[name] == counts.get(name, 0) or (name == "hidden" and 4 in before.tokens.values), name
    assert said["moved"] <= counts.get("moved", 0) and bool(said["moved"]) == bool(counts.get("moved"))
    fits(found)
    assert any(name == "came to" for name, _ in rates([], count(before, after, RICH)))


def fits(found) -> None:
    """The rows fit a terminal of 60 columns, and their page is whole."""
    for row in found:
        for _, line in row_lines(row, 50):
            if not line.plain.startswith(("too ", "one ", "no ")) and "sees" not in line.plain:
                assert cell_len(line.plain) <= 60
    page = page_of(*found)
    Read(render(page))
    print_page(page, width=60, file=io.StringIO())


@dataclass(frozen=True)
class Backwards:
    """A kind of another package: turns a passage round and puts a sentinel before it."""

    kind = "backwards"
    provides = ("difficulty",)
    moves = True
    breaks = ("word_start", "sentence_start")

    def needs(self):
        return ()

    def bounds(self, length):
        return {"tokens": length + 1}

    def check(self, vocabulary, longest):
        return None

    def apply(self, batch, noise, vocabulary):
        index = Ragged.from_rows([[-1, *range(n - 1, -1, -1)] for n in batch.tokens.lengths.tolist()])
        moved = take(batch, index)
        values = np.where(index.values < 0, vocabulary.sentinels[0], moved.tokens.values).astype(np.int32)
        return moved.put(tokens=moved.tokens.with_values(values), difficulty=moved.tokens.with_values(index.values + 1))


def test_a_kind_from_elsewhere_is_shown_like_ours(monkeypatch):
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    registry.register(Backwards)
    _, after, found = seen(Chain.parse([{"kind": "backwards"}]))
    row = next(i for i in range(SHOWN) if 4 < len(after.original.row(i)) < 20)
    shown = found[row]
    n = len(after.original.row(row))
    assert tokens(shown, "corrupted", kind=SPECIAL) == [RICH.sentinels[0]]
    assert len(tokens(shown, "corrupted", kind=MOVED)) == n - 1
    assert ("difficulty", " ".join(map(str, [0, *range(n, 0, -1)]))) in shown.facts
    Read(render(page_of(*found)))
