"""What a chain did to a batch, counted: so that rates which were asked for can be held against those that came out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from corruption.ragged import Batch, Int32, Ragged
from corruption.schema import IGNORE, PATTERNS
from corruption.vocabulary import Vocabulary


def realised(before: Batch, after: Batch, vocabulary: Vocabulary) -> dict[str, int]:
    """Counts of a corrupted batch beside the passages it came from, row for row; only those that apply.

    rows, tokens, choosable: passages, their tokens, and those that are no special token. input_tokens: tokens of the
    corrupted input. hidden: mask tokens in it. sentinels: sentinels in it.

    With aligned labels: labelled, and of these random (another token stands there, not the mask) and kept (the token
    itself does). With a column `origin`: removed (tokens of the passage that stand nowhere), invented (tokens that
    stand for none), moved (kept tokens that are not where the kept ones in their old order would have them).

    With `targets` or `positive`: target_tokens, positive_tokens. With `next_sentence_label`: not_next, rows whose
    second segment does not follow. With `attention_pattern`: pattern_<name>, rows of each pattern.

    Counts of several batches may be added.
    """
    tokens, columns = after.tokens.values, after.columns
    found = {
        "rows": len(before),
        "tokens": len(before.tokens.values),
        "choosable": _choosable(before.tokens.values, vocabulary.fixed),
        "input_tokens": len(tokens),
    }
    if vocabulary.mask is not None:
        found["hidden"] = _equal(tokens, vocabulary.mask)
    if vocabulary.sentinels:
        found["sentinels"] = int(np.isin(tokens, np.array(vocabulary.sentinels, np.int32)).sum())
    if "labels" in columns and after.aligned("labels"):
        mask = -1 if vocabulary.mask is None else vocabulary.mask
        asked = _labelled(tokens, columns["labels"].values, mask)
        found |= dict(zip(("labelled", "random", "kept"), map(int, asked)))
    if "origin" in columns:
        found |= _edited(before.tokens, columns["origin"])
    for column, name in (("targets", "target_tokens"), ("positive", "positive_tokens")):
        if column in columns:
            found[name] = len(columns[column].values)
    if "next_sentence_label" in columns:
        found["not_next"] = int((columns["next_sentence_label"].values == 1).sum())
    if "attention_pattern" in columns:
        counts = np.bincount(columns["attention_pattern"].values, minlength=len(PATTERNS))
        found |= {f"pattern_{name}": int(count) for name, count in zip(PATTERNS, counts)}
    return found


@njit(cache=True, nogil=True)
def _choosable(tokens: Int32, fixed: npt.NDArray[np.uint8]) -> int:
    count = 0
    for token in tokens:
        count += 1 - fixed[token]
    return count


@njit(cache=True, nogil=True)
def _equal(tokens: Int32, number: int) -> int:
    count = 0
    for token in tokens:
        count += token == number
    return count


@njit(cache=True, nogil=True)
def _labelled(tokens: Int32, labels: Int32, mask: int) -> tuple[int, int, int]:
    """Positions with a label, and of these those where another token stands (not the mask) and the token itself."""
    asked, other, kept = 0, 0, 0
    for i in range(len(tokens)):
        if labels[i] != IGNORE:
            asked += 1
            kept += tokens[i] == labels[i]
            other += (tokens[i] != labels[i]) & (tokens[i] != mask)
    return asked, other, kept


def _edited(passages: Ragged, origin: Ragged) -> dict[str, int]:
    stays = origin.values >= 0
    # One number for each token of the whole batch that was kept: rows stay apart, and order inside them is kept.
    row = np.repeat(np.arange(len(origin)), origin.lengths)[stays]
    place: npt.NDArray[np.int64] = passages.offsets[row] + origin.values[stays]
    present = np.zeros(len(passages.values), np.bool_)
    present[place] = True
    ordered = bool((place[1:] >= place[:-1]).all())
    return {
        "removed": int((~present).sum()),
        "invented": int((~stays).sum()),
        "moved": 0 if ordered else int((np.sort(place) != place).sum()),
    }
