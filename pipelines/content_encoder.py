"""Text to content tokens with their offsets: a private copy of a tokenizer, and long texts in pieces.

The copy shares no state with the tokenizer it was made from: it never truncates or pads and adds nothing,
and a special token that stands literally in the text is ordinary text, whatever the model and the
pre-tokenizer would make of it.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECE = 1 << 16
"""Code points encoded at once: what bounds the memory and time of one unbroken or book-long text."""

_NEAR = 1 << 12
# Where pieces may meet, the best first. Between two words the tokens are those of the whole text.
_BETWEEN_WORDS = re.compile(r"(?<=[^\W_])(?= [^\W_])")
_AT_SPACE = re.compile(r"(?<=\S)(?=\s)")
_AFTER_STOP = re.compile(r"(?<=[。！？；，、．।॥])(?=\w)")
_AT_MARK = re.compile(r"(?<=\w)(?=[^\w\s])|(?<=[^\w\s])(?=[^\s])")
_PROBE = ("alpha beta", " gamma delta")


_Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Encoded:
    """The content tokens of one text, int32[tokens] each.

    `start` and `end` are code point offsets as the tokenizer gives them; `piece` numbers the
    pre-tokenizer's pieces. `cuts` is how often a run without white space or a full stop was cut only
    because of its length.
    """

    ids: _Ints
    start: _Ints
    end: _Ints
    piece: _Ints
    cuts: int


class ContentEncoder:
    """Encodes texts with its own copy of a tokenizer, given as the JSON of its backend; picklable.

    One text at a time: that is faster than a batch on one core, holds one text's tokens only, and never
    starts the tokenizer's threads, so that a process forked afterwards cannot hang.
    """

    def __init__(self, tokenizer_json: str) -> None:
        from tokenizers import Tokenizer

        spec = json.loads(tokenizer_json)
        self._tokenizer: Tokenizer = Tokenizer.from_str(json.dumps(_without_specials(spec)))
        self._tokenizer.encode_special_tokens = True
        self.unknown = _unknown_id(spec["model"])
        # Normalisers that put a space before every text need the space between two pieces dropped.
        whole = self._ids("".join(_PROBE))
        kept = self._ids(_PROBE[0]) + self._ids(_PROBE[1])
        dropped = self._ids(_PROBE[0]) + self._ids(_PROBE[1].lstrip())
        self._drops_space = kept != whole and dropped == whole

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode(self, text: str) -> Encoded:
        """The content tokens of a text of any length."""
        if len(text) <= PIECE:
            return Encoded(*self._arrays(text), cuts=0)
        parts, cuts, number = [], 0, 0
        for start, end, inside in pieces(text):
            begin = start + 1 if self._drops_space and start and text[start] == " " else start
            ids, first, last, piece = self._arrays(text[begin:end])
            cuts += inside
            if not len(ids):
                continue
            # A run cut for its length stays one pre-tokenizer piece, so that no word seems to start there.
            piece += number - (1 if inside and number else 0) - piece[0]
            number = int(piece[-1]) + 1
            parts.append((ids, first + np.int32(begin), last + np.int32(begin), piece))
        if not parts:
            return Encoded(*self._arrays(""), cuts=cuts)
        ids, first, last, piece = (np.concatenate(column) for column in zip(*parts))
        return Encoded(ids, first, last, piece, cuts)

    def _arrays(self, text: str) -> tuple[_Ints, _Ints, _Ints, _Ints]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        count = len(encoding)
        pairs = np.fromiter(itertools.chain.from_iterable(encoding.offsets), np.int32, 2 * count)
        ids, piece = np.array(encoding.ids, np.int32), np.array(encoding.word_ids, np.int32)
        return ids, np.ascontiguousarray(pairs[::2]), np.ascontiguousarray(pairs[1::2]), piece


def pieces(text: str) -> list[tuple[int, int, bool]]:
    """A text in pieces of at most PIECE code points: (start, end, whether it begins inside an unbroken run)."""
    out, start, inside = [], 0, False
    while len(text) - start > PIECE:
        end, next_inside = _cut(text, start, start + PIECE)
        out.append((start, end, inside))
        start, inside = end, next_inside
    out.append((start, len(text), inside))
    return out


def _cut(text: str, start: int, limit: int) -> tuple[int, bool]:
    """The best place in (start, limit] to cut, and whether it lies inside an unbroken run."""
    for pattern in (_BETWEEN_WORDS, _AT_SPACE, _AFTER_STOP):
        for low in (max(limit - _NEAR, start + 1), start + 1):
            place = _last(pattern, text, low, limit)
            if place is not None:
                return place, False
    if text[limit - 1].isspace() or text[limit].isspace():
        return limit, False
    place = _last(_AT_MARK, text, max(limit - _NEAR, start + 1), limit)
    return (limit if place is None else place), True


def _last(pattern: re.Pattern[str], text: str, low: int, limit: int) -> int | None:
    # `endpos` would hide what follows the limit from the look-ahead, hence the two characters more.
    places = [match.start() for match in pattern.finditer(text, low, limit + 2) if match.start() <= limit]
    return places[-1] if places else None


def _unknown_id(model: dict[str, Any]) -> int | None:
    """The id the model gives to what it does not know; None if there is none."""
    if model["type"] == "Unigram":
        return None if model["unk_id"] is None else int(model["unk_id"])
    token = model.get("unk_token")
    return None if token is None else model["vocab"].get(token)


def _without_specials(spec: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer with its special tokens under names that no text has, every id unchanged.

    Asking the library to treat them as text is not enough: a Unigram model, or a word-level one, would
    still find the literal string in its own vocabulary.
    """
    model = spec["model"]
    hidden = {
        token["content"]: f"\U0010fffe{token['content']}\U0010ffff"
        for token in spec["added_tokens"]
        if token["special"] and token["content"] != model.get("unk_token")
    }
    added = [{**t, "content": hidden.get(t["content"], t["content"])} for t in spec["added_tokens"]]
    if isinstance(model["vocab"], dict):
        vocabulary: Any = {hidden.get(token, token): number for token, number in model["vocab"].items()}
    else:
        vocabulary = [[hidden.get(token, token), score] for token, score in model["vocab"]]
    return {
        **spec,
        "added_tokens": added,
        "model": {**model, "vocab": vocabulary},
        "truncation": None,
        "padding": None,
        "post_processor": None,
    }
