"""The passages that the benchmarks of kernels share: English that every Python brings, with words and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerFast

from pipelines.tokenizers import train_tokenizer

VOCABULARY = 8000


@dataclass(frozen=True)
class Passages:
    """tokenizer, and a table of `rows` passages of `content` tokens with key, tokens, starts and foreign columns."""

    tokenizer: PreTrainedTokenizerFast
    table: pa.Table

    @property
    def tokens(self) -> int:
        """Content tokens in all."""
        return len(self.table["tokens"].combine_chunks().flatten())


def passages(rows: int, content: int, sentinels: int = 400) -> Passages:
    """Passages cut from the text, over and over; each one's foreign passage is the one half the table on."""
    text = " ".join(topics[name] for name in sorted(topics))
    modes = ("[R]", "[S]", "[X]")
    size = VOCABULARY + sentinels + len(modes)
    tokenizer = train_tokenizer(
        iter(text.splitlines()), "wordpiece", size, lowercase=True, sentinels=sentinels, modes=modes
    )
    encoded = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    ids = np.array(encoded.ids)
    words = np.array([-1 if word is None else word for word in encoded.word_ids])
    word_start = np.append(1, (np.diff(words) != 0).astype(int))
    stop = np.array([token in (".", "?", "!") for token in encoded.tokens])
    columns: dict[str, list[Any]] = {"tokens": [], "word_start": [], "sentence_start": []}
    for i in range(rows):
        part = np.arange(i * content, (i + 1) * content) % len(ids)
        columns["tokens"].append(ids[part])
        columns["word_start"].append(np.append(1, word_start[part][1:]))
        starts = np.append(1, stop[part][:-1].astype(int))
        starts[content // 2] = 1  # the text has tables without a full stop
        columns["sentence_start"].append(starts)
    half = np.roll(np.arange(rows), rows // 2)
    for name in ("tokens", "word_start", "sentence_start"):
        columns[f"foreign_{name}"] = [columns[name][i] for i in half]
    kind = pa.list_(pa.int32())
    keys = pa.array(range(rows), pa.uint64())
    return Passages(tokenizer, pa.table({"key": keys} | {name: pa.array(v, kind) for name, v in columns.items()}))
