"""Generation at scale against `datasets.map` with a collator; and from raw text against tokenisation alone.

First: a store of 400 million tokens (passages of the Wikipedia sample that gensim ships, over and over under
new keys) through `papermoth generate`, Parquet in and out through Ray Data, the second job of a Ray that runs already.
Beside it `datasets.map` with `DataCollatorForLanguageModeling` (return_tensors="pt", one torch thread, num_proc=2) over
rows that carry their special tokens, writing the same columns `input_ids` and `labels` as lists of int32. Both write to
the same disk and use two cores; wall time.

Second: raw text as JSONL to the finished data set (prepare and generate), beside tokenisation alone of the same
documents: `encode_batch` of the same tokenizer on two threads, and `datasets.map` with the tokenizer, num_proc=2.

Run with `python benchmarks/generate.py`; it prints the tables and writes benchmarks/generate.md. It needs some 9 GB of
disk in the temporary folder and takes some ten minutes.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1" if _name != "RAYON_NUM_THREADS" else "2")

import argparse  # noqa: E402
import json  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from pipelines.quiet import quiet  # noqa: E402

quiet()

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from corruption.noise import rank_bits  # noqa: E402
from corruption.ragged import Ragged  # noqa: E402
from pipelines.console import Console  # noqa: E402
from pipelines.documents import Document  # noqa: E402
from pipelines.generate import generate  # noqa: E402
from pipelines.prepare import prepare  # noqa: E402
from pipelines.ray_session import PLUMBING, RaySession  # noqa: E402
from pipelines.recipe import Recipe, load_recipe  # noqa: E402
from pipelines.store import Store, open_store  # noqa: E402
from pipelines.store_writer import finish_store, write_shard  # noqa: E402

CORES = 2
RECIPE = """
seed: 0
corpus:     {{{corpus}, max_tokens: 512}}
{tokenizer}
corruption:
  - {{kind: mask}}
objective:  {{kind: mlm}}
"""
SAMPLE = "package:gensim/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
TRAINED = "tokenizer:  {train: {kind: wordpiece, vocab_size: 16_000, lowercase: true}}"
SHARD_TOKENS = 4 << 20


def recipe(folder: Path, name: str, corpus: str, tokenizer: str = "") -> Recipe:
    """A masking recipe over a corpus."""
    path = folder / f"{name}.yaml"
    path.write_text(RECIPE.format(corpus=corpus, tokenizer=tokenizer), "utf-8")
    return load_recipe(path)


def repeated(sample: Store, folder: Path, tokens: int) -> Store:
    """A store of the sample's training passages, over and over under new keys, until it holds `tokens`."""
    part = sample.train
    passages = pa.concat_tables([sample.read(s, [int(n)], _names(sample, s)) for s, n in zip(part.shard, part.number)])
    passages = passages.combine_chunks()
    keys, shards, made, turn, waiting = passages["key"].to_numpy(), [], 0, 0, []
    held = sample.held_out
    while made < tokens:
        renamed = passages.set_column(0, "key", pa.array(rank_bits(turn, keys), pa.uint64()))
        waiting.append(renamed)
        turn, made = turn + 1, made + part.tokens
        if len(waiting) * part.tokens >= SHARD_TOKENS or made >= tokens:
            path = folder / f"train-{len(shards):05d}.parquet"
            shards.append(write_shard(pa.concat_tables(waiting), path, row_group_tokens=131_072, source=0))
            waiting = []
    rest = pa.concat_tables([sample.read(s, [int(n)], _names(sample, s)) for s, n in zip(held.shard, held.number)])
    shards.append(write_shard(rest, folder / "held_out-00000.parquet", row_group_tokens=131_072, source=0))
    kept = ("settings", "tokenizer", "tokenizer_name", "sources", "tally", "counts")
    about = {key: sample.manifest[key] for key in kept}
    finish_store(folder, shards, about)
    _copy(sample.folder / "tokenizer", folder / "tokenizer")
    return open_store(folder)


def _names(store: Store, shard: str) -> list[str]:
    return pq.read_schema(store.folder / shard).names


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def seconds_of_generate(work: Path, store: Store, name: str, console: Console) -> float:
    """Wall seconds of one generation from a store, in the Ray that runs."""
    made = recipe(work, name, f"store: {store.folder}")
    start = time.perf_counter()
    generate(made, out=work / name, workers=CORES, console=console)
    return time.perf_counter() - start


def framed_rows(store: Store, folder: Path) -> list[str]:
    """Parquet files of the same passages with special tokens in, as the collator's users have them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(store.folder / "tokenizer")
    part, files = store.train, []
    folder.mkdir()
    for shard in dict.fromkeys(part.shard):
        numbers = [int(n) for s, n in zip(part.shard, part.number) if s == shard]
        tokens = Ragged.from_arrow(store.read(shard, numbers, ("tokens",))["tokens"])
        values = np.insert(tokens.values, tokens.offsets[:-1], tokenizer.cls_token_id)
        ends = tokens.offsets[1:] + np.arange(1, len(tokens) + 1)
        values = np.insert(values, ends, tokenizer.sep_token_id)
        column = Ragged.from_lengths(values.astype(np.int32), tokens.lengths + 2).to_arrow()
        files.append(str(folder / shard))
        pq.write_table(pa.table({"input_ids": column}), files[-1])
    return files


class Masked:
    """The function given to `datasets.map`: the collator, and its padding taken off again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.collate: Any = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.collate is None:
            import torch
            from transformers import AutoTokenizer, DataCollatorForLanguageModeling

            torch.set_num_threads(1)
            tokenizer = AutoTokenizer.from_pretrained(self.folder)
            self.collate = DataCollatorForLanguageModeling(tokenizer, return_tensors="pt")
        made = self.collate([{"input_ids": ids} for ids in batch["input_ids"]])
        lengths = [len(ids) for ids in batch["input_ids"]]
        return {
            name: [row[:n] for row, n in zip(made[name].numpy(), lengths)] for name in ("input_ids", "labels")
        }


def seconds_of_map(work: Path, store: Store) -> float:
    """Wall seconds of `datasets.map` over the same passages."""
    import datasets

    files = framed_rows(store, work / "framed")
    datasets.disable_progress_bars()
    kind = datasets.List(datasets.Value("int32"))
    rows = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(work / "cache"))
    start = time.perf_counter()
    rows.map(
        Masked(store.folder / "tokenizer"),
        batched=True,
        batch_size=64,
        num_proc=CORES,
        features=datasets.Features({"input_ids": kind, "labels": kind}),
    )
    return time.perf_counter() - start


def documents(recipe: Recipe) -> Iterator[Document]:
    """The corpus's documents."""
    from pipelines.sources import list_units, read_unit

    for unit in list_units(recipe.corpus.located(), Path.cwd()):
        yield from (item for item in read_unit(unit) if isinstance(item, Document))


def raw_text(work: Path, sample: Recipe, megabytes: int) -> tuple[Path, list[str]]:
    """The sample's documents as JSONL, over and over, in eight files; and their texts."""
    texts = [document.text for document in documents(sample)]
    folder, chosen, size, files = work / "raw", [], 0, 8
    folder.mkdir()
    while size < megabytes << 20:
        for text in texts:
            chosen.append(text)
            size += len(text.encode())
    for number in range(files):
        with open(folder / f"{number}.jsonl", "w", encoding="utf-8") as file:
            for text in chosen[number::files]:
                file.write(json.dumps({"text": text}) + "\n")
    return folder, chosen


def from_raw_text(work: Path, sample: Recipe, store: Store, megabytes: int, console: Console) -> dict[str, float]:
    """Wall seconds from raw text to a data set, and of tokenisation alone."""
    import datasets
    from transformers import AutoTokenizer

    folder, texts = raw_text(work, sample, megabytes)
    tokenizer = AutoTokenizer.from_pretrained(store.folder / "tokenizer")
    path = f"tokenizer: {{path: {store.folder / 'tokenizer'}}}"
    made = recipe(work, "raw", f'source: "{folder}/*.jsonl", text: text', path)
    os.chdir(work)
    start = time.perf_counter()
    generate(made, out=work / "from-raw", workers=CORES, console=console)
    found = {"raw text to data set": time.perf_counter() - start}
    backend = tokenizer.backend_tokenizer
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    start = time.perf_counter()
    for first in range(0, len(texts), 64):
        backend.encode_batch(texts[first : first + 64], add_special_tokens=False)
    found["encode_batch, 2 threads"] = time.perf_counter() - start
    files = [str(file) for file in sorted(folder.iterdir())]
    bare = dict.fromkeys(("add_special_tokens", "return_attention_mask", "return_token_type_ids", "verbose"), False)
    rows = datasets.load_dataset("json", data_files=files, split="train", cache_dir=str(work / "cache"))
    start = time.perf_counter()
    rows.map(
        lambda batch: {"input_ids": tokenizer(batch["text"], **bare)["input_ids"]},
        batched=True,
        num_proc=CORES,
        remove_columns=["text"],
    )
    found["datasets.map with the tokenizer"] = time.perf_counter() - start
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=400, help="million tokens of the store")
    parser.add_argument("--megabytes", type=int, default=384, help="of raw text")
    given = parser.parse_args()
    console = Console("text")
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        os.chdir(work)
        sample = recipe(work, "sample", f'source: "{SAMPLE}", format: wikipedia', TRAINED)
        with RaySession(cpus=CORES + PLUMBING) as session:
            session.start()
            small = prepare(sample, session=session, workers=CORES, console=console).store
            large = repeated(small, work / "large", given.tokens * 1_000_000)
            tokens = large.train.tokens / 1e6
            seconds_of_generate(work, small, "first", console)
            ours = seconds_of_generate(work, large, "second", console)
            raw = from_raw_text(work, sample, small, given.megabytes, console)
            theirs = seconds_of_map(work, large)
            text = report(tokens, ours, theirs, raw, given.megabytes)
            print(text)
            (Path(__file__).parent / "generate.md").write_text(text, "utf-8")


def report(tokens: float, ours: float, theirs: float, raw: dict[str, float], megabytes: int) -> str:
    """The tables as Markdown."""
    whole = raw["raw text to data set"]
    lines = [
        "# Generation",
        "",
        f"{tokens:.0f} Mtok of the Wikipedia sample, masked, `input_ids` and `labels` written; two cores, wall time.",
        "",
        "| | seconds | Mtok/s | times as fast |",
        "|---|---|---|---|",
        f"| papermoth generate, store to Parquet | {ours:.1f} | {tokens / ours:.1f} | {theirs / ours:.1f} |",
        f"| datasets.map with the collator, Parquet to Arrow | {theirs:.1f} | {tokens / theirs:.2f} | 1 |",
        "",
        f"{megabytes} MB of raw text as JSONL, two cores, wall time.",
        "",
        "| | seconds | papermoth takes |",
        "|---|---|---|",
        *(f"| {name} | {seconds:.1f} | {whole / seconds:.2f} times that |" for name, seconds in raw.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
