"""The collator: the stage's bytes as padded tensors, in any worker, under the epoch that was set."""

from __future__ import annotations

import copy
import pickle
import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

from corruption import Chain, InputError, Mask
from corruption.door import Door
from corruption.registry import parse_step
from corruption.schema import IGNORE
from tests.corruption.block import block, cases
from tests.corruption.doors import LAYOUTS
from tests.corruption.rows import CLS, MASK, PAD, RICH, SEP, VOCABULARY, lists
from tests.pipelines.trained import trained
from trainers.collator import Collator
from trainers.epoch_callback import EpochCallback

MASKING = Chain((Mask(rate=0.4),))
SWAPPING = Chain((parse_step({"kind": "sentence_pair", "task": "sop"}),))
LENGTHS = [3, 9, 1, 12, 5, 7, 2, 8, 12, 4, 6, 10, 11]


class Rows(Dataset):
    """Rows of `LENGTHS` as a tokenizer makes them, with a key each."""

    def __init__(self, count: int = len(LENGTHS)) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> dict[str, object]:
        if i >= self.count:
            raise IndexError(i)
        length = LENGTHS[i % len(LENGTHS)]
        return {"input_ids": [CLS, *range(5 + i, 5 + i + length), SEP], "key": i}


def wanted(rows, epoch=0, chain=MASKING, vocabulary=VOCABULARY, **fields):
    """{column: lists} of the examples, as the core gives them."""
    door = Door.of(chain, vocabulary, **fields)
    return {name: lists(column) for name, column in door.examples(list(rows), epoch).framed.items()}


def unpadded(batches):
    """{column: lists} of padded batches, by their attention masks."""
    found: dict[str, list] = {"input_ids": [], "labels": []}
    for batch in batches:
        for name, rows in found.items():
            for values, mask in zip(batch[name], batch["attention_mask"]):
                rows.append(values[: int(mask.sum())].tolist())
    return found


# The same bytes.


@pytest.mark.parametrize("size", [1, 7, 64])
def test_batches_of_any_size_hold_the_bytes_of_the_stage(size):
    loader = DataLoader(Rows(), batch_size=size, collate_fn=Collator(MASKING, VOCABULARY, seed=2, epoch=1))
    assert unpadded(loader) == wanted(Rows(), 1, seed=2)


@pytest.mark.parametrize(
    ("context", "persistent"),
    [("fork", False), ("fork", True), ("spawn", True), pytest.param("forkserver", True, marks=pytest.mark.soak)],
)
def test_workers_see_the_epoch_however_they_are_started(context, persistent):
    collator = Collator(MASKING, VOCABULARY)
    loader = DataLoader(
        Rows(40),
        batch_size=4,
        collate_fn=collator,
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=persistent,
    )
    for epoch in (0, 3, 1):
        collator.set_epoch(epoch)
        assert collator.epoch == epoch
        assert unpadded(loader) == wanted(Rows(40), epoch)


def test_copies_and_pickles_have_an_epoch_of_their_own():
    collator = Collator(MASKING, VOCABULARY, seed=5, epoch=4)
    for other in (copy.deepcopy(collator), pickle.loads(pickle.dumps(collator))):
        assert other.epoch == 4
        other.set_epoch(7)
        assert collator.epoch == 4
        assert unpadded([other(list(Rows()))]) == wanted(Rows(), 7, seed=5)
        assert other._epoch.is_shared() and other._dropped.is_shared()


@pytest.mark.parametrize("name", cases())
def test_every_kind_is_padded_as_the_column_table_says(name):
    chain = Chain((cases()[name],))
    passages = block(chain)
    rows = {column: lists(values) for column, values in passages.columns.items()} | {"key": passages.keys.tolist()}
    examples = [{column: values[i] for column, values in rows.items()} for i in range(40)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = Collator(chain, RICH, seed=3)(examples)
    for column, values in wanted(examples, chain=chain, vocabulary=RICH, seed=3).items():
        assert batch[column].dtype == torch.int64
        if batch[column].ndim == 1:
            assert batch[column].tolist() == [value for (value,) in values]
            continue
        assert batch[column].shape == (len(values), max(map(len, values)))
        for padded, row in zip(batch[column].tolist(), values):
            assert padded[: len(row)] == row and len(set(padded[len(row) :])) <= 1


@given(
    rows=st.lists(st.lists(st.integers(5, 59), max_size=9), min_size=1, max_size=6),
    multiple=st.sampled_from([1, 4, 8]),
)
def test_padding_is_right_of_the_rows_and_carries_nothing(rows, multiple):
    batch = Collator(MASKING, VOCABULARY, pad_to_multiple_of=multiple, return_tensors="np")(rows)
    width = -(-(max(map(len, rows)) + 2) // multiple) * multiple
    for name in ("input_ids", "labels", "attention_mask"):
        assert batch[name].shape == (len(rows), width) and batch[name].dtype == np.int64
    for i, row in enumerate(rows):
        n = len(row) + 2
        assert batch["attention_mask"][i].tolist() == [1] * n + [0] * (width - n)
        assert set(batch["input_ids"][i][n:]) <= {PAD} and set(batch["labels"][i][n:]) <= {IGNORE}
        assert batch["input_ids"][i][0] == CLS and batch["input_ids"][i][n - 1] == SEP
        whole = np.where(batch["labels"][i] == IGNORE, batch["input_ids"][i], batch["labels"][i])
        assert whole[1 : n - 1].tolist() == row


def test_rows_of_every_shape():
    rows = [[CLS, 9, 10, SEP], [CLS, 11, SEP]]
    collator = Collator(MASKING, VOCABULARY)
    first = collator(rows)
    for shape in (
        [{"input_ids": row} for row in rows],
        [{"input_ids": torch.tensor(row)} for row in rows],
        [torch.tensor(row) for row in rows],
        {"input_ids": rows},
        [{"input_ids": [*row, PAD], "attention_mask": [1] * len(row) + [0]} for row in rows],
    ):
        found = collator(shape)
        assert found.keys() == first.keys()
        assert all(torch.equal(found[name], first[name]) for name in first)
    arrays = collator(rows, return_tensors="np")
    assert all(np.array_equal(arrays[name], first[name].numpy()) for name in first)
    tokenizer = trained("wordpiece")
    texts = [tokenizer(text) for text in ("the first text", "another one")]
    found = Collator(Chain((Mask(rate=0.0),)), tokenizer)(texts)
    assert torch.equal(found["input_ids"], tokenizer.pad(texts, return_tensors="pt")["input_ids"])
    assert found.keys() == {"input_ids", "token_type_ids", "attention_mask", "labels"}


# Fixed shapes.


def test_fixed_widths():
    rows = list(Rows(4))
    for width in (14, 32):
        batch = Collator(MASKING, VOCABULARY, pad_to=width)(rows)
        assert {tuple(batch[name].shape) for name in batch} == {(4, width)}
    bart = LAYOUTS["bart"].vocabulary
    rows = [{"tokens": [9, 10, 11]}] * 2
    batch = Collator(MASKING, bart, frame="encoder_decoder", pad_to={"input_ids": 8, "labels": 16})(rows)
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 8)
    assert batch["labels"].shape == (2, 16)
    batch = Collator(MASKING, bart, frame="encoder_decoder", pad_to={"labels": 6}, pad_to_multiple_of=3)(rows)
    assert batch["input_ids"].shape == (2, 6) and batch["labels"].shape == (2, 6)
    batch = Collator(MASKING, VOCABULARY, pad_to={"input_ids": 8})(
        [{"input_ids": [CLS, 9, SEP], "token_type_ids": [0, 0, 0]}]
    )
    assert {tuple(batch[name].shape) for name in batch} == {(1, 8)}


def test_a_row_beyond_the_width_is_refused_by_its_place():
    collator = Collator(MASKING, VOCABULARY, pad_to=8)
    with pytest.raises(InputError) as caught:
        collator([[9], [10] * 7, [11]])
    assert str(caught.value) == (
        "row 1 of the batch: its input_ids are 9 with special tokens, and pad_to is 8; "
        "cut passages beforehand, or raise pad_to"
    )
    collator = Collator(MASKING, LAYOUTS["bart"].vocabulary, frame="encoder_decoder", pad_to={"labels": 4})
    with pytest.raises(InputError, match=r"^row 0 of the batch: its labels are 5 with special tokens, and pad_to is 4"):
        collator([[9, 10, 11]])


# What else rows bring.


def test_columns_of_one_number_a_row_go_along():
    rows = [
        {"tokens": [9, 10], "key": "a", "copy": 1, "label": 3, "score": 0.5, "flag": True, "next": torch.tensor(4)},
        {"tokens": [11], "key": "b", "copy": 0, "label": -1, "score": 2, "flag": False, "next": torch.tensor(5)},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = Collator(MASKING, VOCABULARY)(rows)
    assert batch.keys() == {"input_ids", "labels", "attention_mask", "label", "score", "flag", "next"}
    assert batch["label"].dtype == batch["next"].dtype == torch.int64 and batch["label"].tolist() == [3, -1]
    assert batch["score"].dtype == torch.float32 and batch["score"].tolist() == [0.5, 2.0]
    assert batch["flag"].dtype == torch.bool and batch["flag"].tolist() == [True, False]


def test_columns_of_anything_else_are_left_out_and_told():
    rows = [{"tokens": [9], "text": "a", "doc": 2**64 - 1, "vector": [0.5], "label": None, "flag": True}] * 2
    rows[1] = {**rows[1], "flag": 3}
    with pytest.warns(UserWarning) as caught:
        batch = Collator(MASKING, VOCABULARY)(rows)
    assert [str(warning.message) for warning in caught] == [
        "columns that do not hold one number a row are left out: text, doc, vector, label, flag"
    ]
    assert batch.keys() == {"input_ids", "labels", "attention_mask"}


def test_A_03_own_labels_go_along_where_none_are_made_and_are_never_overwritten():
    views = Chain((parse_step({"kind": "views"}),))
    batch = Collator(views, VOCABULARY)([{"tokens": [9], "labels": 3}, {"tokens": [10], "labels": 4}])
    assert batch["labels"].tolist() == [3, 4] and "positive_attention_mask" in batch
    with pytest.raises(InputError) as caught:
        Collator(views, VOCABULARY)([{"tokens": [9], "labels": [3]}])
    assert str(caught.value) == "column labels: it is not one number a row, and no frame pads it; leave it out"
    for own in (3, [3]):
        with pytest.raises(InputError, match=r"^column labels: the rows bring one, and the examples made of them"):
            Collator(MASKING, VOCABULARY)([{"tokens": [9], "labels": own}])
    with pytest.raises(InputError, match=r"^column attention_mask: it stands beside tokens"):
        Collator(MASKING, VOCABULARY)([{"tokens": [9], "attention_mask": [1]}])


# Rows that fall out.


class Sentences(Dataset):
    """Every other row is one sentence."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> dict[str, object]:
        n = 1 + i % 2
        return {"tokens": [9 + i, 10 + i][:n], "sentence_start": [1] * n, "label": i}


def test_unusable_rows_are_left_out_told_and_counted():
    collator = Collator(SWAPPING, VOCABULARY)
    assert collator.dropped == {}
    rows = [*(Sentences()[i] for i in range(4)), {"tokens": [], "sentence_start": [], "label": 9}]
    with pytest.warns(UserWarning) as caught:
        batch = collator(rows)
    assert [str(warning.message) for warning in caught] == [
        "rows that the chain cannot use are dropped: too short",
        "rows that the chain cannot use are dropped: one sentence",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    assert batch["label"].tolist() == [1, 3] and batch["input_ids"].shape == (2, 5)
    assert collator.dropped == {"too_short": 1, "one_sentence": 2}
    with pytest.raises(InputError) as caught:
        collator([Sentences()[0], Sentences()[2]])
    assert str(caught.value) == (
        "batch: none of its 2 rows can be used: one sentence; "
        "leave such rows out of the data set, or make batches larger"
    )


@pytest.mark.filterwarnings("ignore")
def test_workers_count_what_they_leave_out():
    collator = Collator(SWAPPING, VOCABULARY)
    loader = DataLoader(Sentences(), batch_size=4, collate_fn=collator, num_workers=3, persistent_workers=True)
    for epoch in range(2):
        assert sum(len(batch["label"]) for batch in loader) == 20
        assert collator.dropped == {"one_sentence": 20 * (epoch + 1)}


# Randomness.


def test_A_16_global_generators_are_neither_read_nor_altered():
    collator = Collator(MASKING, VOCABULARY)
    first = unpadded([collator(list(Rows()))])
    random.seed(9), np.random.seed(9), torch.manual_seed(9)
    for _ in range(1000):
        random.random(), np.random.random(), torch.rand(1)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    assert unpadded([collator(list(Rows()))]) == first
    assert random.getstate() == states[0]
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), states[1]))
    assert torch.equal(torch.get_rng_state(), states[2])


def test_rows_are_not_altered():
    rows = [{"input_ids": torch.tensor([CLS, *range(9, 30), SEP])}, {"input_ids": torch.tensor([CLS, SEP])}]
    before = copy.deepcopy(rows)
    Collator(MASKING, VOCABULARY)(rows)
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(rows, before))


# What is refused.


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"return_tensors": "tf"}, "return_tensors: unknown value 'tf'; choose one of pt, np"),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of: 0 is below 1; give a whole number from 1 on"),
        ({"pad_to": 0}, "pad_to: 0 is no width for input_ids; give a width from 1 on"),
        (
            {"pad_to": 12, "pad_to_multiple_of": 8},
            "pad_to: 12 is no width for input_ids; give a multiple of pad_to_multiple_of, 8",
        ),
        ({"pad_to": {"input_id": 8}}, "pad_to: no column 'input_id' is padded; did you mean 'input_ids'?"),
        (
            {"pad_to": {"input_ids": 8, "labels": 16}},
            "pad_to: labels is to be 16 wide, and lies over another width; give one width",
        ),
        ({"frame": "singel"}, "frame: unknown frame 'singel'; did you mean 'single'?"),
    ],
)
def test_arguments_are_refused_in_one_line(fields, text):
    with pytest.raises(InputError) as caught:
        Collator(MASKING, VOCABULARY, **fields)
    assert str(caught.value) == text


def test_a_missing_column_says_that_a_trainer_may_have_removed_it():
    with pytest.raises(InputError) as caught:
        Collator(Chain((Mask(unit="word"),)), VOCABULARY)([[CLS, 9, SEP]])
    assert str(caught.value) == (
        "column word_start: the rows have none, and the step 'mask' needs it; "
        "give it (1 where a word starts), or word_ids as a fast tokenizer's encoding has them; "
        "a Trainer hands it on with remove_unused_columns=False"
    )
    with pytest.raises(ValueError, match="unknown value 'tf'"):
        Collator(MASKING, VOCABULARY)([[9]], return_tensors="tf")


# A Trainer.


class Remembering(BertForMaskedLM):
    """Keeps the batches it is given."""

    seen: list

    def forward(self, input_ids=None, attention_mask=None, labels=None, **more):
        part = {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}
        self.seen.append({name: tensor.clone() for name, tensor in part.items()} | {"training": self.training})
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels, **more)


class FixedEvaluation(Trainer):
    """As the page has it: evaluation by a collator of its own."""

    evaluation: Collator

    def get_eval_dataloader(self, eval_dataset=None):
        training, self.data_collator = self.data_collator, self.evaluation
        try:
            return super().get_eval_dataloader(eval_dataset)
        finally:
            self.data_collator = training


def trainer(folder, **fields):
    model = Remembering(
        BertConfig(
            vocab_size=VOCABULARY.size,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            pad_token_id=PAD,
        )
    )
    model.seen = []
    collator = Collator(MASKING, VOCABULARY)
    arguments = TrainingArguments(
        output_dir=str(folder),
        **{
            "num_train_epochs": 3,
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 8,
            "learning_rate": 1e-2,
            "eval_strategy": "epoch",
            "save_strategy": "steps",
            "save_steps": 0.5,
            "remove_unused_columns": False,
            "report_to": [],
            "disable_tqdm": True,
            "logging_strategy": "no",
            "use_cpu": True,
            "seed": 1,
        }
        | fields,
    )
    made = FixedEvaluation(
        model=model,
        args=arguments,
        train_dataset=Rows(),
        eval_dataset=Rows(8),
        data_collator=collator,
        callbacks=[EpochCallback(collator)],
    )
    made.evaluation = Collator(MASKING, VOCABULARY, seed=100)
    return made


def seen(model, training):
    found = unpadded([batch for batch in model.seen if batch["training"] == training])
    return list(zip(found["input_ids"], found["labels"]))


def examples_of(epoch, seed=0, rows=None):
    found = wanted(rows or Rows(), epoch, seed=seed)
    return list(zip(found["input_ids"], found["labels"]))


@pytest.mark.parametrize("workers", [{}, {"dataloader_num_workers": 2, "dataloader_persistent_workers": True}])
def test_a_trainer_sees_each_epochs_own_noise_and_evaluates_under_one(tmp_path, workers):
    made = trainer(tmp_path, **workers)
    made.train()
    rows = seen(made.model, True)
    assert len(rows) == 3 * len(LENGTHS)
    for epoch in range(3):
        part = rows[epoch * len(LENGTHS) : (epoch + 1) * len(LENGTHS)]
        assert sorted(part) == sorted(examples_of(epoch))
    evaluated = seen(made.model, False)
    assert evaluated == examples_of(0, seed=100, rows=Rows(8)) * 3


def test_a_resumed_trainer_goes_on_under_the_same_noise(tmp_path):
    whole = trainer(tmp_path / "whole")
    whole.train()
    checkpoint = next(iter(sorted((tmp_path / "whole").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))))
    steps = int(checkpoint.name[11:])
    assert 4 < steps < 8  # in the middle of the second of three epochs of four steps
    resumed = trainer(tmp_path / "resumed")
    resumed.train(resume_from_checkpoint=str(checkpoint))
    rows = seen(whole.model, True)
    assert seen(resumed.model, True) == rows[len(LENGTHS) + 4 * (steps - 4) :]


def test_a_trainer_removes_columns_and_tokenised_rows_still_do(tmp_path):
    import datasets

    tokenizer = trained("wordpiece")
    texts = datasets.Dataset.from_dict({"text": [f"the text of number {i} and more" for i in range(16)]})
    rows = texts.map(lambda batch: tokenizer(batch["text"]), batched=True)
    collator = Collator(Chain((Mask(),)), tokenizer, pad_to_multiple_of=8)
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
    )
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=3, report_to=[], disable_tqdm=True, use_cpu=True, learning_rate=1e-2
    )
    made = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    assert np.isfinite(made.train().training_loss)
    made.save_model(tmp_path / "saved")
    assert (tmp_path / "saved" / "tokenizer.json").exists()


def test_an_epoch_left_early_is_followed_by_the_next():
    class State:
        epoch = 0

    collator = Collator(MASKING, VOCABULARY)
    callback = EpochCallback(collator)
    callback.on_train_begin(None, State, None)
    found = []
    for at in (0, 0.5, 1.5):
        State.epoch = at
        callback.on_epoch_begin(None, State, None)
        found.append(collator.epoch)
    assert found == [0, 1, 2]
    State.epoch = 1.25
    callback.on_train_begin(None, State, None)
    callback.on_epoch_begin(None, State, None)
    assert collator.epoch == 1


def test_masks_are_in_the_input():
    batch = Collator(Chain((Mask(rate=1.0, mask_share=1.0, random_share=0.0),)), VOCABULARY)([[9, 10]])
    assert batch["input_ids"].tolist() == [[CLS, MASK, MASK, SEP]]
