"""Laws of masked rows: labels are the originals, what stands there is lawful, and as many were chosen as asked.

Rows may be framed or bare: special tokens are never chosen, so those of a frame change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from corruption.audit.chance import Total, Trial
from corruption.audit.finding import Bools, Evidence, at_positions, at_rows
from corruption.noise_kinds.mask import Mask
from corruption.ragged import Int32, Int64, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

LABELS = "labels"
PADDING = "padding"
SPECIAL = "special tokens"
UNTOUCHED = "untouched"
RANDOM = "random tokens"
HIDDEN = "hidden tokens"
RATE = "rate"
SHARES = "shares"
PLACES = "places"

_SLICES = 4


@dataclass(frozen=True)
class Masking:
    """What masked rows are said to be; what is None is not said, and not checked.

    rate, count, unit, mask_share, random_share, decide: as in `noise_kinds.Mask`. same: whether a random token may be
    the original, as in sets that others made.
    """

    rate: float | None = None
    count: Literal["exact", "bernoulli", "stochastic"] | None = None
    unit: Literal["token", "word", "span"] | None = None
    mask_share: float | None = None
    random_share: float | None = None
    decide: Literal["token", "word", "span"] | None = None
    same: bool = False

    @staticmethod
    def of(step: Mask) -> Masking:
        """What a step of a chain promises."""
        decide = step.decide or "token"
        return Masking(step.rate, step.count, step.unit, step.mask_share, step.random_share, decide)


def recovered(tokens: Ragged, labels: Ragged) -> Ragged:
    """The rows as they were: the label where there is one, else the token."""
    return tokens.with_values(np.where(labels.values != IGNORE, labels.values, tokens.values))


def label_laws(tokens: Ragged, labels: Ragged, vocabulary: Vocabulary, original: Ragged | None = None) -> Evidence:
    """Labels are ordinary ids, never of padding or special tokens, and what has no label is as it was.

    With the original rows: each label is the original, and nothing else changed. Without: no mask token stands
    where there is no label.
    """
    shown, asked = tokens.values, labels.values
    chosen = asked != IGNORE
    size = vocabulary.size
    outside = chosen & ((asked < 0) | (asked >= size))
    fixed = _flags(asked, chosen & ~outside, vocabulary.fixed)
    padding = fixed & (asked == _id(vocabulary.pad))
    unknown = (shown < 0) | (shown >= size)
    findings = (
        *at_positions(LABELS, unknown, tokens, lambda i: f"{shown[i]} is no id of the {size} there are"),
        *at_positions(LABELS, outside, labels, lambda i: f"label {asked[i]} is no id of the {size} there are"),
        *at_positions(
            PADDING, padding, labels, lambda i: f"padding carries a label, and {_is(shown[i], vocabulary)} there"
        ),
        *at_positions(
            SPECIAL, fixed & ~padding, labels, lambda i: f"a special token is asked for: {_name(asked[i], vocabulary)}"
        ),
    )
    laws = {LABELS, PADDING, SPECIAL, UNTOUCHED}
    if original is not None:
        was = original.values
        findings += (
            *at_positions(
                LABELS, chosen & (asked != was), labels, lambda i: f"label {asked[i]}, the original is {was[i]}"
            ),
            *at_positions(
                UNTOUCHED, ~chosen & (shown != was), labels, lambda i: f"no label, yet {was[i]} became {shown[i]}"
            ),
        )
    elif vocabulary.mask is not None:
        bare = ~chosen & (shown == vocabulary.mask)
        findings += at_positions(UNTOUCHED, bare, labels, lambda i: "a mask token without a label")
    return Evidence(findings, laws=frozenset(laws))


def replacement_laws(tokens: Ragged, labels: Ragged, vocabulary: Vocabulary, asked: Masking) -> Evidence:
    """At a label stands the mask token, the token itself, or an ordinary random one; each as often as asked.

    `shares` counts tokens, hence is only for decisions that were taken token by token.
    """
    shown, wanted = tokens.values, labels.values
    chosen = wanted != IGNORE
    hidden = chosen & (shown == _id(vocabulary.mask))
    kept = chosen & ~hidden & (shown == wanted)
    random = chosen & ~hidden & ~kept & (shown >= 0) & (shown < vocabulary.size)
    fixed = _flags(shown, random, vocabulary.fixed)
    reserved = ~fixed & _flags(shown, random, (vocabulary.rank < 0).astype(np.uint8)) & (not asked.same)
    findings = (
        *at_positions(RANDOM, fixed, tokens, lambda i: f"a special token was put there: {_name(shown[i], vocabulary)}"),
        *at_positions(RANDOM, reserved, tokens, lambda i: f"the reserved id {shown[i]} was put there"),
    )
    n, counts = int(chosen.sum()), [int(part.sum()) for part in (hidden, random, kept)]
    trials: list[Trial | Total] = []
    if asked.decide in (None, "token"):
        trials += share_trials(n, counts, asked, len(vocabulary.pool))
    elif asked.decide == "span":
        trials += _share_totals(labels, chosen, (hidden, random, kept), asked)
    pool = len(vocabulary.pool)
    if counts[1] and not asked.same and pool > 2:
        low = int((vocabulary.rank[shown[random & ~fixed & ~reserved]] < pool // 2).sum())
        of = int((random & ~fixed & ~reserved).sum())
        half = pool // 2
        trials.append(
            Trial(
                RANDOM, "random tokens of the lower half", low, of, of * (half - 1) / (pool - 1), of * half / (pool - 1)
            )
        )
    laws = {RANDOM} | ({SHARES} if trials and asked.mask_share is not None else set())
    return Evidence(findings, tuple(trials), frozenset(laws))


def share_trials(n: int, counts: list[int], asked: Masking, pool: int) -> list[Trial]:
    """Of n decisions, how many hid, changed and kept: the trials of the shares that were asked for."""
    if asked.mask_share is None or asked.random_share is None or n == 0:
        return []
    # Where the random token may be the original, such a token looks kept.
    lost = asked.random_share / pool if asked.same else 0.0
    kept = max(0.0, 1.0 - asked.mask_share - asked.random_share)
    bounds = ((asked.mask_share,) * 2, (asked.random_share - lost, asked.random_share), (kept, kept + lost))
    return [
        Trial(SHARES, what, count, n, low * n, high * n)
        for what, count, (low, high) in zip(("hidden", "random", "kept"), counts, bounds)
    ]


def _share_totals(labels: Ragged, chosen: Bools, parts: tuple[Bools, ...], asked: Masking) -> list[Total]:
    """The same where several tokens share a decision and nobody can tell which: rows are independent, tokens not."""
    if asked.mask_share is None or asked.random_share is None:
        return []
    k = per_row_sum(labels, chosen)
    shares = (asked.mask_share, asked.random_share, max(0.0, 1.0 - asked.mask_share - asked.random_share))
    return [
        Total.of(SHARES, f"{what} tokens", per_row_sum(labels, part), share * k, float(k.max(initial=1)))
        for what, part, share in zip(("hidden", "random", "kept"), parts, shares)
    ]


def rate_laws(original: Ragged, labels: Ragged, vocabulary: Vocabulary, asked: Masking) -> Evidence:
    """Each row has as many labels as its count allows, or all rows together what chance allows; `unit` token."""
    free = vocabulary.fixed[np.clip(original.values, 0, vocabulary.size - 1)] == 0
    n, k = per_row_sum(original, free), per_row_sum(labels, labels.values != IGNORE)
    if asked.rate is None:
        return Evidence(skipped=((RATE, "no rate is asked for"),))
    return count_laws(n, k, asked.rate, asked.count, "have a label")


def count_laws(n: Int64, k: Int64, rate: float, count: str | None, done: str, spare: Bools | None = None) -> Evidence:
    """As many of a row's n tokens as the count allows; `done` says what was done to the k.

    exact: round(rate * n), half to even, at least one. stochastic: that rounded down, or one more. bernoulli, or a
    count that is not known (None): a binomial test over all rows, which leaves room for any way of rounding where it
    is not known. spare: rows of which one token would have been left even if all n had been chosen.
    """
    laws = frozenset({RATE})
    ceiling = n if spare is None else np.where(spare, np.maximum(n - 1, 0), n)
    if count == "exact":
        wanted = np.minimum(budget(n, rate), ceiling)
        findings = at_rows(
            RATE, k != wanted, lambda i: f"{k[i]} of {n[i]} tokens {done}, rate {rate:.4g} asks for {wanted[i]}"
        )
        return Evidence(findings, laws=laws)
    if count == "stochastic":
        least = np.floor(rate * n).astype(np.int64)
        bad = (k < np.minimum(least, ceiling)) | (k > least + 1)
        findings = at_rows(
            RATE, bad, lambda i: f"{k[i]} of {n[i]} tokens {done}, rate {rate:.4g} asks for {least[i]} or one more"
        )
        some = (rate * n > least) & (least < ceiling)
        mean = float((rate * n - least)[some].sum())
        trial = Trial(RATE, "rows rounded up", int((k > least)[some].sum()), int(some.sum()), mean, mean)
        return Evidence(findings, (trial,), laws)
    mean = float(rate * n.sum())
    less = 0.0 if spare is None else float((rate ** n[spare & (n > 0)]).sum())
    more = 0.0
    if count is None:
        less += 0.5 * int((n > 0).sum())
        more += 0.5 * int((n > 0).sum()) + float((1 - rate * n[(n > 0) & (rate * n < 0.5)]).sum())
    trial = Trial(RATE, f"tokens that {done}", int(k.sum()), int(n.sum()), mean - less, mean + more)
    return Evidence(trials=(trial,), laws=laws)


def place_trials(original: Ragged, labels: Ragged, vocabulary: Vocabulary) -> tuple[Trial, ...]:
    """Whether each quarter of a row's choosable tokens has its part of the labels; for `unit` token only."""
    free = vocabulary.fixed[np.clip(original.values, 0, vocabulary.size - 1)] == 0
    n, k = per_row_sum(original, free), per_row_sum(labels, labels.values != IGNORE)
    rows = np.repeat(np.arange(len(n)), original.lengths)
    number = np.cumsum(free) - 1
    number = number - np.append(0, np.cumsum(n))[:-1][rows]
    quarter = number * _SLICES // np.maximum(n, 1)[rows]
    chosen = (labels.values != IGNORE) & free
    trials = []
    for slice_ in range(_SLICES):
        inside = free & (quarter == slice_)
        m = per_row_sum(original, inside)
        mean = float((k * m / np.maximum(n, 1)).sum())
        hits, of = int((chosen & inside).sum()), int(np.minimum(k, m).sum())
        trials.append(Trial(PLACES, f"labels in quarter {slice_ + 1} of the row", hits, of, mean, mean))
    return tuple(trials)


def budget(n: Int64, rate: float) -> Int64:
    """How many of n an exact count chooses: round, half to even, at least one of any."""
    if rate <= 0.0:
        return np.zeros_like(n)
    found: Int64 = np.minimum(n, np.maximum(1, np.rint(rate * n).astype(np.int64)))
    return found


def per_row_sum(column: Ragged, values: Bools | Int32) -> Int64:
    """int64[rows]: the sum over each row of a flat array that lies as `column` does."""
    ends = np.append(0, np.cumsum(values, dtype=np.int64))
    found: Int64 = ends[column.offsets[1:]] - ends[column.offsets[:-1]]
    return found


def _id(role: int | None) -> int:
    return -1 if role is None else role


def _flags(values: Int32, where: Bools, table: np.ndarray) -> Bools:
    """bool[T]: the table's flag at the values, false where `where` is."""
    inside = where & (values >= 0) & (values < len(table))
    found = np.zeros(len(values), np.bool_)
    found[inside] = table[values[inside]] == 1
    return found


def _name(number: int, vocabulary: Vocabulary) -> str:
    """An id as people know it."""
    for role in ("pad", "unk", "mask", "cls", "sep", "bos", "eos"):
        if getattr(vocabulary, role) == number:
            return f"{role} ({number})"
    return next((f"{text} ({number})" for text, i in vocabulary.named.items() if i == number), f"id {number}")


def _is(number: int, vocabulary: Vocabulary) -> str:
    return "the mask token stands" if number == vocabulary.mask else f"{_name(number, vocabulary)} stands"
