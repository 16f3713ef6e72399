"""The published algorithms, one row at a time in NumPy: what `benchmarks/corruptions.py` compares ours with.

Each function takes one row (int64 ids without special tokens) and a NumPy generator and follows the published
description or the released code named in its docstring, vectorised inside the row where the algorithm lets it be. They
are written to be fast and fair, not to be exact twins of ours: where a reference has a known fault, its law is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Row:
    """One passage: ids, 1 where words and sentences start, and another passage with its sentence starts."""

    ids: Ids
    word_start: Ids
    sentence_start: Ids
    foreign: Ids
    foreign_sentence_start: Ids


@dataclass(frozen=True)
class Tokens:
    """The ids an algorithm may write: mask, sentinels counting down, modes, and the ordinary ones."""

    mask: int
    sentinels: Ids
    modes: Sequence[int]
    pool: Ids


Algorithm = Callable[[Row, Tokens, np.random.Generator], Any]


def _eighty_ten_ten(ids: Ids, chosen: Ids, tokens: Tokens, random: np.random.Generator) -> tuple[Ids, Ids]:
    out, labels = ids.copy(), np.full(len(ids), -100)
    labels[chosen] = ids[chosen]
    u = random.random(len(chosen))
    out[chosen[u < 0.8]] = tokens.mask
    swapped = chosen[(u >= 0.8) & (u < 0.9)]
    out[swapped] = tokens.pool[random.integers(0, len(tokens.pool), len(swapped))]
    return out, labels


def mask_tokens(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """BERT's create_masked_lm_predictions: a shuffled share of the positions, 80/10/10."""
    n = len(row.ids)
    chosen = random.permutation(n)[: max(1, round(0.15 * n))]
    return _eighty_ten_ten(row.ids, chosen, tokens, random)


def mask_words(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """BERT's whole-word option: words in random order, one that would exceed the budget is passed over."""
    starts = np.flatnonzero(row.word_start)
    lengths = np.diff(np.append(starts, len(row.ids)))
    order = random.permutation(len(starts))
    budget, taken = max(1, round(0.15 * len(row.ids))), []
    for word in order:
        if lengths[word] <= budget:
            taken.append(np.arange(starts[word], starts[word] + lengths[word]))
            budget -= lengths[word]
            if budget == 0:
                break
    return _eighty_ten_ten(row.ids, np.concatenate(taken), tokens, random)


def mask_spans(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """SpanBERT: geometric spans of whole words until the budget is full, one decision a span."""
    starts = np.append(np.flatnonzero(row.word_start), len(row.ids))
    words = len(starts) - 1
    law = 0.2 * 0.8 ** np.arange(10)
    lengths = random.choice(np.arange(1, 11), size=words, p=law / law.sum())
    covered, budget, i = np.zeros(len(row.ids), bool), max(1, round(0.15 * len(row.ids))), 0
    out, labels = row.ids.copy(), np.full(len(row.ids), -100)
    while budget > 0 and i < words:
        first = random.integers(0, words)
        a, b = starts[first], starts[min(first + lengths[i], words)]
        i += 1
        if b - a > budget or covered[a:b].any():
            continue
        covered[a:b] = True
        budget -= b - a
        labels[a:b] = row.ids[a:b]
        u = random.random()
        if u < 0.8:
            out[a:b] = tokens.mask
        elif u < 0.9:
            out[a:b] = tokens.pool[random.integers(0, len(tokens.pool), b - a)]
    return out, labels


def delete(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """BART's token deletion: a share of the positions without replacement."""
    keep = np.ones(len(row.ids), bool)
    keep[random.permutation(len(row.ids))[: round(0.15 * len(row.ids))]] = False
    return row.ids[keep]


def infill(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """fairseq's add_whole_word_mask: Poisson lengths to the budget, distinct starts, one mask a span, insertions."""
    n = len(row.ids)
    budget = int(np.ceil(0.3 * n))
    lengths = random.poisson(3.0, budget)
    total = np.cumsum(lengths)
    last = int(np.searchsorted(total, budget))
    lengths = lengths[: last + 1]
    lengths[-1] -= total[last] - budget
    inserted = int((lengths == 0).sum())
    lengths = lengths[lengths > 0]
    starts = random.permutation(n)[: len(lengths)]
    keep = np.ones(n, bool)
    out = row.ids.copy()
    out[starts] = tokens.mask
    reach = starts[:, None] + np.arange(1, lengths.max(initial=1))[None, :]
    inside = (np.arange(1, lengths.max(initial=1))[None, :] < lengths[:, None]) & (reach < n)
    keep[reach[inside]] = False
    keep[starts] = True
    out = out[keep]
    return np.insert(out, random.integers(0, len(out) + 1, inserted), tokens.mask)


def shuffle_sentences(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """fairseq's permute_sentences with all of them permuted."""
    parts = np.split(row.ids, np.flatnonzero(row.sentence_start)[1:])
    return np.concatenate([parts[i] for i in random.permutation(len(parts))])


def rotate(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """fairseq's add_rolling_noise."""
    return np.roll(row.ids, -random.integers(1, len(row.ids)))


def shuffle_globally(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """T5's deshuffling: a permutation of all tokens."""
    return random.permutation(row.ids)


def shuffle_locally(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """UnsupervisedMT's WordShuffle with k = 3: sorted by place plus a uniform number."""
    return row.ids[np.argsort(np.arange(len(row.ids)) + random.uniform(0, 3, len(row.ids)), kind="stable")]


def replace_random(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """T5's noise_token_to_random_token on an exact share."""
    chosen = random.permutation(len(row.ids))[: round(0.15 * len(row.ids))]
    out = row.ids.copy()
    out[chosen] = tokens.pool[random.integers(0, len(tokens.pool), len(chosen))]
    return out


def insert_random(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """fairseq's add_insertion_noise."""
    n = len(row.ids)
    m = int(np.ceil(0.1 * n))
    places = random.permutation(n + m)[:m]
    out = np.empty(n + m, np.int64)
    free = np.ones(n + m, bool)
    free[places] = False
    out[places] = tokens.pool[random.integers(0, len(tokens.pool), m)]
    out[free] = row.ids
    return out


def _noise_mask(n: int, rate: float, mean: float, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """T5's random_spans_noise_mask."""
    noise = min(max(round(n * rate), 1), n - 1)
    spans = max(min(round(noise / mean), noise, n - noise), 1)

    def parts(items: int) -> Ids:
        first = np.arange(items - 1) < spans - 1
        random.shuffle(first)
        return np.bincount(np.cumsum(np.concatenate([[False], first])), minlength=spans)

    lengths = np.stack([parts(n - noise), parts(noise)], axis=1).ravel()
    flips = np.zeros(n, np.int8)
    flips[np.cumsum(lengths)[:-1]] = 1
    found: npt.NDArray[np.bool_] = np.cumsum(flips) % 2 == 1
    return found


def _with_sentinels(ids: Ids, noise: npt.NDArray[np.bool_], sentinels: Ids) -> Ids:
    """T5's noise_span_to_unique_sentinel."""
    first = noise & ~np.concatenate([[False], noise[:-1]])
    out = np.where(first, sentinels[np.cumsum(first) - 1], ids)
    return out[~(noise & ~first)]


def _denoise(row: Row, tokens: Tokens, random: np.random.Generator, rate: float, mean: float) -> tuple[Ids, Ids]:
    noise = np.roll(_noise_mask(len(row.ids), rate, mean, random), random.integers(0, len(row.ids)))
    return _with_sentinels(row.ids, noise, tokens.sentinels), _with_sentinels(row.ids, ~noise, tokens.sentinels)


def span_sentinel(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """T5's span corruption with random_roll, inputs and targets."""
    return _denoise(row, tokens, random, 0.15, 3.0)


def prefix_split(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """T5's prefix language modelling: a uniform place to cut."""
    k = random.integers(1, len(row.ids))
    return row.ids[:k].copy(), row.ids[k:].copy()


_DENOISERS = (
    (0, 0.15, 3.0),
    (0, 0.15, 8.0),
    (1, 0.25, 0.0),
    (2, 0.5, 3.0),
    (2, 0.5, 8.0),
    (2, 0.15, 64.0),
    (2, 0.5, 64.0),
)


def mixture(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """UL2: one of seven denoisers, its mode token in front."""
    mode, rate, mean = _DENOISERS[random.integers(0, 7)]
    if mean == 0.0:
        k = len(row.ids) - round(1 + random.random() * (len(row.ids) - 2) * 2 * rate)
        return np.append(tokens.modes[mode], row.ids[:k]), row.ids[k:].copy()
    inputs, targets = _denoise(row, tokens, random, rate, mean)
    return np.append(tokens.modes[mode], inputs), targets


def sentence_pair(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """BERT's create_instances_from_document for one passage: its rest, or another document's sentences."""
    starts = np.flatnonzero(row.sentence_start)
    cut = starts[random.integers(1, len(starts))]
    a, b, label = row.ids[:cut], row.ids[cut:], 0
    if random.random() < 0.5:
        others = np.flatnonzero(row.foreign_sentence_start)
        b, label = row.foreign[others[random.integers(0, len(others))] :][: len(b)], 1
    return np.concatenate([a, b]), np.repeat([0, 1], [len(a), len(b)]), label


def permutation_order(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """XLNet's _sample_mask (n-grams in their contexts, the rest singles) and an order of the targets."""
    n = len(row.ids)
    wanted = round(n / 6)
    starts = np.append(np.flatnonzero(row.word_start), n)
    words = len(starts) - 1
    law = 1.0 / np.arange(1, 6)
    chosen, word, count = np.zeros(n, bool), 0, 0
    grams = random.choice(np.arange(1, 6), size=words, p=law / law.sum())
    i = 0
    while word < words and count < wanted:
        gram = min(int(grams[i]), wanted - count)
        left = random.integers(0, 5 * gram + 1)
        first = word + left
        if first >= words:
            break
        a, b = starts[first], starts[min(first + gram, words)]
        if count + b - a <= wanted:
            chosen[a:b] = True
            count += b - a
        word = first + gram + 5 * gram - left
        i += 1
    rest = np.flatnonzero(~chosen)
    chosen[random.permutation(rest)[: wanted - count]] = True
    targets = np.flatnonzero(chosen)
    order = np.full(n, -1)
    order[targets] = random.permutation(len(targets))
    return order, np.where(chosen, row.ids, -100)


def attention_pattern(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """UniLM's mix of four patterns, and where the second segment starts."""
    pattern = int(np.searchsorted((1 / 3, 1 / 2, 2 / 3), random.random(), side="right"))
    starts = np.flatnonzero(row.sentence_start)
    cut = starts[random.integers(1, len(starts))] if pattern in (0, 3) else len(row.ids)
    return pattern, np.repeat([0, 1], [cut, len(row.ids) - cut])


def crop(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """A contiguous stretch of nine tenths."""
    kept = len(row.ids) - round(0.1 * len(row.ids))
    start = random.integers(0, len(row.ids) - kept + 1)
    return row.ids[start : start + kept].copy()


def views(row: Row, tokens: Tokens, random: np.random.Generator) -> Any:
    """Two views, each with a tenth of the tokens deleted."""
    made = []
    for _ in range(2):
        keep = np.ones(len(row.ids), bool)
        keep[random.permutation(len(row.ids))[: round(0.1 * len(row.ids))]] = False
        made.append(row.ids[keep])
    return made
