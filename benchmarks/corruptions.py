"""Every corruption next to the peer that has it: a collator of transformers, or the published algorithm in NumPy.

256 passages of 510 tokens, a row group of the store, on one core, processor time; each round runs everyone in turn and
the best time counts, so that a busy machine hits all alike. A line by a kind's name is the bare corruption, from ragged
columns to ragged columns; `row_by_row.py` has the algorithms it is compared with. Collators are given lists and make
padded arrays, so beside them stands our way from Arrow rows to the same arrays. Run with
`python benchmarks/corruptions.py`; it prints the table and writes benchmarks/corruptions.md.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import argparse  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from itertools import cycle  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import row_by_row as peers  # noqa: E402
from english import Passages, passages  # noqa: E402
from transformers import DataCollatorForLanguageModeling, DataCollatorForPermutationLanguageModeling  # noqa: E402

from corruption import Batch, Chain, Vocabulary  # noqa: E402
from corruption.chain import Noise  # noqa: E402
from corruption.frames import suited  # noqa: E402
from corruption.padding import padded  # noqa: E402

ROWS, CONTENT = 256, 510
Task = Callable[[], Any]
Step = dict[str, Any]

_DELETE = {"kind": "delete", "rate": 0.1}
_UL2: list[list[Step]] = [
    [{"kind": "span_sentinel", "rate": 0.15, "mean_length": 3.0, "mode": "[R]"}],
    [{"kind": "span_sentinel", "rate": 0.15, "mean_length": 8.0, "mode": "[R]"}],
    [{"kind": "prefix_split", "rate": 0.25, "mode": "[S]"}],
    [{"kind": "span_sentinel", "rate": 0.5, "mean_length": 3.0, "mode": "[X]"}],
    [{"kind": "span_sentinel", "rate": 0.5, "mean_length": 8.0, "mode": "[X]"}],
    [{"kind": "span_sentinel", "rate": 0.15, "mean_length": 64.0, "mode": "[X]"}],
    [{"kind": "span_sentinel", "rate": 0.5, "mean_length": 64.0, "mode": "[X]"}],
]
ALONE: tuple[tuple[str, Step, peers.Algorithm], ...] = (
    ("mask, tokens", {"kind": "mask"}, peers.mask_tokens),
    ("mask, words", {"kind": "mask", "unit": "word"}, peers.mask_words),
    ("mask, spans", {"kind": "mask", "unit": "span"}, peers.mask_spans),
    ("delete", {"kind": "delete"}, peers.delete),
    ("infill", {"kind": "infill"}, peers.infill),
    ("infill, overlapping", {"kind": "infill", "placement": "overlapping"}, peers.infill),
    ("shuffle_sentences", {"kind": "shuffle_sentences"}, peers.shuffle_sentences),
    ("rotate", {"kind": "rotate"}, peers.rotate),
    ("shuffle_tokens, global", {"kind": "shuffle_tokens", "scope": "global"}, peers.shuffle_globally),
    ("shuffle_tokens, local", {"kind": "shuffle_tokens", "scope": "local"}, peers.shuffle_locally),
    ("replace_random", {"kind": "replace_random"}, peers.replace_random),
    ("insert_random", {"kind": "insert_random"}, peers.insert_random),
    ("span_sentinel", {"kind": "span_sentinel"}, peers.span_sentinel),
    ("prefix_split", {"kind": "prefix_split"}, peers.prefix_split),
    ("mixture, UL2", {"kind": "mixture", "chains": _UL2}, peers.mixture),
    ("sentence_pair", {"kind": "sentence_pair"}, peers.sentence_pair),
    ("permutation_order", {"kind": "permutation_order"}, peers.permutation_order),
    ("attention_pattern", {"kind": "attention_pattern"}, peers.attention_pattern),
    ("crop", {"kind": "crop"}, peers.crop),
    ("views, deletion", {"kind": "views", "first": [_DELETE], "second": [_DELETE]}, peers.views),
)


@dataclass(frozen=True)
class Contest:
    """One line: ours, and the peer's name and task."""

    name: str
    ours: Task
    peer: str
    theirs: Task


def alone(data: Passages, vocabulary: Vocabulary, name: str, step: Step, algorithm: peers.Algorithm) -> Contest:
    """The bare corruption against the algorithm row by row."""
    chain = Chain.parse([step])
    batch = Batch.from_arrow(data.table, chain.columns())
    # New noise at every call: a processor learns the branches of noise that is repeated.
    corruption, noises = chain.steps[0], cycle([Noise.of(0, chain.names[0], epoch) for epoch in range(1000)])
    names = ("tokens", "word_start", "sentence_start", "foreign_tokens", "foreign_sentence_start")
    columns = [[np.array(row) for row in data.table[column].to_pylist()] for column in names]
    rows = [peers.Row(*parts) for parts in zip(*columns)]
    tokens = peers.Tokens(
        vocabulary.need("mask", "the benchmark"),
        np.array(vocabulary.sentinels),
        [vocabulary.token(mode, "the benchmark") for mode in ("[R]", "[S]", "[X]")],
        vocabulary.pool.astype(np.int64),
    )
    random = np.random.default_rng(0)
    return Contest(
        name,
        lambda: corruption.apply(batch, next(noises), vocabulary),
        f"`{algorithm.__name__}` in NumPy",
        lambda: [algorithm(row, tokens, random) for row in rows],
    )


def to_arrays(data: Passages, vocabulary: Vocabulary, name: str, step: Step, collate: Any) -> Contest:
    """From rows to padded arrays, against a collator of transformers that is given lists."""
    chain = Chain.parse([step])
    frame, epoch = suited(chain.provides()), iter(range(1 << 40))
    ids = [vocabulary.cls, vocabulary.sep]
    features = [{"input_ids": [ids[0], *row, ids[1]]} for row in data.table["tokens"].to_pylist()]
    for row in features:
        row["special_tokens_mask"] = [1, *[0] * CONTENT, 1]

    def run() -> Any:
        batch = Batch.from_arrow(data.table, chain.columns())
        corrupted = chain.apply(batch, seed=0, epoch=next(epoch), vocabulary=vocabulary)
        return padded(frame.apply(corrupted, vocabulary), vocabulary)

    return Contest(
        f"{name}, rows to arrays",
        run,
        f"`{type(collate).__name__}`, {collate.return_tensors}",
        lambda: collate([dict(row) for row in features]),
    )


def contests(data: Passages) -> list[Contest]:
    """All lines of the table."""
    vocabulary = Vocabulary.from_tokenizer(data.tokenizer)
    found = [alone(data, vocabulary, *line) for line in ALONE]
    for kind in ("np", "pt"):
        collate = DataCollatorForLanguageModeling(data.tokenizer, return_tensors=kind)
        found.append(to_arrays(data, vocabulary, "mask, tokens", {"kind": "mask"}, collate))
        permute = DataCollatorForPermutationLanguageModeling(data.tokenizer, return_tensors=kind)
        found.append(to_arrays(data, vocabulary, "permutation_order", {"kind": "permutation_order"}, permute))
    return found


def best(tasks: dict[str, Task], rounds: int) -> dict[str, float]:
    """Seconds of processor time of each task, the best of all rounds."""
    for task in tasks.values():
        task()
    found = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            found[name] = min(found[name], time.process_time() - start)
    return found


def table(data: Passages, rounds: int) -> str:
    """The measured table as Markdown."""
    lines = contests(data)
    copied = Batch.from_arrow(data.table, ("tokens",)).tokens.values
    tasks: dict[str, Task] = {"copy": copied.copy}
    for number, line in enumerate(lines):
        tasks[f"ours {number}"], tasks[f"theirs {number}"] = line.ours, line.theirs
    seconds = best(tasks, rounds)

    def speed(name: str) -> float:
        return data.tokens / seconds[name] / 1e6

    text = [
        "# Corruptions",
        "",
        f"{ROWS} passages of {CONTENT} tokens, one core, processor time, the best of {rounds} rounds. Mtok/s are",
        "million input tokens a second. The peers are described in `row_by_row.py`, or are collators of transformers.",
        "",
        "| corruption | Mtok/s | peer | its Mtok/s | times as fast | share of a memory copy |",
        "|---|---|---|---|---|---|",
    ]
    for number, line in enumerate(lines):
        ours, theirs = speed(f"ours {number}"), speed(f"theirs {number}")
        share = ours / speed("copy")
        cells = [line.name, f"{ours:.3g}", line.peer, f"{theirs:.3g}", f"{ours / theirs:.3g}", f"{share:.2f}"]
        text.append(f"| {' | '.join(cells)} |")
    text.append(f"| copy of the tokens | {speed('copy'):.3g} | | | | 1 |")
    text += [
        "",
        "`mixture` is below the others because each row is copied into the batch of the chain it goes through and",
        "back, and each of UL2's seven chains is a call of its own.",
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    text = table(passages(ROWS, CONTENT), rounds)
    print(text)
    (Path(__file__).parent / "corruptions.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
