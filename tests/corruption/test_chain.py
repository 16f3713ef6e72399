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
    reads: str = "tokens"

    def needs(self):
        return ("tokens", self.reads)

    def bound(self, length):
        return 2 * length

    def check(self, vocabulary):
        vocabulary.need("mask", "the test")

    def apply(self, rows, noise, vocabulary):
        return rows.put(order=rows.tokens)


def test_names_are_the_kinds_unless_given():
    assert Chain((Mask(), Doubler())).names == ("mask", "doubler")
    assert Chain((Mask(), Mask(rate=0.3)), ("a", "b")).names == ("a", "b")
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


def test_columns_are_those_that_must_be_read():
    assert Chain(()).columns() == ("tokens",)
    assert Chain((Mask(),)).columns() == ("tokens",)
    assert Chain((Mask(unit="word"),)).columns() == ("tokens", "word_start")
    assert Chain((Mask(), Doubler("labels"), Doubler("sentence_start")), ("a", "b", "c")).columns() == (
        "tokens",
        "sentence_start",
    )


def test_provides_bound_and_check_go_through_the_steps():
    chain = Chain((Mask(), Doubler(), Doubler()), ("a", "b", "c"))
    assert chain.provides() == {"labels", "order"} and chain.bound(5) == 20
    chain.check(VOCABULARY)
    with pytest.raises(InputError, match="mask_token"):
        chain.check(Vocabulary.from_ids(9, ids={}, special={0}))


def test_parse_of_a_recipe():
    chain = Chain.parse([{"kind": "mask", "rate": 0.3}, {"kind": "mask", "name": "more", "unit": "word"}])
    assert chain == Chain((Mask(rate=0.3), Mask(unit="word")), ("mask", "more"))
    with pytest.raises(InputError, match=r"corruption\[1\] mask.rat: unknown field; did you mean 'rate'"):
        Chain.parse([{"kind": "mask"}, {"kind": "mask", "rat": 0.3}])


def test_noise_of_a_step_is_the_stream_of_seed_name_and_epoch():
    assert int(Noise.of(3, "mask", 2).prefix) == stream(3, "mask", 2)


def test_the_order_of_steps_does_not_enter_their_noise():
    a, b = Mask(rate=0.2, mask_share=0.0, random_share=0.0), Mask(rate=0.3)
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
