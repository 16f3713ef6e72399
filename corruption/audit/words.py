"""Laws of whole words: all tokens of a word are chosen or none, and the words add up to the rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corruption.audit.chance import Total, Trial
from corruption.audit.finding import Bools, Evidence, Finding, Place, at_rows
from corruption.audit.masking import RATE, SHARES, Masking, budget, share_trials
from corruption.ragged import Int64, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

WORDS = "whole words"
TOGETHER = "one decision a word"


@dataclass(frozen=True)
class Words:
    """The words of some rows, in order: int64[words] each, but free, which is bool[words].

    first: place in the flat values; size: tokens; row; chosen: tokens with a label; free: without a special token.
    """

    first: Int64
    size: Int64
    row: Int64
    chosen: Int64
    free: Bools

    @staticmethod
    def of(original: Ragged, labels: Ragged, word_start: Ragged, vocabulary: Vocabulary) -> Words:
        """From rows, their labels and where their words start; a row's first token always starts one."""
        starts = word_start.values == 1
        starts[original.offsets[:-1][original.lengths > 0]] = True
        first = np.flatnonzero(starts)
        size = np.diff(np.append(first, len(starts)))
        row = np.searchsorted(original.offsets, first, side="right") - 1
        fixed = vocabulary.fixed[np.clip(original.values, 0, vocabulary.size - 1)]
        if not len(first):
            none = np.zeros(0, np.int64)
            return Words(none, none, none, none, np.zeros(0, np.bool_))
        chosen = np.add.reduceat((labels.values != IGNORE).astype(np.int64), first)
        return Words(first, size, row, chosen, np.add.reduceat(fixed.astype(np.int64), first) == 0)

    def sums(self, values: Int64 | Bools, rows: int) -> Int64:
        """int64[rows]: the sum over each row's words."""
        return np.bincount(self.row, values, rows).astype(np.int64)


def word_laws(
    tokens: Ragged, labels: Ragged, original: Ragged, word_start: Ragged, vocabulary: Vocabulary, asked: Masking
) -> Evidence:
    """Words are chosen whole, as many as the rate asks for, and each is hidden, changed or kept as one.

    exact: no more tokens than the count, unless the first word taken is longer; and no word that would still have
    fitted was left out. stochastic: the same for one of two counts. bernoulli: a binomial test over words.
    """
    words = Words.of(original, labels, word_start, vocabulary)
    half = (words.chosen > 0) & (words.chosen < words.size)
    bound = (words.chosen > 0) & ~words.free
    findings = (
        *_words(
            WORDS, half, words, lambda w: f"{words.chosen[w]} of the {words.size[w]} tokens of a word have a label"
        ),
        *_words(WORDS, bound, words, lambda w: "a word that holds a special token was chosen"),
    )
    evidence = Evidence(findings, laws=frozenset({WORDS}))
    if asked.rate is not None:
        evidence += _rate(words, len(original), asked)
    return evidence + (_together(tokens, labels, words, vocabulary, asked) if asked.decide == "word" else Evidence())


def _rate(words: Words, rows: int, asked: Masking) -> Evidence:
    rate, laws = float(asked.rate or 0.0), frozenset({RATE})
    taken = words.chosen > 0
    if asked.count is None:
        return Evidence(skipped=((RATE, "how words were counted is not said"),))
    if asked.count == "bernoulli":
        free, hit = words.sums(words.free, rows), words.sums(taken & words.free, rows)
        if asked.unit == "span":
            # The words of a span share a coin; rows do not.
            total = Total.of(RATE, "chosen words", hit, rate * free, float(free.max(initial=1)))
            return Evidence(trials=(total,), laws=laws)
        mean = float(rate * free.sum())
        trial = Trial(RATE, "chosen words", int(hit.sum()), int(free.sum()), mean, mean)
        return Evidence(trials=(trial,), laws=laws)
    n, k = words.sums(words.size * words.free, rows), words.sums(words.chosen, rows)
    least = budget(n, rate) if asked.count == "exact" else np.floor(rate * n).astype(np.int64)
    most = least if asked.count == "exact" else np.minimum(n, least + (rate * n > least))
    alone = words.sums(taken, rows) == 1
    shortest = np.full(rows, np.iinfo(np.int64).max)
    np.minimum.at(shortest, words.row[words.free], words.size[words.free])
    left = np.full(rows, np.iinfo(np.int64).max)
    open_ = words.free & ~taken
    np.minimum.at(left, words.row[open_], words.size[open_])
    # The first word is taken whole only where no word fits.
    over = (k > most) & ~(alone & (shortest > least) & (most > 0))
    under = (k < least) & (left <= least - k)
    findings = at_rows(
        RATE,
        over | under,
        lambda i: f"{k[i]} of {n[i]} tokens have a label, rate {rate} asks for {least[i]} in whole words",
    )
    return Evidence(findings, laws=laws)


def _together(tokens: Ragged, labels: Ragged, words: Words, vocabulary: Vocabulary, asked: Masking) -> Evidence:
    whole = (words.chosen == words.size) & words.free
    if not len(words.first):
        return Evidence()
    hidden = np.add.reduceat((tokens.values == vocabulary.mask).astype(np.int64), words.first)
    same = np.add.reduceat((tokens.values == labels.values).astype(np.int64), words.first)
    mixed = whole & (hidden > 0) & (hidden < words.size)
    mixed |= whole & (hidden == 0) & (same > 0) & (same < words.size)
    findings = _words(TOGETHER, mixed, words, lambda w: "one part of a word is hidden, random or kept, the rest is not")
    clear = whole & ~mixed
    counts = [int((clear & (hidden > 0)).sum()), int((clear & (hidden == 0) & (same == 0)).sum())]
    counts.append(int(clear.sum()) - sum(counts))
    trials = share_trials(int(clear.sum()), counts, asked, len(vocabulary.pool))
    return Evidence(findings, tuple(trials), frozenset({TOGETHER, SHARES} if trials else {TOGETHER}))


def _words(law: str, bad: Bools, words: Words, say: object) -> tuple[Finding, ...]:
    places = np.flatnonzero(bad)
    if not len(places):
        return ()
    w = int(places[0])
    row = int(words.row[w])
    start = int(words.first[np.searchsorted(words.row, row)])
    return (Finding(law, Place(row=row, position=int(words.first[w]) - start), say(w), len(places)),)  # type: ignore[operator]
