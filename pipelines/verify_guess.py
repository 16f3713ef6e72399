"""What a data set's own ids tell of its tokenizer, and what a tokenizer tells of where words start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corruption.audit.masking import recovered
from corruption.ragged import Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.verify_parts import Rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MOST = (1 << 22) - 1  # no tokenizer has ids beyond it; a damaged row may
_SURE = 30.0  # labels that an id should have had; one that has none by chance is rarer than once in 10^13


def guessed(rows: Rows, largest: int) -> Vocabulary:
    """A vocabulary from some labelled rows, and the largest id of all rows.

    mask: what stands most often where the label is another id. pad: what stands most often where the attention mask
    has ended. special: these, and ids that are frequent and never have a label.
    """
    tokens, labels = rows.tokens, rows.labels
    shown, asked = tokens.values, labels.values
    chosen = asked != IGNORE
    size = 1 + min(largest, _MOST)
    inside = (shown >= 0) & (shown < size) & (asked < size)
    other = np.bincount(shown[chosen & (shown != asked) & inside], minlength=size)
    mask = int(np.argmax(other)) if other.sum() and 2 * other.max() > other.sum() else None
    pad = None
    if rows.real is not None:
        place = np.arange(len(shown)) - np.repeat(tokens.offsets[:-1], tokens.lengths)
        behind = np.bincount(shown[(place >= np.repeat(rows.real, tokens.lengths)) & inside], minlength=size)
        pad = int(np.argmax(behind)) if behind.sum() else None
    was = recovered(tokens, labels).values
    seen = np.bincount(was[(was >= 0) & (was < size)], minlength=size)
    labelled = np.bincount(asked[chosen & (asked >= 0) & (asked < size)], minlength=size)
    rate = chosen.sum() / max(1, len(shown))
    special = {int(i) for i in np.flatnonzero((labelled == 0) & (seen * rate > _SURE))}
    special |= {i for i in (mask, pad) if i is not None}
    ordinary = [i for i in range(size) if i not in special] or [0]
    ids: dict[str, int | None] = {"mask": mask, "pad": pad}
    return Vocabulary.from_ids(size, ids=ids, special=special, ordinary=ordinary, name="no tokenizer")


def found_tokenizer(folder: Path, given: Path | None) -> PreTrainedTokenizerFast | None:
    """The tokenizer the user names, or one that lies in the data set's folder or below it in `tokenizer`."""
    from pipelines.tokenizers import load_tokenizer

    if given is not None:
        return load_tokenizer(str(given))
    for place in (folder, folder / "tokenizer"):
        if (place / "tokenizer.json").is_file():
            return load_tokenizer(str(place))
    return None


def word_starts(tokens: Ragged, tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary) -> Ragged:
    """1 where a word starts, by how the tokenizer writes its tokens: no ## before it, or a leading Ġ or ▁.

    A special token is a word, and one starts behind it.
    """
    texts = tokenizer.get_vocab()
    pieces = any(text.startswith("##") for text in texts)
    starts = np.zeros(vocabulary.size, np.int32)
    for text, number in texts.items():
        starts[number] = not text.startswith("##") if pieces else text.startswith(("Ġ", "▁", "Ċ"))
    starts[vocabulary.fixed == 1] = 1
    inside = np.clip(tokens.values, 0, vocabulary.size - 1)
    flags = starts[inside]
    behind = np.append(False, vocabulary.fixed[inside][:-1] == 1) if len(flags) else np.zeros(0, np.bool_)
    return tokens.with_values(np.where(behind, np.int32(1), flags))
