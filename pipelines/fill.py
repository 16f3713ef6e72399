"""Fill in masks: one word of a held-out passage is hidden, and the model says what it would put there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corruption.noise import below, draw, stream
from corruption.ragged import Ragged
from pipelines.job import MODEL, Job

_AROUND = 12
_SHORTEST_WORD = 4


@dataclass(frozen=True)
class Filled:
    """A text with one word hidden as [MASK], the word, and the model's best answers with their probabilities."""

    text: str
    word: str
    answers: tuple[tuple[str, float], ...]


def fill_masks(job: Job, how_many: int = 3, best: int = 3) -> list[Filled]:
    """Hide one word in each of some held-out passages and ask the finished model; chosen by the recipe's seed.

    A word is one token of at least four letters, not among the hundred most frequent there; nothing is picked by how
    well the model does.
    """
    import torch
    from transformers import AutoModelForMaskedLM

    from pipelines.tokenizers import load_tokenizer

    tokenizer: Any = load_tokenizer(str(Path(job.store) / "tokenizer"))
    model = AutoModelForMaskedLM.from_pretrained(Path(job.folder) / MODEL).eval()
    filled = []
    for tokens, starts, place in _chosen(job, tokenizer, how_many):
        ids = tokens.astype(np.int64)
        ids[place] = tokenizer.mask_token_id
        vocabulary = job.vocabulary
        first = vocabulary.cls if vocabulary.cls is not None else vocabulary.need("bos", "framing one segment")
        last = vocabulary.sep if vocabulary.sep is not None else vocabulary.need("eos", "framing one segment")
        framed = torch.from_numpy(np.concatenate([[first], ids, [last]]))[None]
        with torch.no_grad():
            logits = model(input_ids=framed, attention_mask=torch.ones_like(framed)).logits[0, place + 1]
        probability, answer = torch.softmax(logits.float(), -1).topk(best)
        words = np.append(np.flatnonzero(starts), len(tokens))
        word = int(np.searchsorted(words, place))
        a, b = words[max(0, word - _AROUND)], words[min(len(words) - 1, word + _AROUND)]
        filled.append(
            Filled(
                tokenizer.decode(ids[a:b].tolist()),
                tokenizer.decode([int(tokens[place])]).strip(),
                tuple((tokenizer.decode([i]).strip(), p) for i, p in zip(answer.tolist(), probability.tolist())),
            )
        )
    return filled


def _chosen(job: Job, tokenizer: Any, how_many: int) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Passages, where their words start, and the place of the word to hide."""
    store = job.opened_store()
    names = ["key", "tokens", "word_start"]
    tables = [store.read(shard, [int(n)], names) for shard, n in zip(store.held_out.shard, store.held_out.number)]
    frequent = set(np.argsort(-_frequencies(tables, job.vocabulary.size))[:100].tolist())
    found = []
    rows = [
        (key, tokens.row(i), starts.row(i))
        for table in tables
        for tokens, starts in [(Ragged.from_arrow(table["tokens"]), Ragged.from_arrow(table["word_start"]))]
        for i, key in enumerate(table["key"].to_pylist())
    ]
    rows.sort(key=lambda row: stream(job.recipe.seed, "papermoth.fill", row[0]))
    for key, tokens, starts in rows:
        whole = np.append(starts[1:], 1).astype(bool) & starts.astype(bool)
        places = [
            i
            for i in np.flatnonzero(whole).tolist()
            if int(tokens[i]) not in frequent and len(_letters(tokenizer, int(tokens[i]))) >= _SHORTEST_WORD
        ]
        if places:
            bits = draw(np.uint64(stream(job.recipe.seed, "papermoth.fill", key)), np.uint64(0))
            found.append((tokens, starts, places[int(below(np.uint64(bits), np.uint64(len(places))))]))
        if len(found) == how_many:
            break
    return found


def _frequencies(tables: Sequence[pa.Table], size: int) -> np.ndarray:
    counts = np.zeros(size, np.int64)
    for table in tables:
        counts += np.bincount(Ragged.from_arrow(table["tokens"]).values, minlength=size)
    return counts


def _letters(tokenizer: Any, token: int) -> str:
    return "".join(c for c in tokenizer.decode([token]) if c.isalpha())
