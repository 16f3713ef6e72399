"""How tokens are written for people: text that no terminal or page takes for a command, and where spaces stand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BLANK = "␣"
"""Stands for a token that is nothing but space, where something must be seen."""

_PARTIAL = "�"
_LONGEST_CHARACTER = 4
# Control characters, the marks that turn the direction of what follows, and halves of surrogate pairs.
_UNFIT = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+")


def clean(text: str) -> str:
    """The text on one line, each run of spaces and of what could command a terminal or turn a line as one space."""
    return _UNFIT.sub(" ", text).strip()


class Spelling:
    """Writes the tokens of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self._tokenizer = tokenizer
        decoder = json.loads(tokenizer.backend_tokenizer.to_str()).get("decoder") or {}
        self._prefix = decoder.get("prefix", "##") if decoder.get("type") == "WordPiece" else None
        self._special = set(tokenizer.all_special_ids) | {
            i for i, token in tokenizer.added_tokens_decoder.items() if token.special
        }

    @property
    def mask(self) -> str | None:
        """How a hidden token is written."""
        mask: str | None = self._tokenizer.mask_token
        return mask

    def text(self, ids: Sequence[int]) -> str:
        """Neighbouring tokens as text."""
        return clean(self._decoded(ids))

    def spaced(self, token: int) -> bool:
        """Whether a space stands before the token."""
        if token in self._special:
            return True
        written = str(self._tokenizer.convert_ids_to_tokens(token))
        if self._prefix is None:
            return written.startswith(("Ġ", "▁", " "))
        return not written.startswith(self._prefix)

    def whole(self, ids: Sequence[int]) -> list[int]:
        """How many tokens to write together, in order, so that no character is torn: mostly one at a time."""
        sizes: list[int] = []
        at = 0
        while at < len(ids):
            size = 1
            while (
                size < min(_LONGEST_CHARACTER, len(ids) - at)
                and _PARTIAL in self._decoded(ids[at : at + size])
                and _PARTIAL in self._decoded(ids[at : at + 1])
            ):
                size += 1
            sizes.append(size if _PARTIAL not in self._decoded(ids[at : at + size]) else 1)
            at += sizes[-1]
        return sizes

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )
