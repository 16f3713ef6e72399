"""What a preview shows of corrupted passages, before anyone decides how it looks.

It is read off the columns that a batch has (see `corruption.schema`), never off the names of corruptions, so that
kinds from elsewhere are shown like ours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

import numpy as np

from corruption.frames import Frame
from corruption.ragged import Batch, Ragged
from corruption.schema import COLUMNS, FOREIGN, IGNORE, PATTERNS, REASONS
from corruption.vocabulary import Vocabulary
from pipelines.preview_matrix import Matrix, matrices_of
from pipelines.preview_spelling import BLANK, Spelling

PLAIN, HIDDEN, RANDOM, KEPT, INSERTED = "plain", "hidden", "random", "kept", "inserted"
SPECIAL, MOVED, FOREIGN_TEXT, REMOVED = "special", "moved", "foreign", "removed"

MEANING = {
    HIDDEN: "hidden",
    RANDOM: "replaced at random",
    KEPT: "kept, but asked for",
    INSERTED: "inserted",
    SPECIAL: "special token put in",
    MOVED: "moved",
    FOREIGN_TEXT: "of another passage",
    REMOVED: "taken out",
}
"""What each kind of text but the plain one means, in the order of a legend."""

LABELS, WAS, ORDER = "labels", "was", "order"
UNDER = {
    LABELS: "the token asked for here",
    WAS: "what stood here",
    ORDER: "place in the order of prediction; - is context",
}
"""What may stand under a token, in order from the top."""

_LONGEST_LIST = 24


@dataclass(frozen=True)
class Piece:
    """Neighbouring tokens of one kind. spaced: a space stands before them. under: of UNDER, what stands below them."""

    text: str
    kind: str = PLAIN
    spaced: bool = True
    under: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A named line of text: the original, the corrupted input, a segment, targets, the other view."""

    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Row:
    """One passage. facts: what is true of it as a whole, name and text. place: where it came from."""

    lines: tuple[Line, ...]
    facts: tuple[tuple[str, str], ...] = ()
    matrices: tuple[Matrix, ...] = ()
    title: str = ""
    place: str = ""


def rows(
    after: Batch,
    vocabulary: Vocabulary,
    spelling: Spelling,
    *,
    titles: Sequence[str],
    places: Sequence[str] | None = None,
    sentence_start: Ragged | None = None,
    frame: Frame | None = None,
) -> list[Row]:
    """The first rows of a corrupted batch, as many as there are titles.

    places: where each came from. sentence_start: that of the passages as they were, to number sentences by. frame: how
    examples are framed. Raises InputError as framing does, where a column is about who sees whom.
    """
    after = after.take(np.arange(len(titles)))
    origin, matrices = after.origin(), matrices_of(after, frame, vocabulary, spelling)
    writes_original = frame is not None and "decoder" in frame.sequences.values()
    found = []
    for i, title in enumerate(titles):
        starts = None if sentence_start is None else sentence_start.row(i).tolist()
        row = _Shown(after, vocabulary, spelling, i, origin.row(i).tolist()).row(starts, writes_original)
        found.append(replace(row, title=title, place="" if places is None else places[i], matrices=matrices.get(i, ())))
    return found


@dataclass(frozen=True)
class _Shown:
    """One row of the batch on its way to a Row."""

    batch: Batch
    vocabulary: Vocabulary
    spelling: Spelling
    i: int
    origin: list[int]

    def row(self, starts: list[int] | None, writes_original: bool) -> Row:
        original = Line("original", tuple(self._original()))
        if code := int(self.batch.unusable[self.i]):
            reason = REASONS[code - 1].replace("_", " ")
            dropped = ("dropped", f"{reason}: training leaves this passage out, and counts it")
            return Row((original,), (dropped,))
        moved = _moved(self.origin)
        lines, facts = [original, *self._corrupted(moved)], []
        if lines[1] == replace(original, name="corrupted"):
            del lines[1]
            facts.append(("corrupted", "the same text"))
        targets, positive = self._column("targets"), self._column("positive")
        if targets is not None:
            lines.append(Line("targets", tuple(self._content(targets))))
        elif writes_original:
            facts.append(("targets", "the whole original"))
        if positive is not None and positive == self.tokens:
            facts.append(("positive", "the same text"))
        elif positive is not None:
            lines.append(Line("positive", tuple(self._content(positive))))
        facts += self._facts()
        facts += _order(self.origin, moved, starts)
        return Row(tuple(lines), tuple(facts))

    @property
    def tokens(self) -> list[int]:
        tokens: list[int] = self.batch.tokens.row(self.i).tolist()
        return tokens

    def _column(self, name: str) -> list[int] | None:
        return self.batch.columns[name].row(self.i).tolist() if name in self.batch.columns else None

    def _aligned(self, name: str, fill: int) -> list[int]:
        found = self._column(name)
        return found if found is not None and self.batch.aligned(name) else [fill] * len(self.origin)

    def _original(self) -> Iterator[Piece]:
        tokens, left = self.batch.original.row(self.i).tolist(), set(self.origin)
        kinds = [PLAIN if i in left else REMOVED for i in range(len(tokens))]
        yield from self._runs(tokens, tokens, kinds, [{}] * len(tokens))

    def _content(self, tokens: list[int]) -> Iterator[Piece]:
        mask, unknown, fixed = self.vocabulary.mask, self.vocabulary.unk, self.vocabulary.fixed
        kinds = [
            HIDDEN if token == mask else SPECIAL if fixed[token] and token != unknown else PLAIN for token in tokens
        ]
        yield from self._runs(tokens, tokens, kinds, [{}] * len(tokens))

    def _corrupted(self, moved: set[int]) -> Iterator[Line]:
        tokens, origin = self.tokens, self.origin
        original = self.batch.original.row(self.i).tolist()
        labels, segment = self._aligned("labels", IGNORE), self._aligned("segment", 0)
        kinds = self._kinds(tokens, original, labels, segment, moved)
        under: list[dict[str, str]] = [{} for _ in tokens]
        self._put_labels(labels, under)
        self._put_was(original, kinds, labels, under)
        if "permutation_order" in self.batch.columns:
            for at, number in enumerate(self._aligned("permutation_order", -1)):
                under[at][ORDER] = "-" if number < 0 else str(number)
        spaces = [original[place] if place >= 0 else token for token, place in zip(tokens, origin)]
        for name, part in _segments(segment, "segment" in self.batch.columns):
            pieces = self._runs(tokens[part], spaces[part], kinds[part], under[part])
            yield Line(name, tuple(pieces))

    def _kinds(
        self, tokens: list[int], original: list[int], labels: list[int], segment: list[int], moved: set[int]
    ) -> list[str]:
        """What became of each token of the input. That it moved is told only where nothing else is."""
        fixed, foreign = self.vocabulary.fixed, self._column("next_sentence_label") == [1]
        kinds = []
        for at, (token, place, label) in enumerate(zip(tokens, self.origin, labels)):
            if token == self.vocabulary.mask:
                kinds.append(HIDDEN)
            elif place < 0 and label == IGNORE:
                kinds.append(FOREIGN_TEXT if foreign and segment[at] else SPECIAL if fixed[token] else INSERTED)
            elif token != (label if place < 0 else original[place]):
                kinds.append(RANDOM)
            elif token == label:
                kinds.append(KEPT)
            else:
                kinds.append(MOVED if at in moved else PLAIN)
        return kinds

    def _put_labels(self, labels: list[int], under: list[dict[str, str]]) -> None:
        """A character torn over several labels stands whole under the first of them."""
        for asked, run in groupby(range(len(labels)), lambda at: labels[at] != IGNORE):
            if not asked:
                continue
            places = list(run)
            at = 0
            for size in self.spelling.whole([labels[place] for place in places]):
                together = places[at : at + size]
                under[together[0]][LABELS] = self.spelling.text([labels[place] for place in together]) or BLANK
                for place in together[1:]:
                    under[place][LABELS] = ""
                at += size

    def _put_was(
        self, original: list[int], kinds: list[str], labels: list[int], under: list[dict[str, str]]
    ) -> None:
        """What stood where a token was put, unless the label says it."""
        for at, (kind, place, label) in enumerate(zip(kinds, self.origin, labels)):
            if kind in (HIDDEN, RANDOM) and place >= 0 and label != original[place]:
                under[at][WAS] = self.spelling.text([original[place]]) or BLANK
        left = set(self.origin)
        for invented, run in groupby(range(len(kinds)), lambda at: self.origin[at] < 0):
            places = list(run)
            if not invented:
                continue
            first, end = places[0], places[-1] + 1
            start = self.origin[first - 1] + 1 if first else 0
            stop = self.origin[end] if end < len(kinds) else len(original)
            # Out of order there is no one stretch that the invented tokens stand for.
            if start < stop and left.isdisjoint(range(start, stop)) and kinds[first] != FOREIGN_TEXT:
                under[first][WAS] = self.spelling.text(original[start:stop]) or BLANK

    def _runs(
        self, tokens: list[int], spaces: list[int], kinds: list[str], under: Sequence[Mapping[str, str]]
    ) -> Iterator[Piece]:
        """Tokens with something under them stand alone, others with their neighbours of one kind."""
        alone = [at if below else -1 for at, below in enumerate(under)]
        for at, below in enumerate(under):
            # The rest of a torn character goes with its first token.
            if below.get(LABELS) == "" and at:
                alone[at] = alone[at - 1]
        after_space = False
        for (kind, _), run in groupby(range(len(tokens)), lambda at: (kinds[at], alone[at])):
            places = list(run)
            text = self.spelling.text([tokens[at] for at in places])
            below = {name: shown for name, shown in under[places[0]].items() if shown}
            if not text and kind == PLAIN and not below:
                after_space = True
                continue
            spaced = after_space or self.spelling.spaced(spaces[places[0]])
            yield Piece(text or BLANK, kind, spaced, below)
            after_space = False

    def _facts(self) -> Iterator[tuple[str, str]]:
        labels = self._column("labels")
        if labels is not None and all(label == IGNORE for label in labels):
            yield "labels", "none"
        if following := self._column("next_sentence_label"):
            if following[0] == 1:
                yield "pair", "B does not follow A"
            elif following[0] == 0:
                yield "pair", "B follows A"
        if pattern := self._column("attention_pattern"):
            yield "attention", PATTERNS[pattern[0]].replace("_", " ")
        for name in self.batch.columns:
            if name != "tokens" and name not in COLUMNS and name not in FOREIGN:
                yield name, _listed(self._column(name) or [])


def _segments(segment: list[int], paired: bool) -> Iterator[tuple[str, slice]]:
    if not paired:
        yield "corrupted", slice(None)
        return
    first = segment.count(0)
    yield "segment A", slice(0, first)
    if first < len(segment):
        yield "segment B", slice(first, None)


def _moved(origin: list[int]) -> set[int]:
    """The fewest tokens that must have moved: all that no longest increasing row of places keeps."""
    kept = [at for at, place in enumerate(origin) if place >= 0]
    if all(origin[a] < origin[b] for a, b in pairwise(kept)):
        return set()
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int] = {}
    for at in kept:
        size = bisect_left(tails, origin[at])
        if size == len(tails):
            tails.append(origin[at])
            ends.append(at)
        tails[size], ends[size] = origin[at], at
        before[at] = ends[size - 1] if size else -1
    at, stays = ends[-1], set()
    while at >= 0:
        stays.add(at)
        at = before[at]
    return set(kept) - stays


def _order(origin: list[int], moved: set[int], starts: list[int] | None) -> Iterator[tuple[str, str]]:
    """The sentences as they were and as they stand now; or how many tokens moved, where that is no short list."""
    if not moved:
        return
    if starts is not None:
        sentence = np.maximum(np.cumsum(starts), 1).tolist()
        now = [number for number, _ in groupby(sentence[place] for place in origin if place >= 0)]
        if now != sorted(set(now)) and len(now) <= min(2 * sentence[-1], _LONGEST_LIST):
            was = " ".join(map(str, range(1, sentence[-1] + 1)))
            yield "sentences", f"{was} -> {' '.join(map(str, now))}"
            return
    yield "order", f"{len(moved)} of {len(origin)} tokens moved"


def _listed(numbers: list[int]) -> str:
    shown = " ".join(map(str, numbers[:_LONGEST_LIST]))
    return shown if len(numbers) <= _LONGEST_LIST else f"{shown} ... ({len(numbers)} in all)"
