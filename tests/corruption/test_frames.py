"""Framing and padding against plain loops, and what a tokenizer must have for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.chain import Chain
from corruption.edit import take
from corruption.errors import InputError
from corruption.frames import FRAMES, missing, suited
from corruption.frames.encoder_decoder import EncoderDecoder
from corruption.frames.layout import Layout, Mark, Stretch
from corruption.frames.pair import Pair
from corruption.frames.permutation import Permutation
from corruption.frames.single import Single
from corruption.frames.views import ViewPair
from corruption.noise_kinds import Crop, Mask, PermutationOrder, SentencePair, Views
from corruption.padding import MASKS, attention_mask, pad, padded
from corruption.ragged import Ragged, per_row
from corruption.schema import COLUMNS, IGNORE
from corruption.vocabulary import Vocabulary
from tests.corruption.rows import CLS, PAD, SEP, VOCABULARY, batch, batches, lists

ROWS = st.lists(st.lists(st.integers(0, 59), max_size=9), max_size=6)


def labelled(rows):
    return rows.put(labels=rows.tokens.with_values(np.full_like(rows.tokens.values, IGNORE)))


@given(batches())
def test_framing_against_a_plain_loop(rows):
    frame = Single(columns=("input_ids", "labels", "origin", "word_start"))
    framed = frame.apply(labelled(rows), VOCABULARY)
    tokens, starts = lists(rows.tokens), lists(rows.columns["word_start"])
    assert lists(framed["input_ids"]) == [[CLS, *row, SEP] for row in tokens]
    assert lists(framed["labels"]) == [[IGNORE] * (len(row) + 2) for row in tokens]
    assert lists(framed["origin"]) == [[-1, *range(len(row)), -1] for row in tokens]
    assert lists(framed["word_start"]) == [[0, *row, 0] for row in starts]
    assert all(column.offsets is framed["input_ids"].offsets for column in framed.values())
    assert all(column.values.dtype == np.int32 for column in framed.values())


@given(ROWS, st.integers(-100, 100), st.one_of(st.none(), st.integers(0, 4)))
def test_padding_against_a_plain_loop(rows, fill, more):
    column = Ragged.from_rows(rows)
    longest = max(map(len, rows), default=0)
    width = None if more is None else longest + more
    lengths = column.lengths.astype(np.int32)
    found = pad(column.values, lengths, fill, width)
    width = longest if width is None else width
    assert found.dtype == np.int64 and found.shape == (len(rows), width)
    assert found.tolist() == [row + [fill] * (width - len(row)) for row in rows]
    mask = attention_mask(lengths, width)
    assert mask.dtype == np.int64 and mask.tolist() == [[1] * len(r) + [0] * (width - len(r)) for r in rows]


@pytest.mark.parametrize(("lengths", "width"), [([2, 2], None), ([1, 1], None), ([3], 2), ([4], None)])
def test_padding_refuses_lengths_that_do_not_fit(lengths, width):
    with pytest.raises(ValueError, match="tokens"):
        pad(np.arange(3, dtype=np.int32), np.array(lengths), 0, width)


@given(batches(), st.integers(0, 3))
def test_padded_fills_each_column_as_the_table_says(rows, more):
    frame = Single(columns=("input_ids", "labels", "origin"))
    framed = frame.apply(labelled(rows), VOCABULARY)
    width = int(framed["input_ids"].lengths.max(initial=0)) + more
    made = padded(framed, VOCABULARY, dict.fromkeys(framed, width))
    assert list(made) == ["input_ids", "labels", "origin", "attention_mask"]
    real = made["attention_mask"] == 1
    assert (made["input_ids"][~real] == PAD).all()
    assert (made["labels"][~real] == IGNORE).all() and (made["origin"][~real] == -1).all()
    assert real.sum(axis=1).tolist() == framed["input_ids"].lengths.tolist()
    assert all(array.dtype == np.int64 and array.shape == (len(rows), width) for array in made.values())


def test_A_02_attention_comes_from_lengths_where_pad_and_end_are_one_token():
    shared = Vocabulary.from_ids(20, ids={"pad": 0, "eos": 0, "bos": 1, "mask": 2}, special={0, 1, 2})
    frame = Single()
    frame.check(shared)
    made = padded(frame.apply(labelled(batch([[5, 6], [5, 6, 7, 8]])), shared), shared)
    assert made["input_ids"].tolist() == [[1, 5, 6, 0, 0, 0], [1, 5, 6, 7, 8, 0]]
    assert made["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]


@pytest.mark.parametrize(
    ("ids", "missing"),
    [
        ({"sep": 1, "pad": 2}, "cls_token"),
        ({"cls": 1, "pad": 2}, "sep_token"),
        ({"cls": 1, "sep": 2}, "pad_token"),
    ],
)
def test_A_19_what_framing_needs_is_named(ids, missing):
    with pytest.raises(InputError, match=missing):
        Single().check(Vocabulary.from_ids(9, ids=ids, special=set(ids.values())))


def test_bos_and_eos_stand_in_for_cls_and_sep():
    other = Vocabulary.from_ids(9, ids={"bos": 3, "eos": 4, "pad": 0}, special={0, 3, 4})
    Single().check(other)
    framed = Single(columns=("input_ids",)).apply(batch([[5]]), other)
    assert lists(framed["input_ids"]) == [[3, 5, 4]]


def test_a_column_that_no_corruption_provides_is_named():
    with pytest.raises(InputError, match="no corruption provides the column 'labels'"):
        Single().apply(batch([[5]]), VOCABULARY)


# Each frame against a plain loop.

EDGES = {"cls": CLS, "sep": SEP, "bos": 5, "eos": 6, "pad": PAD, "mask": 4}
T5_LIKE = Vocabulary.from_ids(20, ids={"eos": 1, "pad": 0}, special={0, 1}, name="t5-like")
BART_LIKE = Vocabulary.from_ids(60, ids={"bos": 0, "eos": 2, "pad": 1, "cls": 0, "sep": 2}, special={0, 1, 2})


@st.composite
def segmented(draw, **options):
    """Batches with labels, an order of prediction, and rows in one or two segments."""
    rows = draw(batches(**options))
    splits = [draw(st.integers(0, len(row))) for row in lists(rows.tokens)]
    segment = [[int(i >= split) for i in range(len(row))] for split, row in zip(splits, lists(rows.tokens))]
    order = [
        [random.index(i) if i in random else -1 for i in range(len(row))]
        for row in lists(rows.tokens)
        for random in [draw(st.permutations(range(len(row))))[: len(row) // 2]]
    ]
    flat = {"segment": segment, "permutation_order": order, "labels": lists(rows.columns["word_start"])}
    columns = {
        name: rows.tokens.with_values(np.array([x for row in values for x in row], np.int32))
        for name, values in flat.items()
    }
    labels = st.lists(st.sampled_from([0, 1, IGNORE]), min_size=len(rows), max_size=len(rows))
    return rows.put(**columns, next_sentence_label=per_row(np.array(draw(labels), np.int32)))


def one_offsets(framed, *names):
    assert all(framed[name].offsets is framed[names[0]].offsets for name in names)
    assert all(not framed[name].values.flags.writeable for name in names)


@given(segmented())
def test_pairs_against_a_plain_loop(rows):
    names = ("input_ids", "token_type_ids", "labels", "origin", "next_sentence_label")
    framed = Pair(columns=names).apply(rows, VOCABULARY)
    assert list(framed) == list(names)
    one_offsets(framed, *names[:4])
    assert framed["next_sentence_label"] is rows.columns["next_sentence_label"]
    columns = (rows.tokens, rows.columns["segment"], rows.columns["labels"])
    for r, (tokens, segment, labels) in enumerate(zip(*map(lists, columns))):
        a, n = segment.count(0), len(tokens)
        behind = [SEP] if a < n else []
        assert lists(framed["input_ids"])[r] == [CLS, *tokens[:a], SEP, *tokens[a:], *behind]
        assert lists(framed["token_type_ids"])[r] == [0] * (a + 2) + [1] * (n - a + len(behind))
        assert lists(framed["labels"])[r] == [IGNORE, *labels[:a], IGNORE, *labels[a:], *[IGNORE] * len(behind)]
        assert lists(framed["origin"])[r] == [-1, *range(a), -1, *range(a, n), *[-1] * len(behind)]


@given(segmented(), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_pairs_with_attention_patterns_have_segment_ids_of_their_own(rows, patterns):
    rows = rows.put(attention_pattern=per_row(np.array(patterns[: len(rows)], np.int32)))
    framed = Pair(columns=("token_type_ids", "attention_pattern")).apply(rows, VOCABULARY)
    ids = [(0, 1), (2, 2), (3, 3), (4, 5)]
    for pattern, types, segment in zip(patterns, lists(framed["token_type_ids"]), lists(rows.columns["segment"])):
        a, b = segment.count(0), segment.count(1)
        assert types == [ids[pattern][0]] * (a + 2) + [ids[pattern][1]] * (b + 1 if b else 0)


@given(segmented())
def test_permutations_against_a_plain_loop(rows):
    names = ("permutation_order", "input_ids", "token_type_ids", "labels")
    framed = Permutation(columns=names).apply(rows, VOCABULARY)
    assert list(framed) == list(names)
    one_offsets(framed, *names)
    columns = (rows.tokens, rows.columns["permutation_order"], rows.columns["labels"])
    for r, (tokens, order, labels) in enumerate(zip(*map(lists, columns))):
        k = sum(place >= 0 for place in order)
        assert lists(framed["permutation_order"])[r] == [*order, k, k + 1]
        assert lists(framed["input_ids"])[r] == [*tokens, SEP, CLS]
        assert lists(framed["token_type_ids"])[r] == [0] * (len(tokens) + 1) + [2]
        assert lists(framed["labels"])[r] == [*labels, IGNORE, IGNORE]


@pytest.mark.parametrize(
    ("vocabulary", "first", "last"),
    [(VOCABULARY, [CLS], SEP), (T5_LIKE, [], 1), (BART_LIKE, [0], 2)],
    ids=["cls and sep", "eos alone", "bos and eos"],
)
@given(rows=batches(), targeted=st.booleans())
def test_encoder_and_decoder_against_a_plain_loop(vocabulary, first, last, rows, targeted):
    before = rows
    rows = take(rows, Ragged.from_rows([list(range(1, len(row))) for row in lists(rows.tokens)]))
    written = lists(before.tokens)
    if targeted:
        written = [[9] * (r % 3) for r in range(len(rows))]
        rows = rows.put(targets=Ragged.from_rows(written))
    framed = EncoderDecoder(columns=("input_ids", "labels", "origin")).apply(rows, vocabulary)
    one_offsets(framed, "input_ids", "origin")
    assert lists(framed["input_ids"]) == [[*first, *row[1:], last] for row in lists(before.tokens)]
    assert lists(framed["labels"]) == [[*first, *row, last] for row in written]
    edge = [-1] * len(first)
    assert lists(framed["origin"]) == [[*edge, *range(1, len(row)), -1] for row in lists(before.tokens)]


@given(batches())
def test_two_views_against_a_plain_loop(rows):
    positive = [row[::2] for row in lists(rows.tokens)]
    framed = ViewPair().apply(rows.put(positive=Ragged.from_rows(positive)), VOCABULARY)
    assert lists(framed["input_ids"]) == [[CLS, *row, SEP] for row in lists(rows.tokens)]
    assert lists(framed["positive_input_ids"]) == [[CLS, *row, SEP] for row in positive]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1)), max_size=6))
def test_layout_against_a_plain_loop(shapes):
    """Rows of n tokens cut at `at`, the second stretch first, and a mark that only some rows have."""
    shapes = [(n, min(at, n), present) for n, at, present in shapes]
    values = Ragged.from_rows([list(range(100, 100 + n)) for n, _, _ in shapes])
    first, second = Stretch.whole(values).cut(np.array([at for _, at, _ in shapes], np.int32))
    some = Mark(np.array([present for _, _, present in shapes], np.int64))
    layout = Layout.of((second, some, Mark(), first), len(shapes))
    out = layout.fill((values.values, 1, 2, values.values))
    assert lists(out) == [
        [*range(100 + at, 100 + n), *[1] * present, 2, *range(100, 100 + at)] for n, at, present in shapes
    ]
    for r, (n, at, present) in enumerate(shapes):
        row = out.offsets[r]
        assert [int(places[r] - row) for places in layout.places] == [0, n - at, n - at + present, n - at + present + 1]


# What must hold of frames whatever the chain.

CHAINS = {
    "single": Chain((Mask(),)),
    "pair": Chain((SentencePair("sop"), Mask())),
    "permutation": Chain((PermutationOrder(),)),
    "encoder_decoder": Chain((Crop(0.5),)),
    "views": Chain((Views(Chain((Crop(0.2),)), Chain((Mask(),))),)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_framed_lengths_stay_within_the_frames_bound(name):
    chain, frame = CHAINS[name], suited(CHAINS[name].provides())
    assert isinstance(frame, FRAMES[name])
    rows = batch([[5 + i % 50 for i in range(n)] for n in range(2, 40)])
    starts = [[int(i % 2 == 0) for i in range(n)] for n in range(2, 40)]
    rows = rows.put(sentence_start=rows.tokens.with_values(np.concatenate(starts).astype(np.int32)))
    framed = frame.apply(chain.apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY), VOCABULARY)
    assert list(framed) == list(frame.columns)
    for column, values in framed.items():
        if COLUMNS[column].per == "token":
            sequence = frame.sequences.get(column, "input")
            for n, length in zip(range(2, 40), values.lengths.tolist()):
                assert length <= frame.lengths(chain.bounds(n))[sequence]


@pytest.mark.parametrize("name", CHAINS)
def test_B15_begin_and_end_stand_at_the_edges_and_padding_only_behind_them(name):
    """Whatever a corruption does to the content: it never reaches the special tokens."""
    frame = suited(CHAINS[name].provides())
    rows = batch([[7, 8, 9, 10, 11, 12], [13, 14], [15] * 9])
    rows = rows.put(sentence_start=rows.tokens.with_values(np.tile([1, 0], 9)[:17].astype(np.int32)))
    backwards = take(rows, Ragged.from_rows([list(range(n))[::-1] for n in rows.tokens.lengths]))
    out = CHAINS[name].apply(backwards, seed=0, epoch=0, vocabulary=VOCABULARY)
    made = padded(frame.apply(out, VOCABULARY), VOCABULARY)
    for column, mask in MASKS.items():
        if column not in made:
            continue
        for ids, real in zip(made[column].tolist(), made[mask].tolist()):
            n = sum(real)
            assert real == [1] * n + [0] * (len(ids) - n)
            assert ids[n:] == [PAD] * (len(ids) - n) and PAD not in ids[:n]
            first, last = ([], [SEP, CLS]) if name == "permutation" else ([CLS], [SEP])
            assert ids[: len(first)] == first and ids[n - len(last) : n] == last
            inner = ids[len(first) : n - len(last)]
            assert CLS not in inner and inner.count(SEP) == (name == "pair")


@pytest.mark.parametrize(
    ("frame", "ids", "missing"),
    [
        (Pair(), {"sep": 1, "pad": 2}, "cls_token, which framing two segments needs"),
        (Pair(), {"cls": 1, "pad": 2}, "sep_token, which framing two segments needs"),
        (Pair(), {"cls": 1, "sep": 2}, "pad_token, which padding needs"),
        (Permutation(), {"cls": 1, "bos": 3, "eos": 4, "pad": 2}, "sep_token, which framing for permutation lang"),
        (Permutation(), {"sep": 1, "bos": 3, "eos": 4, "pad": 2}, "cls_token, which framing for permutation lang"),
        (Permutation(), {"cls": 1, "sep": 2}, "pad_token, which padding needs"),
        (EncoderDecoder(), {"cls": 1, "bos": 3, "pad": 2}, "eos_token, which framing an encoder's input needs"),
        (EncoderDecoder(), {"eos": 1}, "pad_token, which padding needs"),
        (ViewPair(), {"sep": 1, "pad": 2}, "cls_token, which framing a view needs"),
        (ViewPair(), {"cls": 1, "pad": 2}, "sep_token, which framing a view needs"),
        (ViewPair(), {"cls": 1, "sep": 2}, "pad_token, which padding needs"),
    ],
)
def test_A_19_what_each_frame_needs_of_the_tokenizer_is_named(frame, ids, missing):
    with pytest.raises(InputError, match=f"it has no {missing}"):
        frame.check(Vocabulary.from_ids(9, ids=ids, special=set(ids.values())))
    frame.check(Vocabulary.from_ids(9, ids=EDGES, special=set(EDGES.values())))


@pytest.mark.parametrize(
    ("frame", "column"),
    [
        (Pair(), "segment"),
        (Permutation(), "permutation_order"),
        (Permutation(columns=("labels",)), "labels"),
        (ViewPair(), "positive"),
        (EncoderDecoder(columns=("input_ids", "segment")), "segment"),
    ],
)
def test_a_column_that_is_not_there_is_named_by_each_frame(frame, column):
    with pytest.raises(InputError, match=f"objective: no corruption provides the column '{column}'; add one"):
        frame.apply(batch([[7, 8]]), VOCABULARY)


def test_the_frame_that_suits_a_chain_asks_for_what_the_chain_provides():
    assert suited({"labels"}) == Single()
    assert suited(set()) == EncoderDecoder()
    assert suited({"targets"}) == EncoderDecoder()
    assert suited({"permutation_order", "labels"}) == Permutation()
    assert suited({"positive"}) == ViewPair()
    assert suited({"segment", "next_sentence_label"}).columns == ("input_ids", "token_type_ids", "next_sentence_label")
    assert suited({"segment", "attention_pattern", "labels"}).columns == (
        "input_ids",
        "token_type_ids",
        "labels",
        "attention_pattern",
    )


def test_what_a_chain_would_have_to_provide_is_told_by_the_source_of_a_column():
    assert missing(Pair(), ("input_ids", "token_type_ids", "labels"), set()) == ["segment", "labels"]
    assert missing(Pair(), ("token_type_ids", "origin"), {"segment"}) == []
    assert missing(ViewPair(), ViewPair().columns, set()) == ["positive"]
    assert missing(EncoderDecoder(), EncoderDecoder().columns, set()) == []


# B30: 1 is the corrupted case in every label. One golden example for each.


def test_B30_next_sentence_label_1_is_not_next_and_0_is_next():
    own, foreign = [10, 11, 12, 13], [50, 51]
    n = 40
    rows = batch([own] * n)
    other = Ragged.from_rows([foreign] * n)
    rows = rows.put(
        sentence_start=rows.tokens.with_values(np.array([1, 0, 1, 0] * n, np.int32)),
        foreign_tokens=other,
        foreign_word_start=other.with_values(np.ones(2 * n, np.int32)),
        foreign_sentence_start=other.with_values(np.array([1, 0] * n, np.int32)),
    )
    out = Chain((SentencePair(),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    framed = suited({"segment", "next_sentence_label"}).apply(out, VOCABULARY)
    seen = {int(label): ids for label, ids in zip(framed["next_sentence_label"].values, lists(framed["input_ids"]))}
    assert seen == {0: [CLS, 10, 11, SEP, 12, 13, SEP], 1: [CLS, 10, 11, SEP, 50, 51, SEP]}


def test_B30_next_sentence_label_1_is_swapped_and_0_is_in_order():
    rows = batch([[10, 11, 12, 13]] * 40)
    rows = rows.put(sentence_start=rows.tokens.with_values(np.array([1, 0, 1, 0] * 40, np.int32)))
    out = Chain((SentencePair("sop"),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    framed = suited({"segment", "next_sentence_label"}).apply(out, VOCABULARY)
    seen = {int(label): ids for label, ids in zip(framed["next_sentence_label"].values, lists(framed["input_ids"]))}
    assert seen == {0: [CLS, 10, 11, SEP, 12, 13, SEP], 1: [CLS, 12, 13, SEP, 10, 11, SEP]}


def test_B30_an_unusable_row_has_neither_label():
    rows = batch([[10, 11]])
    rows = rows.put(sentence_start=rows.tokens.with_values(np.array([1, 0], np.int32)))
    out = Chain((SentencePair("sop"),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    framed = suited({"segment", "next_sentence_label"}).apply(out, VOCABULARY)
    assert framed["next_sentence_label"].values.tolist() == [IGNORE]
