"""WHERE a corruption acts: which tokens, whole words or spans of words of one row are chosen, and how many.

Every function here is compiled, works on one row, and takes its randomness from a stream of `noise`. Draw 3j
of the row's stream chooses; draws 3p + 1 and 3p + 2 belong to what is then done at position p (see the
corruption that uses it). Draws from 2 ** 56 on serve the spans, a range for each question, and the count.

The two long ones are not inlined into the caller by numba: they run as fast, and it compiles in half the time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corruption.lengths import Float64, length_at
from corruption.noise import below, draw, unit
from corruption.ragged import Int32

COUNTS = {"exact": 0, "bernoulli": 1, "stochastic": 2}
"""How many are chosen: round(rate * n), at least one; each by its own coin; or floor(rate * n + U[0, 1))."""

_EXACT, _BERNOULLI = 0, 1
_COUNT_DRAW = np.uint64(0xFFFFFFFFFFFFFFFE)
_LENGTH, _PLACE, _TURN, _FILL = (np.uint64(i << 56) for i in (1, 2, 3, 4))
_ONE, _THREE = np.uint64(1), np.uint64(3)


@njit(inline="always")
def budget(n: int, rate: float, count: int, stream: np.uint64) -> int:
    """How many of n tokens to choose; not for "bernoulli". Half rounds to even; exact is at least one."""
    if n == 0 or rate <= 0.0:
        return 0
    if count == _EXACT:
        return min(n, max(1, int(np.rint(rate * n))))
    return min(n, int(np.floor(rate * n + unit(draw(stream, _COUNT_DRAW)))))


@njit(inline="always")
def choose_tokens(tokens: Int32, fixed: np.ndarray, rate: float, count: int, stream: np.uint64, chosen: Int32) -> int:
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
def _free_words(tokens: Int32, word_start: Int32, fixed: np.ndarray, words: Int32, ends: Int32) -> tuple[int, int]:
    """Find the words that hold no fixed token: how many there are, and how many tokens they have.

    `words` takes where each starts, `ends` where it ends unless it has no room.
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
                if len(ends) > 0:
                    ends[n_words] = i
                n_words += 1
                n_tokens += i - start
            start = i
    return n_words, n_tokens


@njit(inline="always")
def _word_end(first: int, word_start: Int32) -> int:
    """The position behind the last token of the word that starts at `first`."""
    end = first + 1
    while end < len(word_start) and word_start[end] == 0:
        end += 1
    return end


@njit
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
    n_words, n_tokens = _free_words(tokens, word_start, fixed, words, words[:0])
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
        end = _word_end(first, word_start)
        if count != _BERNOULLI and k + end - first > wanted:
            continue
        for position in range(first, end):
            chosen[k] = position
            k += 1
    if k == 0 and wanted > 0 and n_words > 0 and count != _BERNOULLI:
        # Every word is longer than the budget. words[0] was the first of the random order: take it whole.
        for position in range(words[0], _word_end(words[0], word_start)):
            chosen[k] = position
            k += 1
    return k


@njit
def choose_spans(
    tokens: Int32,
    word_start: Int32,
    fixed: np.ndarray,
    rate: float,
    count: int,
    table: Float64,
    mean: float,
    stream: np.uint64,
    words: Int32,
    sizes: Int32,
    places: Int32,
    ring: Int32,
    before: Int32,
    ends: Int32,
    chosen: Int32,
    heads: Int32,
) -> int:
    """Like `choose_words`, but spans of words whose lengths follow the law of `table` (`mean` words on average).

    `heads`, beside `chosen`, holds the first position of the span that each chosen position belongs to. Spans
    share no word and hold no fixed token. `words`, `sizes`, `places`, `ring` and `before` are scratch; all
    are int32 and at least as long as the row.

    By budget: lengths are drawn until the words would do even if each were a single token, and these spans are laid
    out on the row's words, closed to a ring, so that every layout is equally likely and no word is favoured. They are
    then taken as they were drawn. The one that would exceed the budget keeps as many of its words as fit, and single
    words in random order make up what is missing: less is chosen only when every word left is longer than that. If
    every word of the row is, one is taken whole. A span across a fixed token or the row's ends counts as two.

    "bernoulli": from left to right a coin decides at each word whether a span begins, so that each word is chosen with
    probability `rate`. A row, or what follows a fixed token, begins inside a span just as often.
    """
    n_words, n_tokens = _free_words(tokens, word_start, fixed, words, ends)
    k = 0
    if count == _BERNOULLI:
        begins = rate / (rate + mean * (1.0 - rate))
        left, head, end = 0, 0, -1
        for w in range(n_words):
            first = words[w]
            fresh = first != end
            end = ends[w]
            if fresh or left == 0:
                head, left = first, 0
                if unit(draw(stream, _THREE * np.uint64(first))) < (rate if fresh else begins):
                    u = unit(draw(stream, _LENGTH + np.uint64(first)))
                    left = _rest_at(table, u * mean) if fresh else length_at(table, u)
            if left > 0:
                left -= 1
                for position in range(first, end):
                    chosen[k] = position
                    heads[k] = head
                    k += 1
        return k
    wanted = budget(n_tokens, rate, count, stream)
    if wanted == 0:
        return 0
    n_spans = _lay_out(n_words, min(wanted, n_words), table, stream, sizes, places, ring, before)
    full = False
    for i in range(n_spans):
        w, head, end = places[i], 0, -1
        for _ in range(sizes[i]):
            first = words[w]
            if first != end:
                head = first
            end = ends[w]
            full = k + end - first > wanted
            if full:
                break
            for position in range(first, end):
                chosen[k] = position
                heads[k] = head
                k += 1
            words[w] = ~first  # taken
            w = w + 1 if w + 1 < n_words else 0
        if full or k == wanted:
            break
    j = 0
    while k < wanted and j < n_words:
        other = j + np.int64(below(draw(stream, _FILL + np.uint64(j)), np.uint64(n_words - j)))
        words[j], words[other] = words[other], words[j]
        first = words[j]
        j += 1
        if first >= 0:
            end = _word_end(first, word_start)
            if k + end - first <= wanted:
                for position in range(first, end):
                    chosen[k] = position
                    heads[k] = first
                    k += 1
    if k == 0:
        # Every word is longer than the budget. words[0] was the first of the random order: take it whole.
        for position in range(words[0], _word_end(words[0], word_start)):
            chosen[k] = position
            heads[k] = words[0]
            k += 1
    return k


@njit(inline="always")
def _lay_out(
    n_words: int,
    covered: int,
    table: Float64,
    stream: np.uint64,
    sizes: Int32,
    places: Int32,
    ring: Int32,
    before: Int32,
) -> int:
    """Draw the lengths of spans that cover `covered` of `n_words` words, and where each starts; how many there are.

    The last length is cut so that they add up. `sizes` and `places` (a word's number) are in the order drawn.
    """
    n, total = 0, 0
    while total < covered:
        size = min(length_at(table, unit(draw(stream, _LENGTH + np.uint64(n)))), covered - total)
        sizes[n] = size
        total += size
        n += 1
    # The ring is made of spans and of the words left out. Each span is given its item; what stands before an item
    # moves it on; and the ring begins at any word.
    items = n_words - covered + n
    for item in range(items):
        ring[item], before[item] = item, 0
    for i in range(n):
        other = i + np.int64(below(draw(stream, _PLACE + np.uint64(i)), np.uint64(items - i)))
        ring[i], ring[other] = ring[other], ring[i]
        before[ring[i]] = sizes[i] - 1
    moved = np.int64(below(draw(stream, _TURN), np.uint64(n_words)))
    for item in range(items):
        wider = before[item]
        before[item] = moved
        moved += wider
    for i in range(n):
        w = ring[i] + before[ring[i]]
        places[i] = w if w < n_words else w - n_words
    return n


@njit(inline="always")
def _rest_at(table: Float64, rest: float) -> int:
    """How many words of a span are left at a word that falls into it, from a uniform number in [0, mean length)."""
    n = 1
    while n < len(table) - 1 and rest >= 1.0 - table[n - 1]:
        rest -= 1.0 - table[n - 1]
        n += 1
    return n


@njit(inline="always")
def edges_of(starts: Int32, edges: Int32) -> int:
    """Write where each word (or sentence) starts, then the row's length, to `edges`; return how many there are.

    `edges` is int32 and one longer than the row. Position 0 starts one whatever its flag says.
    """
    n = 0
    for i in range(len(starts)):
        edges[n] = i
        n += 1 if i == 0 or starts[i] == 1 else 0
    edges[n] = len(starts)
    return n


@njit(inline="always")
def expand(items: Int32, edges: Int32, index: Int32) -> int:
    """Write the places of each item's tokens to `index`, or the item itself where it is negative; how many that makes.

    Item w covers edges[w]..edges[w + 1] - 1. `index` needs room for three more than come to stand in it.
    """
    to = 0
    for w in items:
        known = max(w, 0)
        first = edges[known] if w >= 0 else w
        size = edges[known + 1] - edges[known] if w >= 0 else 1
        # Hardly a word is longer than four tokens, and to ask each for its length costs more than to write too many.
        for i in range(4):
            index[to + i] = first + i
        for i in range(4, size):
            index[to + i] = first + i
        to += size
    return to
