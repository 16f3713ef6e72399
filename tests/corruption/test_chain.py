"""Chains: names, requirements, what is read and provided, and ids that do not belong to the vocabulary."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from corruption.chain import Chain, Noise
from corruption.errors import InputError
from corruption.noise import stream
from corruption.noise_kinds import Mask
from corruption.vocabulary import Vocabulary
from tests.corruption.rows import VOCABULARY, batch, lists


@dataclass(frozen=True)
class Doubler:
    """A corruption that doubles a row's bound, reads one column and provides another; it changes nothing."""

    kind: ClassVar[str] = "doubler"
    provides: ClassVar[tuple[str, ...]] = ("order",)
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()
    reads: str = "tokens"

    def needs(self):
        return ("tokens", self.reads)

    def bounds(self, length):
        return {"tokens": 2 * length, "order": length}

    def check(self, vocabulary, longest):
        if longest is not None and longest > 10:
            raise InputError("test", "too long", "shorten it")
        vocabulary.need("mask", "the test")

    def apply(self, rows, noise, vocabulary):
        return rows.put(order=rows.tokens)


@dataclass(frozen=True)
class Still:
    """A corruption that changes nothing, with what a chain asks of it given by the test."""

    kind: ClassVar[str] = "still"
    provides: tuple[str, ...] = ()
    moves: bool = False
    breaks: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def needs(self):
        return ("tokens", *self.reads)

    def bounds(self, length):
        return {"tokens": length}

    def check(self, vocabulary, longest):
        pass

    def apply(self, rows, noise, vocabulary):
        return rows


def test_names_are_the_kinds_unless_given():
    assert Chain((Mask(), Doubler())).names == ("mask", "doubler")
    assert Chain((Still(), Still()), ("a", "b")).names == ("a", "b")
    with pytest.raises(ValueError, match="a name for each step"):
        Chain((Mask(),), ("a", "b"))


def test_two_steps_of_one_name_are_refused():
    with pytest.raises(InputError) as raised:
        Chain((Mask(), Mask()))
    said = str(raised.value)
    assert said == "corruption step 2: a second step is called 'mask'; add name: to tell them apart"


def test_a_column_that_nothing_provides_is_refused_and_one_that_is_provided_is_not():
    with pytest.raises(InputError, match=r"step 1 \(doubler\): it needs the column 'labels'"):
        Chain((Doubler("labels"), Mask()))
    with pytest.raises(InputError, match="put a step that provides 'order' before it"):
        Chain((Doubler("order"),))
    Chain((Mask(), Doubler("labels")))


def test_a_column_that_two_steps_provide_is_refused():
    with pytest.raises(InputError) as raised:
        Chain((Mask(), Mask(rate=0.3)), ("a", "b"))
    said = "corruption step 2 (b): it provides the column 'labels', as 'a' before it does; keep one of the two"
    assert str(raised.value) == said


@pytest.mark.parametrize("column", ["segment", "permutation_order", "attention_pattern", "positive"])
def test_what_must_stay_is_not_moved(column):
    first = Still(provides=(column,))
    with pytest.raises(InputError, match=r"step 2 \(b\): it comes after 'a', when .*; put it before 'a'"):
        Chain((first, Still(moves=True)), ("a", "b"))
    Chain((Still(moves=True), first), ("a", "b"))
    if column != "positive":
        Chain((first, Still()), ("a", "b"))


def test_a_column_that_an_earlier_step_left_without_meaning_is_refused():
    shuffled, words = Still(breaks=("word_start",)), Mask(unit="word")
    with pytest.raises(InputError, match="'word_start', which 'still' before it leaves without meaning; put it before"):
        Chain((shuffled, words))
    Chain((words, shuffled))


def test_labels_never_ask_for_invented_tokens():
    with pytest.raises(InputError, match="would ask for tokens that 'replace_random' before it has invented; put it"):
        Chain.parse([{"kind": "replace_random"}, {"kind": "mask"}])
    Chain.parse([{"kind": "mask"}, {"kind": "replace_random"}])


def test_foreign_columns_and_moves_are_known_of_a_chain():
    pair = Still(reads=("foreign_tokens", "foreign_sentence_start"))
    pairs = Chain((pair, Mask()))
    with pytest.raises(InputError, match="it pairs the passage with another document's, which no step before"):
        Chain((Still(), pair), ("a", "b"))
    assert pairs.foreign and not pairs.moves
    assert Chain((Still(moves=True),)).moves and not Chain((Still(moves=True),)).foreign


def test_columns_are_those_that_must_be_read():
    assert Chain(()).columns() == ("tokens",)
    assert Chain((Mask(),)).columns() == ("tokens",)
    assert Chain((Mask(unit="word"),)).columns() == ("tokens", "word_start")
    assert Chain((Mask(), Doubler("labels"), Still(reads=("sentence_start",))), ("a", "b", "c")).columns() == (
        "tokens",
        "sentence_start",
    )


def test_provides_bound_and_check_go_through_the_steps():
    chain = Chain((Mask(), Doubler()))
    assert chain.provides() == {"labels", "order"}
    assert chain.bounds(5) == {"original": 5, "tokens": 10, "order": 5}
    chain.check(VOCABULARY)
    chain.check(VOCABULARY, 10)
    with pytest.raises(InputError, match="too long"):
        chain.check(VOCABULARY, 11)
    with pytest.raises(InputError, match="mask_token"):
        chain.check(Vocabulary.from_ids(9, ids={}, special={0}))


def test_parse_of_a_recipe():
    chain = Chain.parse([{"kind": "mask", "name": "more", "unit": "word"}])
    assert chain == Chain((Mask(unit="word"),), ("more",))
    with pytest.raises(InputError, match=r"corruption\[1\] mask.rat: unknown field; did you mean 'rate'"):
        Chain.parse([{"kind": "mask"}, {"kind": "mask", "rat": 0.3}])


def test_noise_of_a_step_is_the_stream_of_seed_name_and_epoch():
    assert int(Noise.of(3, "mask", 2).prefix) == stream(3, "mask", 2)


def test_the_order_of_steps_does_not_enter_their_noise():
    a, b = Still(), Mask(rate=0.3)
    rows = batch([[7] * 50, [8] * 3])
    one = Chain((a, b), ("a", "b")).apply(rows, seed=1, epoch=0, vocabulary=VOCABULARY)
    two = Chain((b, a), ("b", "a")).apply(rows, seed=1, epoch=0, vocabulary=VOCABULARY)
    assert lists(one.tokens) == lists(two.tokens)


def test_a_chain_of_no_step_gives_the_rows_back():
    rows = batch([[7, 8], []])
    assert Chain(()).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY) is rows


@pytest.mark.parametrize(("bad", "named"), [(60, 60), (2**31 - 1, 2**31 - 1), (-1, -1)])
def test_ids_outside_the_vocabulary_are_refused_before_a_kernel_sees_them(bad, named):
    with pytest.raises(InputError, match=f"id {named} is not one of small's 60"):
        Chain((Mask(),)).apply(batch([[7, 8], [9, bad]]), seed=0, epoch=0, vocabulary=VOCABULARY)


def test_a_chain_of_no_rows():
    rows = batch([])
    out = Chain((Mask(unit="word"),)).apply(rows, seed=0, epoch=0, vocabulary=VOCABULARY)
    assert len(out) == 0 and out.columns["labels"].values.dtype == np.int32
