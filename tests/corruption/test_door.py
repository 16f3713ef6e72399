"""The core of the doors and `Corruptor`: any shape of rows, content found in framed rows, nothing taken silently."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corruption import Chain, Corruptor, InputError, Mask
from corruption.door import Door
from corruption.frames import suited
from corruption.noise import hash64
from corruption.ragged import Batch
from corruption.registry import parse_step
from corruption.schema import IGNORE
from tests.corruption.block import block, cases
from tests.corruption.doors import FIRST, LAYOUTS, SIZE, contents, starts
from tests.corruption.rows import CLS, MASK, PAD, RICH, SEP, UNK, VOCABULARY, lists
from tests.pipelines.trained import KINDS, trained

MASKING = Chain((Mask(rate=0.4),))
WORDS = Chain((Mask(rate=0.4, unit="word"),))
KEPT = Chain((Mask(rate=0.0),))


def door(chain=MASKING, vocabulary=VOCABULARY, **fields):
    return Door.of(chain, vocabulary, **fields)


def made(rows, epoch=0, **fields):
    """{column: lists} of the examples of some rows."""
    return {name: lists(column) for name, column in door(**fields).examples(rows, epoch).framed.items()}


def refused(text, rows, **fields):
    with pytest.raises(InputError) as caught:
        made(rows, **fields)
    assert str(caught.value) == text


def table(rows, kind=None, name="tokens", **more):
    return pa.table({name: pa.array(rows, kind or pa.list_(pa.int32())), **more})


# Rows that already carry special tokens.


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("masks", [(), ("attention_mask",), ("special_tokens_mask",), None])
@given(data=st.data())
def test_framed_and_padded_rows_give_what_bare_content_gives(name, masks, data):
    layout = LAYOUTS[name]
    shortest = 2 if name == "xlnet" else 0  # fewer have no order
    row = st.lists(st.integers(FIRST, SIZE - 1), min_size=shortest, max_size=12)
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    width = max(map(len, rows)) + 2 + data.draw(st.integers(0, 3))
    columns = {"input_ids", "word_start", *(("attention_mask", "special_tokens_mask") if masks is None else masks)}
    framed = [{k: v for k, v in layout.row(row, width).items() if k in columns} for row in rows]
    fields = {"chain": layout.chain, "vocabulary": layout.vocabulary, "frame": layout.frame}
    words = [starts(row) for row in rows]
    bare = made({"tokens": rows, "word_start": words}, **fields)
    assert made(framed, **fields) == bare
    assert made({"input_ids": rows, "word_start": words}, **fields) == bare
    for i, row in enumerate(rows):
        assert len(bare["input_ids"][i]) == len(layout.before) + len(row) + len(layout.behind)


@pytest.mark.parametrize("name", ["bert", "roberta", "bart", "t5", "gpt2", "xlnet"])
def test_nothing_changes_where_nothing_is_corrupted(name):
    layout = LAYOUTS[name]
    chain = layout.chain if name == "xlnet" else Chain((Mask(rate=0.0, mask_share=0.0),))
    rows = [row for row in contents(20, 12, seed=1) if name != "xlnet" or len(row) > 1]
    found = made([layout.row(row, 20) for row in rows], chain=chain, vocabulary=layout.vocabulary, frame=layout.frame)
    assert found["input_ids"] == [[*layout.before, *row, *layout.behind] for row in rows]


@pytest.mark.parametrize("name", ["bert", "roberta", "bart", "gpt2"])
def test_A_01_specials_and_padding_are_never_chosen_whichever_mask_is_given(name):
    layout = LAYOUTS[name]
    rows = [list(range(8, 16)), [9]]
    for epoch in range(100):
        for columns in ((), ("attention_mask",), ("special_tokens_mask",), ("attention_mask", "special_tokens_mask")):
            framed = [{k: v for k, v in layout.row(row, 12).items() if k in ("input_ids", *columns)} for row in rows]
            fields = {"chain": Chain((Mask(rate=0.5, mask_share=0.0, random_share=1.0),)), "frame": "single"}
            found = made(framed, epoch, vocabulary=layout.vocabulary, **fields)
            for ids, labels, row in zip(found["input_ids"], found["labels"], rows):
                assert len(ids) == len(row) + 2 and labels[0] == labels[-1] == IGNORE
                assert [ids[0], ids[-1]] == [*layout.before, *layout.behind]
                assert [b if b != IGNORE else a for a, b in zip(ids, labels)][1:-1] == row


def test_unknown_and_mask_tokens_are_text_even_where_a_mask_calls_them_special():
    rows = [{"input_ids": [CLS, UNK, 9, MASK, SEP], "special_tokens_mask": [1, 1, 0, 1, 1]}]
    assert made(rows, chain=KEPT)["input_ids"] == [[CLS, UNK, 9, MASK, SEP]]
    moved = made(rows, chain=Chain((parse_step({"kind": "rotate"}),)), vocabulary=RICH)
    assert sorted(moved["input_ids"][0]) == sorted([CLS, UNK, 9, MASK, SEP])


def test_a_literal_special_token_that_the_mask_calls_text_is_text():
    rows = [{"input_ids": [CLS, SEP, 9, SEP, SEP], "special_tokens_mask": [1, 0, 0, 0, 1]}]
    assert made(rows, chain=KEPT)["input_ids"] == [[CLS, SEP, 9, SEP, SEP]]
    assert made(rows, chain=KEPT) == made([{"tokens": [SEP, 9, SEP]}], chain=KEPT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_of_texts_keeps_its_separators_and_types(kind):
    tokenizer = trained(kind)
    texts = (["Hello the world of news", "Another"], ["second one here", "a"])
    whole = tokenizer(*texts)
    for padding in (False, True):
        given = dict(tokenizer(*texts, padding=padding, return_special_tokens_mask=padding))
        assert "token_type_ids" in given or kind != "wordpiece"
        found = made(given, chain=KEPT, vocabulary=door(vocabulary=tokenizer).vocabulary)
        assert found["input_ids"] == whole["input_ids"]
        assert found.get("token_type_ids") == whole.get("token_type_ids")
        separators = {tokenizer.cls_token_id, tokenizer.sep_token_id}
        for epoch in range(30):
            masked = made(given, epoch, vocabulary=tokenizer)
            for before, ids, labels in zip(whole["input_ids"], masked["input_ids"], masked["labels"]):
                assert any(label != IGNORE for label in labels)
                for was, now, label in zip(before, ids, labels):
                    assert (was not in separators) or (now == was and label == IGNORE)


def test_token_types_of_rows_without_special_tokens():
    rows = [{"input_ids": [7, SEP, 8], "token_type_ids": [0, 0, 1]}, {"input_ids": [], "token_type_ids": []}]
    assert made(rows, chain=KEPT)["token_type_ids"] == [[0, 0, 0, 1, 1], [0, 0]]


def test_token_types_of_an_encoders_input():
    bart = LAYOUTS["bart"]
    rows = [{"input_ids": [0, 9, 2, 2, 10, 2, 1], "token_type_ids": [0, 0, 0, 0, 1, 1, 0]}]
    found = made(rows, chain=KEPT, vocabulary=bart.vocabulary, frame="encoder_decoder")
    assert found["input_ids"] == found["labels"] == [[0, 9, 2, 2, 10, 2]]
    assert found["token_type_ids"] == [[0, 0, 0, 0, 1, 1]]


def test_token_types_of_0_follow_a_chain_that_moves():
    rows = [{"input_ids": [CLS, 9, 10, 11, SEP, PAD], "token_type_ids": [0] * 6}]
    found = made(rows, chain=Chain((parse_step({"kind": "rotate"}),)), vocabulary=RICH)
    assert found["token_type_ids"] == [[0] * 5]


def test_inner_special_tokens_are_refused_where_tokens_move():
    moving = Chain((parse_step({"kind": "rotate"}),))
    pair = {"input_ids": [[CLS, 9, SEP], [CLS, 9, SEP, 10, SEP]], "word_start": [[1] * 3, [1] * 5]}
    refused(
        "row 1 of the batch: special tokens stand inside it, and the step 'rotate' moves tokens; "
        "give each text a row of its own",
        pair,
        chain=moving,
        vocabulary=RICH,
    )
    refused(
        "row 0 of the batch: its token_type_ids are not all 0, and the step 'rotate' moves tokens; "
        "give each text a row of its own",
        {"input_ids": [[CLS, 9, 10, SEP]], "token_type_ids": [[0, 0, 1, 1]]},
        chain=moving,
        vocabulary=RICH,
    )
    refused(
        "row 1 of the batch: special tokens stand inside it, and the frame 'permutation' makes segments itself; "
        "give each text a row of its own",
        pair,
        chain=Chain((parse_step({"kind": "permutation_order"}),)),
    )


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            {"input_ids": [CLS, 9, PAD, 10, SEP]},
            "there is padding inside it, at position 2; "
            "give each text a row of its own, padded at one end or not at all",
        ),
        (
            {"input_ids": [CLS, 9, 10, SEP], "attention_mask": [1, 0, 1, 1]},
            "there is padding inside it, at position 1; "
            "give each text a row of its own, padded at one end or not at all",
        ),
        (
            {"input_ids": [CLS, 9, 10, SEP], "attention_mask": [1, 1, 1, 0]},
            "attention_mask is 0 at position 3, where the id 3 is no padding; "
            "give attention_mask 0 on padding only, or leave the column out",
        ),
        (
            {"input_ids": [CLS, 9, 10, SEP], "special_tokens_mask": [1, 0, 1, 1]},
            "special_tokens_mask is 1 at position 2, where the id 10 is an ordinary token; "
            "leave the column out, or make that token a special one of the tokenizer",
        ),
        (
            {"input_ids": [CLS, RICH.sentinels[0], 10, SEP], "special_tokens_mask": [1, 1, 0, 1]},
            f"the special token {RICH.sentinels[0]} at position 1 is not one that a frame puts around content; "
            "tokenise with add_special_tokens=False and call the column tokens",
        ),
        (
            {"input_ids": [9, 10, SEP, RICH.sentinels[0]]},
            f"the special token {RICH.sentinels[0]} at position 3 is not one that a frame puts around content; "
            "tokenise with add_special_tokens=False and call the column tokens",
        ),
        (
            {"input_ids": [RICH.sentinels[0], 9, 10, SEP]},
            f"the special token {RICH.sentinels[0]} at position 0 is not one that a frame puts around content; "
            "tokenise with add_special_tokens=False and call the column tokens",
        ),
    ],
)
def test_rows_that_contradict_themselves_are_refused(row, text):
    good = {"input_ids": [CLS, 9, SEP], "attention_mask": [1, 1, 1], "special_tokens_mask": [1, 0, 1]}
    refused(f"row 1 of the batch: {text}", [{name: good[name] for name in row}, row], vocabulary=RICH)


# Columns, whatever they are made of.


def test_rows_of_every_shape_give_the_same():
    rows = contents(12, 9, seed=3)
    keys = [2**64 - 1 - i for i in range(len(rows))]
    wanted = made({"tokens": rows, "key": keys})
    kinds = [pa.list_(pa.int64()), pa.large_list(pa.int32()), pa.list_(pa.uint16())]
    whole = table(rows, key=pa.array(keys, pa.uint64()))
    shapes = [
        whole,
        *(table(rows, kind, key=pa.array(keys, pa.uint64())) for kind in kinds),
        pa.concat_tables([whole.slice(0, 5), whole.slice(5)]),
        pa.concat_tables([whole, whole]).slice(0, len(rows)),
        whole.to_batches()[0],
        {"tokens": [np.array(row, np.int64) for row in rows], "key": np.array(keys, np.uint64)},
        {"tokens": [torch.tensor(row, dtype=torch.int16) for row in rows], "key": keys},
        {"tokens": np.array([np.array(row) for row in rows], object), "key": keys},
        [{"tokens": row, "key": key} for row, key in zip(rows, keys)],
        [{"tokens": np.array(row, np.int32), "key": np.uint64(key)} for row, key in zip(rows, keys)],
    ]
    for shape in shapes:
        assert made(shape) == wanted
    square = [row[:4] for row in rows if len(row) >= 4]
    wanted = made({"tokens": square})
    for shape in (
        torch.tensor(square),
        np.array(square, np.int8),
        pa.array(square, pa.list_(pa.int32(), 4)),
        pa.chunked_array([pa.array(square, pa.list_(pa.int32()))]),
    ):
        assert made({"tokens": shape}) == wanted
    assert made([{"tokens": row} for row in torch.tensor(square)]) == wanted
    assert made(square) == made([{"input_ids": row} for row in square]) == wanted


def test_no_rows_give_columns_without_rows():
    for empty in (
        table([]),
        {"tokens": []},
        table([[9]]).slice(1),
        pa.table({"tokens": pa.chunked_array([], pa.list_(pa.int32()))}),
    ):
        assert made(empty) == {"input_ids": [], "labels": []}


def test_keys_are_numbers_or_strings_or_the_rows_own_tokens():
    rows = [list(range(9, 50))] * 3
    strings = made({"tokens": rows, "key": ["a", "b", "a"]})
    assert strings == made({"tokens": rows, "key": [hash64("a"), hash64("b"), hash64("a")]})
    assert strings["labels"][0] == strings["labels"][2] != strings["labels"][1]
    assert strings == made(table(rows, key=["a", "b", "a"]))
    assert made({"tokens": rows, "key": [-1, 5, 2**63]}) == made({"tokens": rows, "key": [2**64 - 1, 5, -(2**63)]})
    assert made({"tokens": rows, "key": torch.tensor([1, 2, 3])}) == made({"tokens": rows, "key": [1, 2, 3]})
    bare = made({"tokens": rows})
    assert bare["labels"][0] == bare["labels"][1]
    assert bare == made({"input_ids": [[CLS, *row, SEP, PAD] for row in rows]})


def test_copies_epochs_and_seeds_change_the_noise():
    rows = {"tokens": [list(range(9, 40))] * 2, "key": [1, 1]}
    zero = made(rows)
    assert zero == made({**rows, "copy": [0, 0]}) == made(rows, seed=0)
    copies = made({**rows, "copy": [0, 1]})
    assert copies["labels"][0] == zero["labels"][0] != copies["labels"][1]
    assert len({str(made(rows, epoch, seed=seed)) for epoch in range(2) for seed in range(2)}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_A_04_words_come_from_word_ids_whatever_the_tokenizer(kind):
    tokenizer = trained(kind)
    texts = ["unbelievable antidisestablishmentarianism", "the second text, of several words"]
    encoded = tokenizer(texts, padding=True)
    ids = [encoded.word_ids(i) for i in range(len(texts))]
    rows = {**encoded, "word_ids": ids}
    wanted = [max(word for word in words if word is not None) + 1 for words in ids]
    chosen = set()
    chain = Chain((Mask(rate=0.4, unit="word", count="bernoulli"),))
    for epoch in range(100):
        found = made(rows, epoch, chain=chain, vocabulary=tokenizer)
        for i, labels in enumerate(found["labels"]):
            words = ids[i][: len(labels)]
            flags = [{label != IGNORE for label, of in zip(labels, words) if of == word} for word in range(wanted[i])]
            assert all(len(flag) == 1 for flag in flags)
            chosen |= {(i, word) for word, flag in enumerate(flags) if flag == {True}}
    assert chosen == {(i, word) for i, n in enumerate(wanted) for word in range(n)}
    starts = [[int(word is None or j == 0 or word != words[j - 1]) for j, word in enumerate(words)] for words in ids]
    again = {**encoded, "word_start": starts}
    assert made(again, chain=WORDS, vocabulary=tokenizer) == made(rows, chain=WORDS, vocabulary=tokenizer)
    with_arrow = pa.table({"input_ids": encoded["input_ids"], "word_ids": ids})
    assert (
        made(with_arrow, chain=WORDS, vocabulary=tokenizer)["labels"]
        == made(rows, chain=WORDS, vocabulary=tokenizer)["labels"]
    )


def test_word_ids_beside_content_and_word_starts_win():
    rows = {"tokens": [list(range(9, 19))], "word_ids": [[0, 0, 1, 2, 2, 2, 3, 4, 4, 4]]}
    starts = {"tokens": rows["tokens"], "word_start": [[1, 0, 1, 1, 0, 0, 1, 1, 0, 0]]}
    for epoch in range(10):
        assert made(rows, epoch, chain=WORDS) == made(starts, epoch, chain=WORDS)
        assert made({**rows, **starts}, epoch, chain=WORDS) == made(starts, epoch, chain=WORDS)


def test_foreign_columns_are_read_where_they_are_there_and_asked_for_where_not():
    chain = Chain((parse_step({"kind": "sentence_pair"}),))
    rows = {
        "tokens": [[9, 10, 11, 12]] * 8,
        "sentence_start": [[1, 0, 1, 0]] * 8,
        "key": list(range(8)),
        "foreign_tokens": [[20, 21, 22]] * 8,
        "foreign_word_start": [[1, 1, 1]] * 8,
        "foreign_sentence_start": [[1, 0, 1]] * 8,
    }
    found = made(rows, chain=chain)
    assert set(map(tuple, found["next_sentence_label"])) == {(0,), (1,)}
    for i, (label,) in enumerate(found["next_sentence_label"]):
        assert bool({20, 21, 22} & set(found["input_ids"][i])) == (label == 1)
    assert made(pa.table(rows), chain=chain) == found
    bare = {name: rows[name] for name in ("tokens", "sentence_start", "key")}
    refused(
        "corruption: 'sentence_pair' needs a passage of another document, and this door sees one row at a time; "
        "give the columns foreign_tokens, foreign_word_start, foreign_sentence_start, "
        "or use papermoth pretrain or generate",
        bare,
        chain=chain,
    )


# What cannot be used is refused in one line.


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ({"text": ["a"]}, "rows: they have neither tokens nor input_ids; tokenise them first"),
        (
            {"tokens": [[9]], "input_ids": [[9]]},
            "rows: they have tokens and input_ids, both of ids; keep one of the two",
        ),
        (
            {"tokens": [[9]], "attention_mask": [[1]]},
            "column attention_mask: it stands beside tokens, which are content only; "
            "remove it, or call the column of ids input_ids",
        ),
        (
            {"input_ids": [[9, SIZE]]},
            "column input_ids: id 60 is not one of small's 60; use the tokenizer that the rows were made with",
        ),
        (
            {"tokens": [[9, -1]]},
            "column tokens: id -1 is not one of small's 60; use the tokenizer that the rows were made with",
        ),
        (
            {"input_ids": [[9, 10]], "attention_mask": [[1]]},
            "column attention_mask: row 0 of the batch has 1 numbers for 2 ids; give one for each id",
        ),
        (
            {"tokens": [[9]], "key": [1, 2]},
            "column key: it has 2 rows for 1; give columns of equal length",
        ),
        (
            {"tokens": [[9], [10]], "key": [1, None]},
            "column key: row 1 of the batch has None; give a whole number or a string",
        ),
        (
            {"tokens": [[9]], "copy": [1.5]},
            "column copy: row 0 of the batch has 1.5; give a whole number or a string",
        ),
        (
            {"tokens": [[9], None]},
            "column tokens: row 1 of the batch is missing; give a list, if an empty one",
        ),
        ([], "batch: it has no rows; give at least one"),
        (
            [{"tokens": [9]}, {"tokens": [9], "key": 1}],
            "row 1 of the batch: it has a column 'key' and row 0 has none; give rows of equal columns",
        ),
        (
            [{"tokens": [9], "key": 1}, {"tokens": [9]}],
            "row 1 of the batch: it has no column 'key' and row 0 has one; give rows of equal columns",
        ),
        (
            {"tokens": [np.array([0.5])]},
            "column tokens: a row is an array of float64 with 1 dimensions; "
            "give lists of whole numbers that fit into int32",
        ),
        (
            {"tokens": [np.array([2**31])]},
            "column tokens: a number does not fit into int32; give lists of whole numbers that fit into int32",
        ),
        (
            {"tokens": pa.array([1, 2])},
            "column tokens: it is of type int64; give lists of whole numbers that fit into int32",
        ),
        (
            {"tokens": [[9]], "labels": [[9]]},
            "column labels: the rows bring one, and the examples made of them have one of that name; "
            "remove it or rename it",
        ),
    ],
)
def test_rows_are_refused_in_one_line(rows, text):
    refused(text, rows)


def test_odd_items_are_refused_by_the_columns_name():
    for rows in ([["a"]], [[1.5]], [[2**31]], [[None]], ["text"], [9], [None], [[[9]]]):
        with pytest.raises(InputError, match=r"^column tokens: .*give "):
            made({"tokens": rows})


def test_a_missing_column_is_named_with_the_step_and_the_way_to_it():
    refused(
        "column word_start: the rows have none, and the step 'mask' needs it; "
        "give it (1 where a word starts), or word_ids as a fast tokenizer's encoding has them",
        {"tokens": [[9]]},
        chain=WORDS,
    )
    refused(
        "column sentence_start: the rows have none, and the step 'pairs' needs it; "
        "give it (1 where a sentence starts, else 0)",
        {"tokens": [[9]]},
        chain=Chain((parse_step({"kind": "sentence_pair", "task": "sop"}),), ("pairs",)),
    )


def test_frames_that_do_not_fit_are_refused():
    with pytest.raises(InputError) as caught:
        door(frame="pear")
    assert str(caught.value) == "frame: unknown frame 'pear'; did you mean 'pair'?"
    with pytest.raises(InputError) as caught:
        door(frame="pair")
    assert str(caught.value) == (
        "frame: 'pair' needs the column 'segment', which no step of the chain provides; "
        "choose one of single, encoder_decoder, or leave it out"
    )
    with pytest.raises(InputError, match="it has no mask_token, which the corruption 'mask' needs"):
        door(vocabulary=LAYOUTS["t5"].vocabulary, frame="encoder_decoder")
    with pytest.raises(InputError, match="it has no cls_token, which framing one segment needs"):
        door(chain=LAYOUTS["t5"].chain, vocabulary=LAYOUTS["t5"].vocabulary)


def test_A_03_own_labels_are_kept_where_none_are_made_and_never_overwritten():
    views = Chain((parse_step({"kind": "views"}),))
    rows = table([[9, 10], [11, 12]], labels=[3, 4])
    assert Corruptor(views, VOCABULARY)(rows)["labels"].to_pylist() == [3, 4]
    with pytest.raises(InputError, match=r"^column labels: the rows bring one"):
        Corruptor(MASKING, VOCABULARY)(rows)


# Every kind, through the door and beside it.


@pytest.mark.parametrize("name", cases())
def test_every_kind_gives_what_a_job_gives_in_batches_of_any_size(name):
    chain = Chain((cases()[name],))
    passages = block(chain)
    frame = suited(chain.provides())
    after = chain.apply(passages, seed=3, epoch=1, vocabulary=RICH)
    usable = np.flatnonzero(after.usable)
    wanted = {column: lists(values) for column, values in frame.apply(after.take(usable), RICH).items()}
    rows = {column: lists(values) for column, values in passages.columns.items()} | {"key": passages.keys.tolist()}
    whole = pa.table({column: pa.array(values) for column, values in rows.items() if column != "key"})
    whole = whole.append_column("key", pa.array(passages.keys))
    opened = Door.of(chain, RICH, seed=3)
    for size in (7, 64, len(passages)):
        found: dict[str, list] = {column: [] for column in wanted}
        for start in range(0, len(passages), size):
            examples = opened.examples(whole.slice(start, size), 1)
            for column in wanted:
                found[column] += lists(examples.framed[column])
        assert found == wanted
    for i in range(0, len(passages), 50):
        single = opened.examples([{column: values[i] for column, values in rows.items()}], 1)
        place = np.flatnonzero(usable == i)
        for column in wanted:
            assert lists(single.framed[column]) == [wanted[column][j] for j in place]


# The stage.


def test_a_stage_keeps_other_columns_and_uses_up_those_over_the_tokens():
    rows = pa.table(
        {
            "key": pa.array([5, 6], pa.uint64()),
            "text": ["a b", "c"],
            "tokens": pa.array([[9, 10], [11]], pa.list_(pa.int32())),
            "word_start": [[1, 1], [1]],
            "label": [0.5, 1.5],
        }
    )
    found = Corruptor(MASKING, VOCABULARY)(rows)
    assert found.column_names == ["key", "text", "label", "input_ids", "labels"]
    assert found.schema.field("input_ids").type == found.schema.field("labels").type == pa.list_(pa.int32())
    assert found.select(["key", "text", "label"]).equals(rows.select(["key", "text", "label"]))
    empty = Corruptor(MASKING, VOCABULARY)(rows.slice(0, 0))
    assert empty.schema == found.schema and len(empty) == 0


def test_a_stage_gives_whole_attention_masks_for_those_that_came():
    rows = table([[CLS, 9, SEP, PAD], [CLS, 9, 10, SEP]], name="input_ids", attention_mask=[[1, 1, 1, 0], [1] * 4])
    found = Corruptor(MASKING, VOCABULARY)(rows)
    assert found["attention_mask"].to_pylist() == [[1, 1, 1], [1, 1, 1, 1]]
    strings = Corruptor(MASKING, VOCABULARY)(rows.append_column("tokens", pa.array([["a"], ["a", "b"]])))
    assert strings["tokens"].to_pylist() == [["a"], ["a", "b"]]


def test_unusable_rows_are_left_out_with_a_warning_and_counted():
    chain = Chain((parse_step({"kind": "sentence_pair", "task": "sop"}),))
    rows = table(
        [[9, 10, 11], [12], [], [13, 14]],
        sentence_start=[[1, 0, 1], [1], [], [1, 1]],
        name="tokens",
        text=["a", "b", "c", "d"],
    )
    stage = Corruptor(chain, VOCABULARY)
    with pytest.warns(UserWarning) as caught:
        found = stage(rows)
    assert [str(warning.message) for warning in caught] == [
        "rows that the chain cannot use are dropped: too short",
        "rows that the chain cannot use are dropped: one sentence",
    ]
    assert {warning.filename for warning in caught} == {__file__}
    assert found["text"].to_pylist() == ["a", "d"]
    assert found.schema.field("next_sentence_label").type == pa.int32()
    assert stage.dropped(rows) == {"too_short": 1, "one_sentence": 1}
    with pytest.warns(UserWarning):
        nothing = stage(rows.slice(1, 2))
    assert len(nothing) == 0 and nothing.schema == found.schema
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(stage(rows.slice(3))) == 1


def test_a_stage_pickles_small_and_without_the_tokenizer():
    stage = Corruptor(MASKING, trained("wordpiece"), seed=4, epoch=2)
    data = pickle.dumps(stage)
    assert len(data) < 60_000
    rows = table([[900, 901, 902, 903]] * 2)
    assert pickle.loads(data)(rows).equals(stage(rows))


def test_a_stage_asks_for_arrow():
    with pytest.raises(InputError) as caught:
        Corruptor(MASKING, VOCABULARY)({"tokens": [[9]]})
    assert str(caught.value) == (
        'Corruptor: it was given a dict, not an Arrow table; call map_batches with batch_format="pyarrow"'
    )


def test_bart_by_token_masking_asks_for_the_whole_text():
    bart = LAYOUTS["bart"]
    found = made({"tokens": [[9, 10, 11, 12, 13]]}, vocabulary=bart.vocabulary, frame="encoder_decoder")
    assert found["labels"] == [[0, 9, 10, 11, 12, 13, 2]] and 4 in found["input_ids"][0]


def test_a_batch_of_the_door_is_the_batch_of_a_store():
    rows = contents(5, 9, seed=4)
    keys = pa.array(range(len(rows)), pa.uint64())
    batch = Batch.from_arrow(table(rows, key=keys), ("tokens",))
    wanted = MASKING.apply(batch, seed=0, epoch=0, vocabulary=VOCABULARY)
    assert [row[1:-1] for row in made(table(rows, key=keys))["input_ids"]] == lists(wanted.tokens)
