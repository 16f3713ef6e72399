"""Where words start: the pre-tokenizer's word starts, made to mean the same for every kind of tokenizer.

A word starts at a token

- that begins a run of letters, digits and symbols after white space,
- that begins at a punctuation mark, or right after one: every mark is a word of its own, as BERT has it,
- that begins at a Han, Kana, Thai, Lao, Khmer or Myanmar code point, or right after one: those scripts put
  no spaces,
- where the tokenizer's own pre-tokenizer starts a piece (digits split from letters, for instance).

The first three are read off the text, so that tokenizers whose pre-tokenizer merges words still have them;
a token that covers several words starts the first of them only. A combining mark or an invisible format
character never starts a word, whatever a pre-tokenizer does with it: it belongs to the letter before it.
Tokens that share one code point (byte-level pieces, decompositions) share its word. A token of white space
alone belongs to the word after it when the pre-tokenizer put the two together (a lone "▁" or "Ġ"), else to
the word before it.

Segmentation by the user (`words` column) replaces all of this: a word starts where a word of the user's
starts, and where the tokenizer put two of the user's words into one token, each token of those words is a
word, and the words are counted.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPACE, LETTER, MARK, UNSPACED, EXTENDING = range(5)
"""Classes of a code point: white space; letters, digits, symbols; punctuation; scripts without spaces;
combining."""

_UNSPACED_BLOCKS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x19E0, 0x19FF),  # Khmer symbols
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero, as Han
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3038, 0x303B),
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA9E0, 0xA9FF),  # Myanmar extended B
    (0xAA60, 0xAA7F),  # Myanmar extended A
    (0xF900, 0xFAFF),  # Han compatibility
    (0xFF66, 0xFF9F),  # halfwidth Katakana
    (0x1AFF0, 0x1B16F),  # Kana extensions
    (0x20000, 0x3FFFF),  # Han extensions B and later
)
_ASCII_MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


@functools.lru_cache(maxsize=1)
def _table() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: the class of every code point."""
    table = np.full(0x110000, LETTER, np.uint8)
    for point in (*range(0x20000), *range(0xE0000, 0xE0200)):
        char = chr(point)
        category = unicodedata.category(char)
        if char.isspace():
            table[point] = SPACE
        elif category[0] == "P" or char in _ASCII_MARKS:
            table[point] = MARK
        elif category[0] == "M" or category == "Cf":
            table[point] = EXTENDING
    for first, last in _UNSPACED_BLOCKS:
        block = table[first : last + 1]
        block[block != MARK] = UNSPACED
    return table


def classes(text: str) -> npt.NDArray[np.uint8]:
    """uint8[code points]: the class of each code point of a text."""
    return _table()[np.frombuffer(text.encode("utf-32-le"), np.uint32)]


@dataclass(frozen=True)
class Alignment:
    """What the tokens of one text cover: `word_start` is bool[tokens], `start` and `end` are int32[tokens].

    A token covers the code points start..end-1, white space at both ends left out. A token of white space
    alone covers the first code point of the word it belongs to if that follows, else nothing (start ==
    end). `crossed` counts the user's words that were given up (see `align`). The first token always starts
    a word.
    """

    word_start: npt.NDArray[np.bool_]
    start: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    crossed: int


def text_starts(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """bool[code points]: where a word starts by the text alone, from the classes of its code points."""
    space = kinds == SPACE
    after_space = np.ones(len(kinds), np.bool_)
    after_space[1:] = space[:-1]
    alone = (kinds == MARK) | (kinds == UNSPACED)
    extending = kinds == EXTENDING
    if extending.any():
        # A combining mark is of the kind of what it combines with, so that the letter after "!\ufe0f"
        # starts a word.
        base = np.maximum.accumulate(np.where(extending, 0, np.arange(len(kinds))))
        alone = alone[base]
    beside = alone.copy()
    beside[1:] |= alone[:-1]
    starts: npt.NDArray[np.bool_] = ~space & (after_space | (beside & ~extending))
    return starts


def given_starts(text: str, kinds: npt.NDArray[np.uint8], words: Sequence[str]) -> npt.NDArray[np.bool_] | None:
    """bool[code points]: where the user's words start in the text; None if they are not the text's words.

    White space is ignored on both sides, so "New York" may be one word, and an empty word is none.
    """
    bare = ["".join(word.split()) for word in words]
    if "".join(bare) != "".join(text.split()):
        return None
    lengths = np.array([len(word) for word in bare if word], np.int64)
    visible = np.flatnonzero(kinds != SPACE)
    starts = np.zeros(len(kinds), np.bool_)
    starts[visible[np.cumsum(lengths) - lengths]] = True
    return starts


def align(
    kinds: npt.NDArray[np.uint8],
    given: npt.NDArray[np.bool_] | None,
    start: npt.NDArray[np.int32],
    end: npt.NDArray[np.int32],
    piece: npt.NDArray[np.int32],
) -> Alignment:
    """Words and visible spans of one text's tokens from their offsets (trimmed or not) and pre-tokenizer
    pieces.

    `given` holds the user's word starts (`given_starts`) or None. A token that reaches over a border of the
    user's words makes all words it touches `crossed`: each of their tokens becomes a word, and the words
    are counted.
    """
    length = len(kinds)
    visible = np.flatnonzero(kinds != SPACE).astype(np.int32)
    before = np.zeros(length + 1, np.int32)
    np.cumsum(kinds != SPACE, out=before[1:])
    first = np.append(visible, np.int32(length))[before[start]]
    last = end.copy()
    blank = first >= end
    solid = np.flatnonzero(~blank)
    if not len(solid):
        return Alignment(np.arange(len(start)) == 0, start.copy(), start.copy(), 0)
    last[solid] = visible[before[end[solid]] - 1] + 1

    if given is None:
        starts = text_starts(kinds)
        border = first[solid[1:][piece[solid[1:]] != piece[solid[:-1]]]]
        extending = kinds == EXTENDING
        starts[border[~(extending[border] | extending[border - 1])]] = True
    else:
        starts = given
    number = np.cumsum(starts, dtype=np.int32)

    word = np.empty(len(start), np.int32)
    word[solid] = number[first[solid]]
    if blank.any():
        blanks = np.flatnonzero(blank)
        place = np.searchsorted(solid, blanks)
        following = solid[np.minimum(place, len(solid) - 1)]
        leads = ((piece[following] == piece[blanks]) & (place < len(solid))) | (place == 0)
        owner = np.where(leads, following, solid[np.maximum(place - 1, 0)])
        word[blanks] = word[owner]
        last[blanks] = np.where(leads, first[owner] + 1, start[blanks])
        first[blanks] = np.where(leads, first[owner], start[blanks])

    word_start = np.ones(len(word), np.bool_)
    word_start[1:] = word[1:] != word[:-1]
    crossed = 0
    if given is not None:
        reach = word.copy()
        reach[solid] = number[last[solid] - 1]
        given_up = _covered(word[reach > word], reach[reach > word], int(number[-1]) + 1)
        crossed = int(np.count_nonzero(given_up))
        if crossed:
            # Pieces of one code point stay together even here.
            word_start[1:] |= (given_up[word] | given_up[reach])[1:] & (first[1:] != first[:-1])
    return Alignment(word_start, first, last, crossed)


def _covered(first: npt.NDArray[np.int32], last: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.bool_]:
    """bool[size]: which numbers lie in any of the intervals first..last."""
    change = np.zeros(size + 1, np.int32)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    return np.asarray(np.cumsum(change)[:-1] > 0)


def unspaced(kinds: npt.NDArray[np.uint8]) -> int:
    """How many code points of the text belong to scripts that put no spaces between words."""
    return int(np.count_nonzero(kinds == UNSPACED))
