"""`Chain.batched` under `datasets`: the same bytes in any batch and process, one cache for each, rows that fall out."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pytest
from datasets.fingerprint import Hasher

from corruption import Chain, Corruptor, InputError, Mask
from corruption.registry import parse_step
from tests.corruption.block import cases
from tests.corruption.doors import LAYOUTS
from tests.corruption.rows import IDS, RICH, SIZE, SPECIAL, VOCABULARY, random_rows
from tests.pipelines.trained import trained

ROOT = Path(__file__).parents[2]
MASKING = Chain((Mask(rate=0.4, unit="word"),))
SWAPPING = Chain((parse_step({"kind": "sentence_pair", "task": "sop"}),))


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()


@pytest.fixture(scope="module")
def passages():
    rows, starts = random_rows(150, 20, seed=5)
    table = pa.table(
        {
            "key": pa.array([i * 0x9E3779B97F4A7C15 % 2**64 for i in range(150)], pa.uint64()),
            "text": [f"text {i}" for i in range(150)],
            "tokens": rows,
            "word_start": starts,
            "label": list(range(150)),
        }
    )
    return datasets.Dataset(table)


def arrow(dataset):
    return dataset.with_format("arrow")[:]


@pytest.mark.parametrize("processes", [None, 2])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_any_batch_size_and_number_of_processes_gives_the_bytes_of_the_stage(passages, size, processes):
    wanted = Corruptor(MASKING, VOCABULARY, seed=3, epoch=2)(arrow(passages))
    chain = MASKING.batched(VOCABULARY, seed=3, epoch=2)
    found = passages.map(chain, batched=True, batch_size=size, num_proc=processes)
    assert set(found.column_names) == {"key", "text", "label", "input_ids", "labels"}
    assert found.features["input_ids"] == found.features["labels"] == datasets.List(datasets.Value("int32"))
    assert {name: arrow(found)[name].to_pylist() for name in wanted.column_names} == {
        name: wanted[name].to_pylist() for name in wanted.column_names
    }
    bare = passages.map(chain, batched=True, batch_size=size, num_proc=processes, remove_columns=passages.column_names)
    assert set(bare.column_names) == {"input_ids", "labels"}
    assert arrow(bare)["labels"].to_pylist() == wanted["labels"].to_pylist()


@pytest.mark.parametrize("format", ["numpy", "torch", "arrow"])
def test_formatted_data_sets_give_the_same(passages, format):
    formatted = passages.remove_columns("key").with_format(format)
    if format == "arrow":
        stage = Corruptor(MASKING, VOCABULARY)
        found = formatted.map(stage, batched=True, batch_size=7)
    else:
        chain = MASKING.batched(VOCABULARY)
        found = formatted.map(chain, batched=True, batch_size=7, remove_columns=formatted.column_names)
    wanted = Corruptor(MASKING, VOCABULARY)(arrow(passages.remove_columns("key")))
    for name in ("input_ids", "labels"):
        assert arrow(found)[name].to_pylist() == wanted[name].to_pylist()


def test_streams_give_the_same(passages):
    wanted = Corruptor(MASKING, VOCABULARY)(arrow(passages))
    stream = passages.to_iterable_dataset(num_shards=3)
    found = stream.map(MASKING.batched(VOCABULARY), batched=True, batch_size=7, remove_columns=["tokens", "word_start"])
    rows = list(found)
    assert [row["input_ids"].tolist() for row in rows] == wanted["input_ids"].to_pylist()
    assert [row["text"] for row in rows] == passages["text"][:]


def test_tokenised_texts_with_their_masks_come_out_whole():
    tokenizer = trained("wordpiece")
    texts = datasets.Dataset.from_dict({"text": ["the first text", "another", "and a third one of more words"]})
    tokenised = texts.map(lambda rows: tokenizer(rows["text"], padding=True), batched=True)
    found = tokenised.map(Chain((Mask(rate=0.0),)).batched(tokenizer), batched=True, batch_size=2)
    for name, values in tokenizer(texts["text"][:]).items():
        assert found[name][:] == values
    assert {value for row in found["labels"] for value in row} == {-100}


def test_one_number_an_example_is_a_column_of_numbers():
    rows = {"tokens": [[9, 10, 11], [12, 13]], "sentence_start": [[1, 0, 1], [1, 1]]}
    found = SWAPPING.batched(VOCABULARY)(rows)
    assert found["next_sentence_label"].dtype == np.int32 and found["next_sentence_label"].shape == (2,)
    mapped = datasets.Dataset.from_dict(rows).map(SWAPPING.batched(VOCABULARY), batched=True)
    assert mapped.features["next_sentence_label"] == datasets.Value("int32")


def test_a_function_around_it_may_change_the_batch_first(passages):
    chain = MASKING.batched(VOCABULARY)

    def renamed(batch):
        batch["key"] = [f"key {label}" for label in batch["label"]]
        batch["tokens"] = [row[:5] for row in batch["tokens"]]
        batch["word_start"] = [row[:5] for row in batch["word_start"]]
        return chain(batch)

    found = passages.map(renamed, batched=True, batch_size=7)
    rows = passages[:]
    cut = {name: [row[:5] for row in rows[name]] for name in ("tokens", "word_start")}
    wanted = chain({**cut, "key": [f"key {label}" for label in rows["label"]]})
    assert found["labels"][:] == [row.tolist() for row in wanted["labels"]]
    assert found["key"][:2] == ["key 0", "key 1"]


# Rows that fall out.


def sentences(n=40):
    """Every third passage is one sentence, the first ten among them."""
    long = [i >= 10 and i % 3 > 0 for i in range(n)]
    return datasets.Dataset.from_dict(
        {
            "tokens": [[9 + i % 40, 10, 11] if good else [9 + i % 40] for i, good in enumerate(long)],
            "sentence_start": [[1, 0, 1] if good else [1] for good in long],
            "text": [f"text {i}" for i in range(n)],
        }
    ), [f"text {i}" for i, good in enumerate(long) if good]


@pytest.mark.parametrize("processes", [None, 2])
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.filterwarnings("ignore:rows that the chain cannot use")
def test_unusable_rows_fall_out_of_every_column(size, processes):
    dataset, kept = sentences()
    chain = SWAPPING.batched(VOCABULARY)
    found = dataset.map(chain, batched=True, batch_size=size, num_proc=processes)
    assert found["text"][:] == kept and len(found) == len(kept)
    assert found.features["input_ids"] == datasets.List(datasets.Value("int32"))
    wanted = Corruptor(SWAPPING, VOCABULARY)(arrow(dataset))
    assert found["input_ids"][:] == wanted["input_ids"].to_pylist()
    bare = dataset.map(chain, batched=True, batch_size=size, num_proc=processes, remove_columns=dataset.column_names)
    assert bare["input_ids"][:] == wanted["input_ids"].to_pylist()


def test_unusable_rows_are_told():
    dataset, _ = sentences()
    with pytest.warns(UserWarning, match=r"^rows that the chain cannot use are dropped: one sentence$"):
        dataset.map(SWAPPING.batched(VOCABULARY), batched=True, load_from_cache_file=False)


def test_a_mapping_of_the_callers_own_is_not_altered():
    rows = {"tokens": [[9, 10, 11], [12]], "sentence_start": [[1, 0, 1], [1]], "text": ["a", "b"]}
    copy = {name: list(values) for name, values in rows.items()}
    with pytest.warns(UserWarning):
        found = SWAPPING.batched(VOCABULARY)(rows)
    assert rows == copy and len(found["input_ids"]) == 1 and "text" not in found
    encoded = trained("wordpiece")(["some text", "more"])
    before = {name: [list(row) for row in values] for name, values in encoded.items()}
    Chain((Mask(),)).batched(trained("wordpiece"))(encoded)
    assert dict(encoded) == before


# The cache.

ANOTHER = """
from datasets.fingerprint import Hasher
from tests.corruption.test_batched import prints
print(*prints())
"""


def prints():
    """Fingerprints of every kind's function."""
    return [Hasher.hash(Chain((step,)).batched(RICH)) for step in cases().values()]


def test_fingerprints_are_the_same_in_another_process_and_tell_chains_apart():
    mine = prints()
    assert len(set(mine)) == len(mine)
    done = subprocess.run([sys.executable, "-c", ANOTHER], capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.stdout.split() == mine, done.stderr


def test_fingerprints_follow_what_decides_the_bytes_and_nothing_else():
    tokenizer = trained("wordpiece")
    chain = Chain((Mask(),))
    first = Hasher.hash(chain.batched(tokenizer))
    function = Chain((Mask(),)).batched(tokenizer)
    assert Hasher.hash(function) == first == Hasher.hash(pickle.loads(pickle.dumps(function)))
    function({"tokens": [[900, 901, 902]]})  # compiles, and changes nothing
    assert Hasher.hash(function) == first
    others = [
        chain.batched(tokenizer, epoch=1),
        chain.batched(tokenizer, seed=1),
        chain.batched(tokenizer, frame="encoder_decoder"),
        chain.batched(trained("bpe")),
        Chain((Mask(rate=0.2),)).batched(tokenizer),
        Chain((Mask(),), ("hide",)).batched(tokenizer),
    ]
    assert len({first, *map(Hasher.hash, others)}) == 1 + len(others)


def test_a_cache_is_found_again_for_the_same_epoch_only(tmp_path, passages):
    passages.save_to_disk(tmp_path / "passages")
    stored = datasets.load_from_disk(tmp_path / "passages")

    def made(epoch):
        found = stored.map(MASKING.batched(VOCABULARY, epoch=epoch), batched=True)
        return [Path(file["filename"]) for file in found.cache_files], found["labels"][:]

    (zero,), labels = made(0)
    changed = zero.stat().st_mtime_ns
    assert made(0) == ([zero], labels) and zero.stat().st_mtime_ns == changed
    (one,), others = made(1)
    assert one != zero and others != labels


# What is refused.


def test_refusals_reach_the_caller_of_map():
    rows = datasets.Dataset.from_dict({"tokens": [[9, 10]]})
    with pytest.raises(InputError, match=r"^column word_start: the rows have none, and the step 'mask' needs it"):
        rows.map(MASKING.batched(VOCABULARY), batched=True)
    with pytest.raises(InputError, match="it has no mask_token, which the corruption 'mask' needs"):
        MASKING.batched(LAYOUTS["t5"].vocabulary)
    with pytest.raises(InputError, match=r"^frame: unknown frame 'singel'; did you mean 'single'"):
        MASKING.batched(VOCABULARY, frame="singel")
    labelled = datasets.Dataset.from_dict({"tokens": [[9]], "word_start": [[1]], "labels": [[9]]})
    with pytest.raises(InputError, match=r"^column labels: the rows bring one"):
        labelled.map(MASKING.batched(VOCABULARY), batched=True)


def test_the_names_of_a_vocabulary_are_those_of_its_tokenizer():
    """Equal ids under another name give another cache, never other bytes."""
    from corruption import Vocabulary

    other = Vocabulary.from_ids(SIZE, ids=IDS, special=SPECIAL, name="other")
    rows = {"tokens": [[9, 10, 11, 12]], "word_start": [[1, 1, 1, 1]]}
    one, two = MASKING.batched(VOCABULARY), MASKING.batched(other)
    assert [row.tolist() for row in one(rows)["labels"]] == [row.tolist() for row in two(rows)["labels"]]
