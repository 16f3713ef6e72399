"""Masking against the collator of transformers: from the same Arrow rows to padded arrays, 64 x 512, on one core.

All contestants turn the same 64 passages into int64 arrays `input_ids`, `labels` and `attention_mask` of 64 x 512. The
collator gets its rows as its users give them: special tokens already in, `to_pylist()` and the call. Beside them: the
kernels alone, a plain copy of the arrays' bytes, and tokenisation. Each round runs everyone in turn and counts
processor time, so that a busy machine hits all alike; the best time counts. Run with `python benchmarks/mask.py`; it
prints the table and writes benchmarks/mask.md.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import argparse  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from itertools import cycle  # noqa: E402
from pathlib import Path  # noqa: E402
from pydoc_data.topics import topics  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import torch  # noqa: E402
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast  # noqa: E402

from corruption import Batch, Chain, Mask, Vocabulary  # noqa: E402
from corruption.chain import Noise  # noqa: E402
from corruption.frames.single import Single  # noqa: E402
from corruption.padding import padded  # noqa: E402
from pipelines.tokenizers import train_tokenizer  # noqa: E402

ROWS, WIDTH = 64, 512
CONTENT = WIDTH - 2
Task = Callable[[], Any]


@dataclass(frozen=True)
class Data:
    """The same passages for everyone: texts, our rows (content and word starts), the collator's rows
    (framed).
    """

    tokenizer: PreTrainedTokenizerFast
    texts: list[str]
    ours: pa.Table
    theirs: pa.Table
    tokens: int


def make_data() -> Data:
    """English text that every Python brings, a WordPiece of 8,000 trained on it, and 64 passages cut from it."""
    text = " ".join(topics[name] for name in sorted(topics))
    tokenizer = train_tokenizer(iter(text.splitlines()), "wordpiece", 8000, lowercase=True)
    whole = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    found_ids, found_words, found_offsets = whole.ids, whole.word_ids, whole.offsets
    ours: dict[str, list[Any]] = {"tokens": [], "word_start": []}
    theirs: dict[str, list[Any]] = {
        "input_ids": [],
        "attention_mask": [],
        "special_tokens_mask": [],
        "offset_mapping": [],
    }
    texts = []
    for i in range(ROWS):
        a, b = i * CONTENT, (i + 1) * CONTENT
        start = found_offsets[a][0]
        ours["tokens"].append(found_ids[a:b])
        ours["word_start"].append([int(j == a or found_words[j] != found_words[j - 1]) for j in range(a, b)])
        theirs["input_ids"].append([tokenizer.cls_token_id, *found_ids[a:b], tokenizer.sep_token_id])
        theirs["attention_mask"].append([1] * WIDTH)
        theirs["special_tokens_mask"].append([1, *[0] * CONTENT, 1])
        offsets = [[s - start, e - start] for s, e in found_offsets[a:b]]
        theirs["offset_mapping"].append([[0, 0], *offsets, [0, 0]])
        texts.append(text[start : found_offsets[b - 1][1]])
    ragged, small = pa.list_(pa.int32()), pa.list_(pa.int8())
    kinds = {"attention_mask": small, "special_tokens_mask": small, "offset_mapping": pa.list_(pa.list_(pa.int32()))}
    return Data(
        tokenizer,
        texts,
        pa.table({"key": pa.array(range(ROWS), pa.uint64())} | {n: pa.array(v, ragged) for n, v in ours.items()}),
        pa.table({n: pa.array(v, kinds.get(n, ragged)) for n, v in theirs.items()}),
        ROWS * CONTENT,
    )


def rows_to_arrays(data: Data, mask: Mask, vocabulary: Vocabulary) -> Task:
    """Our whole path, a new epoch at every call."""
    chain, frame, epoch = Chain((mask,)), Single(), iter(range(1 << 40))

    def run() -> dict[str, np.ndarray]:
        batch = Batch.from_arrow(data.ours, chain.columns())
        corrupted = chain.apply(batch, seed=0, epoch=next(epoch), vocabulary=vocabulary)
        return padded(frame.apply(corrupted, vocabulary), vocabulary, {"input_ids": WIDTH, "labels": WIDTH})

    return run


def kernel(data: Data, mask: Mask, vocabulary: Vocabulary) -> Task:
    """The corruption alone, ragged to ragged."""
    batch = Batch.from_arrow(data.ours, mask.needs())
    # New noise at every call: a processor learns the branches of noise that is repeated.
    noises = cycle([Noise.of(0, "mask", epoch) for epoch in range(1000)])
    return lambda: mask.apply(batch, next(noises), vocabulary)


def collator(data: Data, kind: str, columns: list[str], *, listed: bool = False, words: bool = False) -> Task:
    """The collator from Arrow rows, or from features that are lists already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that random and kept tokens are off for whole words
        collate = DataCollatorForLanguageModeling(data.tokenizer, return_tensors=kind, whole_word_mask=words)
    table = data.theirs.select(columns)
    if listed:
        features = table.to_pylist()
        return lambda: collate([dict(row) for row in features])
    return lambda: collate(table.to_pylist())


def contestants(data: Data) -> dict[str, Task]:
    """Everything that is timed, by the name it has in the table."""
    vocabulary = Vocabulary.from_tokenizer(data.tokenizer)
    ids, special = ["input_ids", "attention_mask"], ["input_ids", "attention_mask", "special_tokens_mask"]
    tasks: dict[str, Task] = {
        "Mask token, rows to arrays": rows_to_arrays(data, Mask(), vocabulary),
        "Mask word, rows to arrays": rows_to_arrays(data, Mask(unit="word"), vocabulary),
        "Mask token, kernel alone": kernel(data, Mask(), vocabulary),
        "Mask word, kernel alone": kernel(data, Mask(unit="word"), vocabulary),
    }
    for kind in ("pt", "np"):
        tasks |= {
            f"collator {kind}": collator(data, kind, ids),
            f"collator {kind}, special_tokens_mask stored": collator(data, kind, special),
            f"from lists: collator {kind}, special_tokens_mask stored": collator(data, kind, special, listed=True),
            f"collator {kind}, whole words": collator(data, kind, [*special, "offset_mapping"], words=True),
        }
    arrays = tasks["Mask token, rows to arrays"]()
    copies = {name: np.empty_like(array) for name, array in arrays.items()}
    tasks["copy of the arrays' bytes"] = lambda: [np.copyto(copies[name], array) for name, array in arrays.items()]
    tasks["tokenisation"] = lambda: data.tokenizer.backend_tokenizer.encode_batch(data.texts)
    return tasks


def check(data: Data, tasks: dict[str, Task]) -> None:
    """Everyone made arrays of the same columns, shape and dtype, that hold the same passages."""
    expected = np.array(data.theirs["input_ids"].to_pylist())
    for name, task in tasks.items():
        if "collator" in name or name.endswith("rows to arrays"):
            made = {column: np.asarray(array) for column, array in task().items()}
            assert sorted(made) == ["attention_mask", "input_ids", "labels"], (name, sorted(made))
            assert all(a.shape == (ROWS, WIDTH) and a.dtype == np.int64 for a in made.values()), name
            restored = np.where(made["labels"] == -100, made["input_ids"], made["labels"])
            assert np.array_equal(restored, expected), name
            assert 0.10 < (made["labels"] != -100).mean() < 0.25, name


def measure(tasks: dict[str, Task], rounds: int) -> dict[str, float]:
    """The best seconds of one call; quick ones are called often in each round."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            for _ in range(max(1, min(50, int(0.02 / best[name]))) if best[name] < 1e9 else 2):
                start = time.process_time()
                task()
                best[name] = min(best[name], time.process_time() - start)
    return best


def report(best: dict[str, float], tokens: int) -> str:
    """The table: tokens per second, and how many times as fast our path of the same unit is."""
    lines = [
        "# Masking",
        "",
        f"{ROWS} passages of {CONTENT} tokens to padded int64 arrays of {ROWS} x {WIDTH}: one core, processor time,",
        "best of many rounds. The last column says how many times as fast Mask is over the whole way from Arrow rows",
        "to padded arrays, by token or by word as the line is. Lines that begin with `from lists` leave out",
        "`to_pylist()`, which Mask has no need of.",
        "",
        "| | Mtok/s | microseconds | Mask is faster by |",
        "|---|---|---|---|",
    ]
    for name, seconds in best.items():
        ours = best[f"Mask {'word' if 'word' in name else 'token'}, rows to arrays"]
        factor = "" if name.startswith("Mask") else f"{seconds / ours:.3g}"
        lines.append(f"| {name} | {tokens / seconds / 1e6:.3g} | {seconds * 1e6:.0f} | {factor} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = make_data()
    tasks = contestants(data)
    check(data, tasks)
    text = report(measure(tasks, arguments.rounds), data.tokens)
    print(text)
    arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
