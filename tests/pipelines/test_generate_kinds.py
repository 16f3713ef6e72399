"""Data sets of every objective's columns: schema, counts, texts, and that others load them and learn from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from corruption.schema import COLUMNS
from pipelines.data_set import DataSet
from pipelines.recipe import load_recipe
from pipelines.store import open_store
from tests.pipelines.generated import generate_here
from tests.pipelines.small_run import write_corpus
from tests.pipelines.trained import news

RECIPE = """
seed: 3
corpus:     {{source: "{source}", max_tokens: 64, held_out: 0.2, row_group_tokens: 4096, documents: line}}
tokenizer:  {{train: {{kind: wordpiece, vocab_size: 1000, lowercase: true, sentinels: 60, modes: ["[R]", "[S]"]}}}}
corruption: {corruption}
objective:  {{kind: {objective}}}
"""

KINDS = {
    "mlm": ("mlm", "[{kind: mask, unit: word}]"),
    "bert": ("bert", "[{kind: sentence_pair}, {kind: mask}]"),
    "unilm": ("unilm", "[{kind: attention_pattern}, {kind: mask}]"),
    "infill": ("seq2seq", "[{kind: infill, rate: 0.3}]"),
    "bart": ("seq2seq", "[{kind: shuffle_sentences}, {kind: infill}]"),
    "delete": ("seq2seq", "[{kind: delete, rate: 0.2}]"),
    "span": ("seq2seq", "[{kind: span_sentinel}]"),
    "mixture": (
        "seq2seq",
        "[{kind: mixture, chains: [[{kind: span_sentinel}], [{kind: prefix_split}]]}]",
    ),
    "plm": ("plm", "[{kind: permutation_order}]"),
    "views": ("infonce", "[{kind: views, first: [{kind: crop}], second: [{kind: delete}]}]"),
}

CHOOSY = {"bert", "unilm", "span", "mixture"}
"""Those that cannot use the passage of one token."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    write_corpus(folder / "corpus.txt", [*news()[:120], "short"])
    return folder


def make(folder: Path, name: str, files: str) -> DataSet:
    """The kind's data set, two copies and epochs; found again where it was made before."""
    objective, corruption = KINDS[name]
    path = folder / f"{name}.yaml"
    path.write_text(RECIPE.format(source=folder / "corpus.txt", corruption=corruption, objective=objective))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = {"copies": 2, "epochs": 2, "files": files, "tokens": 20_000}
        return generate_here(load_recipe(path), folder / f"{name}-{files}", **options)


def rows_of(data: DataSet, split: str = "train") -> list[dict]:
    return [row for shard in data.shards(split) for row in data.read(shard).to_pylist()]


@pytest.mark.parametrize("name", KINDS)
def test_columns_and_counts(folder: Path, name: str, tmp_path: Path) -> None:
    from datasets import load_dataset

    data = make(folder, name, "parquet")
    assert data.columns == data.frame().columns == data.recipe().frame().columns
    stores = [open_store(path.parent) for path in (folder / "stores").glob("*/manifest.json")]
    (store,) = [store for store in stores if store.identity == data.manifest["store"]]
    rows = rows_of(data)
    dropped = sum(data.manifest["dropped"]["train"].values())
    assert len(rows) + dropped == 4 * store.train.rows
    assert rows and (dropped > 0) == (name in CHOOSY), data.manifest["dropped"]
    assert len({(row["key"], row["epoch"], row["copy"]) for row in rows}) == len(rows)
    for row in rows:
        assert len(row["input_ids"]) <= 64
        for column in data.columns:
            assert isinstance(row[column], int if COLUMNS[column].per == "row" else list)
    realised = data.manifest["realised"]["train"]
    assert realised["rows"] == len(rows) and 0 < realised["tokens"] <= 4 * store.train.tokens
    for column, count in (("labels", "labelled"), ("next_sentence_label", "not_next")):
        if column in data.columns and count in realised:
            values = [row[column] for row in rows]
            flat = values if COLUMNS[column].per == "row" else [n for value in values for n in value]
            found = sum(flat) if COLUMNS[column].per == "row" else sum(n != -100 for n in flat)
            assert realised[count] == found > 0
    loaded = load_dataset(str(data.folder), cache_dir=str(tmp_path))
    assert loaded["train"].column_names == data.schema.names
    assert loaded["train"][5] == rows[5] and len(loaded["validation"]) == data.manifest["rows"]["validation"]


@pytest.mark.parametrize("name", KINDS)
def test_texts(folder: Path, name: str, tmp_path: Path) -> None:
    from datasets import load_dataset
    from tokenizers import Tokenizer

    texts, ids = make(folder, name, "jsonl"), make(folder, name, "parquet")
    more = {
        "bert": ("next_sentence_label",),
        "unilm": ("attention_pattern",),
        "span": ("target",),
        "mixture": ("target",),
        "views": ("positive",),
    }
    assert texts.columns == ("corrupted", "original", *more.get(name, ()))
    tokenizer = Tokenizer.from_file(str(texts.tokenizer / "tokenizer.json"))

    def decoded(row: dict, column: str) -> str:
        content = row[column][:-2] if name == "plm" else row[column][1:-1]
        return str(tokenizer.decode(content, skip_special_tokens=False))

    pairs = list(zip(rows_of(texts), rows_of(ids), strict=True))
    for text, row in pairs:
        assert [text[part] for part in ("key", "epoch", "copy")] == [row[part] for part in ("key", "epoch", "copy")]
        assert text["corrupted"] == decoded(row, "input_ids")
        for column in ("next_sentence_label", "attention_pattern"):
            assert text.get(column) == row.get(column)
        if "target" in text:
            assert text["target"] == decoded(row, "labels")
        elif KINDS[name][0] == "seq2seq":
            assert text["original"] == decoded(row, "labels")
        if "positive" in text:
            assert text["positive"] == decoded(row, "positive_input_ids")
    if name == "bert":
        assert all(" [SEP]" in text["corrupted"] for text, _ in pairs)
    loaded = load_dataset(str(texts.folder), cache_dir=str(tmp_path))
    assert loaded["train"].column_names == texts.schema.names and len(loaded["train"]) == len(pairs)


@pytest.mark.parametrize("name", ["infill", "span"])
def test_a_trainer_of_transformers_learns_to_mend_it(folder: Path, name: str, tmp_path: Path) -> None:
    import torch
    from datasets import load_dataset
    from transformers import (
        AutoTokenizer,
        BartConfig,
        BartForConditionalGeneration,
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        set_seed,
    )

    set_seed(0)
    torch.set_num_threads(1)  # several only wait for each other in a model this small
    data = make(folder, name, "parquet")
    tokenizer = AutoTokenizer.from_pretrained(data.tokenizer)
    config = BartConfig(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        decoder_start_token_id=tokenizer.sep_token_id,
        forced_eos_token_id=None,
    )
    model = BartForConditionalGeneration(config)
    rows = load_dataset(str(data.folder), split="train", cache_dir=str(tmp_path / "cache"))
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=30,
        per_device_train_batch_size=16,
        learning_rate=5e-3,
        logging_steps=10,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
        seed=0,
    )
    collator = DataCollatorForSeq2Seq(tokenizer, model=model)
    trainer = Seq2SeqTrainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3, losses
