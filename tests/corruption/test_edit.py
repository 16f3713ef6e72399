"""take and splice against plain loops over lists, and the law that `origin` names each kept token's place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.edit import INVENTED, splice, take
from corruption.ragged import Ragged
from corruption.schema import IGNORE
from tests.corruption.rows import batch, batches, lists


def origin_law(before, after):
    """Kept tokens are those of the passage at their origin."""
    for old, new, places in zip(lists(before.tokens), lists(after.tokens), lists(after.columns["origin"])):
        assert len(new) == len(places)
        assert all(place == INVENTED or new[i] == old[place] for i, place in enumerate(places))


@st.composite
def indexed(draw):
    rows = draw(batches(max_length=8))
    index = [
        draw(st.lists(st.integers(-1, len(row) - 1), max_size=10)) if row else [-1] * draw(st.integers(0, 2))
        for row in lists(rows.tokens)
    ]
    return rows, index


@given(indexed())
def test_take_against_a_plain_loop(case):
    rows, index = case
    rows = rows.put(segment=rows.columns["word_start"])
    taken = take(rows, Ragged.from_rows(index), {"tokens": 59, "segment": 1})
    for name, fill in (("tokens", 59), ("segment", 1)):
        old = lists(rows.columns[name])
        assert lists(taken.columns[name]) == [
            [old[r][i] if i >= 0 else fill for i in places] for r, places in enumerate(index)
        ]
        assert taken.aligned(name)
    assert lists(taken.columns["origin"]) == index
    assert taken.keys is rows.keys


@given(indexed(), st.randoms(use_true_random=False))
def test_take_twice_composes_origin(case, random):
    rows, index = case
    once = take(rows, Ragged.from_rows(index))
    order = [random.sample(range(len(row)), len(row)) for row in index]
    twice = take(once, Ragged.from_rows(order))
    assert lists(twice.columns["origin"]) == [[row[i] for i in o] for row, o in zip(index, order)]
    assert lists(twice.tokens) == [[row[i] for i in o] for row, o in zip(lists(once.tokens), order)]


@st.composite
def starts_and_index(draw):
    """A row's starts, and an index of ascending runs with invented tokens between."""
    starts = draw(st.lists(st.integers(0, 1), min_size=1, max_size=9))
    index = draw(st.lists(st.integers(-1, len(starts) - 1), max_size=9))
    return starts, index


@given(starts_and_index())
def test_starts_follow_the_text(case):
    """Against the rule read off the text: every token stands for the stretch it is the first survivor of."""
    starts, index = case
    rows = batch([[7] * len(starts)], [starts])
    found = lists(take(rows, Ragged.from_rows([index])).columns["word_start"])[0]
    told = 0  # the starts of places below it have passed to a token
    for j, place in enumerate(index):
        kept = next((p for p in index[j:] if p >= 0), len(starts))
        until = place + 1 if place >= 0 else kept
        if place >= 0 and place < told:
            assert found[j] == 1
            told = place + 1
        else:
            assert found[j] == int(any(starts[told:until]))
            told = max(told, until)


def test_starts_of_deleted_replaced_and_rotated_text():
    rows = batch([[5, 6, 7, 8]], [[1, 0, 1, 0]])

    def starts(index):
        return lists(take(rows, Ragged.from_rows([index])).columns["word_start"])[0]

    assert starts([1, 2, 3]) == [1, 1, 0]  # the word goes on without its first token
    assert starts([0, 1, 3]) == [1, 0, 1]
    assert starts([0, 1, -1]) == [1, 0, 1]  # what stands for a word is one
    assert starts([0, -1, 2, 3]) == [1, 0, 1, 0]
    assert starts([3, 0, 1, 2]) == [1, 1, 0, 1]  # rotated


def test_take_fills_with_the_columns_padding():
    rows = batch([[7, 8]])
    rows = rows.put(labels=rows.tokens.with_values(np.array([7, IGNORE], np.int32)))
    taken = take(rows, Ragged.from_rows([[0, -1, 1]]))
    assert lists(taken.columns["labels"]) == [[7, IGNORE, IGNORE]]
    assert lists(taken.columns["word_start"]) == [[1, 0, 1]]
    assert lists(taken.columns["origin"]) == [[0, -1, 1]]


def test_take_leaves_columns_of_other_offsets_alone():
    rows = batch([[7, 8], [9]])
    loose = Ragged.from_rows([[1], [2]])
    taken = take(rows.put(loose=loose), Ragged.from_rows([[1], []]))
    assert taken.columns["loose"] is loose


@pytest.mark.parametrize("index", [[[2], []], [[0], [0]], [[-2], []]])
def test_take_refuses_places_outside_the_row(index):
    with pytest.raises(IndexError, match="outside its row"):
        take(batch([[7, 8], []]), Ragged.from_rows(index))


def test_take_with_tokens_that_are_made_already():
    rows = batch([[7, 8], [9]])
    taken = take(rows, Ragged.from_rows([[1, -1], [-1, 0]]), tokens=np.array([8, 50, 51, 9], np.int32))
    assert lists(taken.tokens) == [[8, 50], [51, 9]] and lists(taken.columns["origin"]) == [[1, -1], [-1, 0]]
    assert all(taken.aligned(name) for name in taken.columns)
    with pytest.raises(ValueError, match="1 tokens for an index of 2"):
        take(rows, Ragged.from_rows([[1], [0]]), tokens=np.array([8], np.int32))


def test_starts_of_a_long_row_in_any_order_take_no_longer_than_its_length():
    """One start in 200,000 tokens: to look for it anew at each token would take minutes."""
    n = 200_000
    rows = batch([[7] * n], [[1] + [0] * (n - 1)])
    order = np.random.default_rng(0).permutation(n).astype(np.int32)
    flags = take(rows, Ragged.from_rows([order])).columns["word_start"].values
    assert flags.sum() == (np.diff(order) < 0).sum() + 1


def test_a_row_without_a_token_can_only_be_filled():
    taken = take(batch([[], [7]]), Ragged.from_rows([[-1, -1], [0]]), {"tokens": 59})
    assert lists(taken.tokens) == [[59, 59], [7]] and lists(taken.columns["word_start"]) == [[0, 0], [1]]


@st.composite
def spanned(draw):
    rows = draw(batches(max_length=12))
    spans = []
    for row in lists(rows.tokens):
        edges = sorted(draw(st.lists(st.integers(0, len(row)), max_size=6)))
        spans.append(
            [
                (a, b, draw(st.lists(st.integers(5, 59), max_size=3)))
                for a, b in zip(edges[::2], edges[1::2], strict=False)
            ]
        )
    return rows, spans


def spliced(rows, spans):
    return splice(
        rows,
        Ragged.from_rows([[a for a, _, _ in row] for row in spans]),
        Ragged.from_rows([[b for _, b, _ in row] for row in spans]),
        np.array([len(new) for row in spans for _, _, new in row], np.int64),
        np.array([t for row in spans for _, _, new in row for t in new], np.int32),
        {"segment": 1},
    )


@given(spanned())
def test_splice_against_a_plain_loop(case):
    rows, spans = case
    expected, starts = [], []
    rows = rows.put(segment=rows.columns["word_start"])
    found = spliced(rows, spans)
    for tokens, flags, row in zip(lists(rows.tokens), lists(rows.columns["segment"]), spans):
        shift = 0
        for a, b, new in row:
            tokens[a + shift : b + shift] = new
            flags[a + shift : b + shift] = [1] * len(new)
            shift += len(new) - (b - a)
        expected.append(tokens)
        starts.append(flags)
    assert lists(found.tokens) == expected
    assert lists(found.columns["segment"]) == starts
    origin_law(rows, found)
    kept = [[i for i in row if i >= 0] for row in lists(found.columns["origin"])]
    assert all(row == sorted(set(row)) for row in kept)


@pytest.mark.parametrize(
    ("starts", "ends", "sizes", "values", "says"),
    [
        ([[0, 1]], [[2, 3]], [0, 0], [], "overlap"),
        ([[2, 0]], [[3, 1]], [0, 0], [], "overlap"),
        ([[2]], [[1]], [0], [], "overlap"),
        ([[1]], [[5]], [0], [], "leave their row"),
        ([[-1]], [[1]], [0], [], "leave their row"),
        ([[0]], [[1]], [2], [9], "add up to 2, for 1"),
        ([[0]], [[1]], [-1], [], "add up to -1"),
        ([[0]], [[1]], [1, 1], [9, 9], "2 sizes"),
    ],
)
def test_splice_refuses_what_would_write_outside(starts, ends, sizes, values, says):
    with pytest.raises(ValueError, match=says):
        splice(
            batch([[5, 6, 7, 8]]),
            Ragged.from_rows(starts),
            Ragged.from_rows(ends),
            np.array(sizes, np.int64),
            np.array(values, np.int32),
        )


@pytest.mark.parametrize("ends", [[[1], []], [[1]], [[], [1]]])
def test_splice_refuses_starts_and_ends_of_other_rows(ends):
    with pytest.raises(ValueError, match="not ragged by the batch's rows"):
        splice(
            batch([[5, 6], [7, 8]]),
            Ragged.from_rows([[0], []] if ends == [[], [1]] else [[], [0]]),
            Ragged.from_rows(ends),
            np.array([0], np.int64),
            np.array([], np.int32),
        )


def test_spans_of_neighbouring_rows_are_independent():
    found = spliced(batch([[5, 6, 7], [8, 9]]), [[(2, 3, [50])], [(0, 1, [51, 52])]])
    assert lists(found.tokens) == [[5, 6, 50], [51, 52, 9]]
    assert lists(found.columns["origin"]) == [[0, 1, -1], [-1, -1, 1]]


def test_inputs_are_left_alone():
    rows = batch([[5, 6, 7]])
    before = rows.tokens.values.copy()
    spliced(rows, [[(0, 2, [50])]])
    assert np.array_equal(rows.tokens.values, before) and "origin" not in rows.columns
