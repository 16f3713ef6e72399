"""WHERE a corruption acts: which tokens or whole words of one row are chosen, and how many.

Every function here is compiled, works on one row, and takes its randomness from a stream of `noise`. Draw 3j
of the row's stream chooses; draws 3p + 1 and 3p + 2 belong to what is then done at position p (see the
corruption that uses it).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corruption.noise import below, draw, unit
from corruption.ragged import Int32

COUNTS = {"exact": 0, "bernoulli": 1, "stochastic": 2}
"""How many are chosen: round(rate * n), at least one; each by its own coin; or floor(rate * n + U[0, 1))."""

_EXACT, _BERNOULLI = 0, 1
_COUNT_DRAW = np.uint64(0xFFFFFFFFFFFFFFFE)
_THREE = np.uint64(3)


@njit(inline="always")
def budget(n: int, rate: float, count: int, stream: np.uint64) -> int:
    """How many of n tokens to choose; not for "bernoulli". Half rounds to even; exact is at least one."""
    if n == 0 or rate <= 0.0:
        return 0
    if count == _EXACT:
        return min(n, max(1, int(np.rint(rate * n))))
    return min(n, int(np.floor(rate * n + unit(draw(stream, _COUNT_DRAW)))))


@njit(inline="always")
def choose_tokens(
    tokens: Int32, fixed: np.ndarray, rate: float, count: int, stream: np.uint64, chosen: Int32
) -> int:
    """Write the chosen positions to the front of `chosen` and return how many.

    `chosen` is int32 and one longer than the row. Positions whose token is `fixed` are never chosen. Each set
    of the asked size is equally likely (partial Fisher-Yates over the positions that may be chosen).
    """
    n = 0
    for i in range(len(tokens)):
        chosen[n] = i
        if fixed[tokens[i]] == 0:
            n += 1
    if count == _BERNOULLI:
        k = 0
        for j in range(n):
            position = chosen[j]
            if unit(draw(stream, _THREE * np.uint64(position))) < rate:
                chosen[k] = position
                k += 1
        return k
    k = budget(n, rate, count, stream)
    for j in range(k):
        other = j + np.int64(below(draw(stream, _THREE * np.uint64(j)), np.uint64(n - j)))
        chosen[j], chosen[other] = chosen[other], chosen[j]
    return k


@njit(inline="always")
def choose_words(
    tokens: Int32,
    word_start: Int32,
    fixed: np.ndarray,
    rate: float,
    count: int,
    stream: np.uint64,
    words: Int32,
    chosen: Int32,
) -> int:
    """Like `choose_tokens`, but whole words: all tokens of a word or none.

    `rate` stays a share of tokens. Words are visited in random order; one that would exceed the budget is
    passed over, except that the first is always taken when nothing fits. A word that holds a fixed token is
    never chosen. `words` (int32, at least as long as the row) is scratch: the first position of each word
    that may be chosen.
    """
    n_words, n_tokens, start = 0, 0, 0
    for i in range(1, len(tokens) + 1):
        if i == len(tokens) or word_start[i] == 1:
            free = True
            for j in range(start, i):
                if fixed[tokens[j]] == 1:
                    free = False
            if free and i > start:
                words[n_words] = start
                n_words += 1
                n_tokens += i - start
            start = i
    wanted = n_tokens if count == _BERNOULLI else budget(n_tokens, rate, count, stream)
    k = 0
    for j in range(n_words):
        if k == wanted:
            break
        if count == _BERNOULLI:
            first = words[j]
            if unit(draw(stream, _THREE * np.uint64(first))) >= rate:
                continue
        else:
            other = j + np.int64(below(draw(stream, _THREE * np.uint64(j)), np.uint64(n_words - j)))
            words[j], words[other] = words[other], words[j]
            first = words[j]
        end = first + 1
        while end < len(tokens) and word_start[end] == 0:
            end += 1
        if count != _BERNOULLI and k + end - first > wanted:
            continue
        for position in range(first, end):
            chosen[k] = position
            k += 1
    if k == 0 and wanted > 0 and n_words > 0 and count != _BERNOULLI:
        # Every word is longer than the budget. words[0] was the first of the random order: take it whole.
        first = words[0]
        chosen[0] = first
        k = 1
        while first + k < len(tokens) and word_start[first + k] == 0:
            chosen[k] = first + k
            k += 1
    return k
