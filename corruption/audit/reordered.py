"""Laws of rows whose order changed: no token is lost or altered, and what must stay together does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from corruption.audit.align import same_tokens, turned
from corruption.audit.chance import Total, Trial
from corruption.audit.finding import Evidence, at_rows
from corruption.noise_kinds.rotate import Rotate
from corruption.noise_kinds.shuffle_sentences import ShuffleSentences
from corruption.noise_kinds.shuffle_tokens import ShuffleTokens
from corruption.ragged import Batch, Int32, Ragged

TOKENS = "tokens kept"
ROTATION = "rotation"
SENTENCES = "sentences whole"
WINDOW = "window"
ORDER = "order at random"

_STEPS = 2000  # of a search for the sentences of one row; beyond it the row counts as lawful


def kept_tokens(before: Ragged, after: Ragged) -> Evidence:
    """Both rows hold the same tokens, each as often."""
    bad = ~same_tokens(before, after)
    return Evidence(at_rows(TOKENS, bad, lambda i: _difference(before.row(i), after.row(i))), laws=frozenset({TOKENS}))


def rotation_laws(before: Ragged, after: Ragged, step: Rotate) -> Evidence:
    """The row is turned, by any number of tokens but none, each equally often."""
    fits = before.lengths == after.lengths
    rows = np.flatnonzero(fits)
    was, now = before.take(rows), after.take(rows)
    turn = np.full(len(before), -1, np.int64)
    turn[rows] = turned(was, now)
    n = before.lengths
    stayed = (turn == n) & (n > 1)
    findings = (
        *at_rows(
            ROTATION,
            turn < 0,
            lambda i: "the row is no rotation of the original: " + _difference(before.row(i), after.row(i)),
        ),
        *at_rows(ROTATION, stayed, lambda i: "the row was not rotated"),
    )
    clear = (turn > 0) & (turn < n) & (n > 2)
    place = (turn[clear] - 1) / (n[clear] - 2)
    total = Total.of(ORDER, "places of rotation, 0 is the first and 1 the last", place, np.full(len(place), 0.5), 1.0)
    return Evidence(findings, (total,), frozenset({ROTATION}))


def shuffled_laws(before: Ragged, after: Ragged, step: ShuffleTokens) -> Evidence:
    """No token is lost; in the local scope none moves by the window or more, in the global any may come first."""
    evidence = kept_tokens(before, after)
    good = np.flatnonzero(same_tokens(before, after) & (before.lengths > 0))
    was, now = before.take(good), after.take(good)
    if step.scope == "local" and step.unit == "token":
        far = _displacement(was, now) >= (step.window or 0.0)
        row = np.repeat(np.arange(len(was)), was.lengths)
        bad = np.zeros(len(before), np.bool_)
        bad[good[np.unique(row[far])]] = True
        given = f"a token stands {step.window} places or more from where it was"
        return evidence + Evidence(at_rows(WINDOW, bad, lambda i: given), laws=frozenset({WINDOW}))
    if step.scope == "global" and step.unit == "token":
        first = was.values[was.offsets[:-1]]
        share = (
            np.add.reduceat(was.values == np.repeat(first, was.lengths), was.offsets[:-1]) / was.lengths
            if len(was)
            else np.zeros(0)
        )
        hits = int((now.values[now.offsets[:-1]] == first).sum())
        return evidence + Evidence(
            trials=(
                Trial(
                    ORDER,
                    "rows whose first token is the old one",
                    hits,
                    len(was),
                    float(share.sum()),
                    float(share.sum()),
                ),
            )
        )
    return evidence


def sentence_laws(before: Batch, after: Ragged, step: ShuffleSentences) -> Evidence:
    """No token is lost, and each sentence of the passage stands in one piece; with share 1 in any order."""
    was = before.tokens
    evidence = kept_tokens(was, after)
    if "sentence_start" not in before.columns:
        return evidence + Evidence(skipped=((SENTENCES, "where sentences start is not known without the store"),))
    starts = before.columns["sentence_start"]
    bad = np.zeros(len(was), np.bool_)
    first_stays, of, chance = 0, 0, 0.0
    for i in np.flatnonzero(same_tokens(was, after)).tolist():
        sentences = _sentences(was.row(i), starts.row(i))
        row = after.row(i).tobytes()
        bad[i] = not _laid(row, sentences)
        if len(sentences) > 1 and sum(row.startswith(sentence) for sentence in sentences) == 1:
            first_stays += row.startswith(sentences[0])
            chance += 1 / len(sentences)
            of += 1
    findings = at_rows(SENTENCES, bad, lambda i: "the row is not made of the passage's sentences")
    trials = (
        (Trial(ORDER, "rows whose first sentence is the old one", first_stays, of, chance, chance),)
        if step.share == 1.0
        else ()
    )
    return evidence + Evidence(findings, trials, frozenset({SENTENCES}))


def _sentences(row: Int32, starts: Int32) -> list[bytes]:
    """The sentences as bytes, four for each token; what comes before the first start belongs to it."""
    edges = np.flatnonzero(starts == 1)[1:] if len(starts) and starts[0] != 1 else np.flatnonzero(starts == 1)
    edges = np.unique(np.concatenate([[0], edges[edges > 0], [len(row)]]))
    return [row[a:b].tobytes() for a, b in pairwise(edges.tolist())]


def _laid(row: bytes, sentences: list[bytes]) -> bool:
    """Whether the row is those sentences, each once, in some order; a search that grows too long says yes."""
    steps = 0
    stack = [(0, tuple(sorted(sentences)))]
    while stack:
        place, left = stack.pop()
        steps += 1
        if not left or steps > _STEPS:
            return steps > _STEPS or place == len(row)
        for sentence in set(left):
            if row.startswith(sentence, place):
                rest = list(left)
                rest.remove(sentence)
                stack.append((place + len(sentence), tuple(rest)))
    return False


def _displacement(was: Ragged, now: Ragged) -> np.ndarray:
    """int64[T]: how far each token is from where it was, when equal tokens keep their order: no pairing has less."""
    row = np.repeat(np.arange(len(was)), was.lengths)
    place = np.arange(len(row)) - was.offsets[row]
    old, new = np.lexsort((place, was.values, row)), np.lexsort((place, now.values, row))
    moved = np.empty(len(row), np.int64)
    moved[new] = np.abs(place[new] - place[old])
    return moved


def _difference(was: Int32, now: Int32) -> str:
    """What one row has that the other has not, in a few words."""
    ids = np.unique(np.concatenate([was, now]))
    extra = [(int(i), int((now == i).sum() - (was == i).sum())) for i in ids.tolist()]
    lost = [i for i, n in extra if n < 0]
    came = [i for i, n in extra if n > 0]
    if not lost and not came:
        return "the same tokens in an order that is not allowed"
    parts = []
    if lost:
        parts.append(f"id {lost[0]} is lost" + (f" and {len(lost) - 1} others" if len(lost) > 1 else ""))
    if came:
        parts.append(f"id {came[0]} came in" + (f" and {len(came) - 1} others" if len(came) > 1 else ""))
    return ", ".join(parts)
