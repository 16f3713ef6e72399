"""What every registered corruption owes: a new one is tested here by being registered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from corruption.chain import Chain
from corruption.noise import rank_bits
from corruption.ragged import Batch, Ragged
from corruption.schema import FOREIGN, IGNORE
from tests.corruption import block
from tests.corruption.rows import RICH, SPECIAL, digest, lists, paired, passages, random_rows

CASES = block.cases()
NAMES = sorted(CASES)
ROOT = Path(__file__).parents[2]


def elsewhere(**environment: str) -> dict[str, str]:
    """The block's digests as another process computes them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.corruption.block"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def here():
    return block.digests()


def table(n=40, longest=30):
    rows, starts = random_rows(n, longest, seed=12)
    return paired(passages(rows, starts, range(100, 100 + n)))


def apply(step, rows: pa.Table, names=(), **change) -> Batch:
    chain = Chain((step,), names)
    batch = Batch.from_arrow(rows, chain.columns())
    return chain.apply(batch, **{"seed": 3, "epoch": 1, "vocabulary": RICH, **change})


@dataclass(frozen=True)
class Idle:
    """A step that draws for every token and changes nothing."""

    kind: ClassVar[str] = "idle"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    def needs(self):
        return ("tokens",)

    def bounds(self, length):
        return {"tokens": length}

    def check(self, vocabulary, longest):
        pass

    def apply(self, rows, noise, vocabulary):
        rank_bits(int(noise.prefix), rows.keys)
        return rows


def test_every_kind_has_a_case():
    from corruption.registry import kinds

    assert {step.kind for step in CASES.values()} == set(kinds())


def test_compiled_code_and_plain_python_give_the_same_bits(here):
    assert elsewhere(NUMBA_DISABLE_JIT="1") == here


def test_B27_the_same_block_gives_the_same_noise_in_any_process(here):
    assert elsewhere(PYTHONHASHSEED="1") == elsewhere(PYTHONHASHSEED="2") == here


@pytest.mark.parametrize("name", NAMES)
def test_the_input_is_left_alone_and_the_output_is_read_only(name):
    chain = Chain((CASES[name],))
    rows = block.block(chain)
    before = digest(rows)
    out = chain.apply(rows, seed=0, epoch=0, vocabulary=RICH)
    assert digest(rows) == before
    for column in out.columns.values():
        assert not column.values.flags.writeable and not column.offsets.flags.writeable
        assert column.values.dtype == np.int32 and column.offsets.dtype == np.int64
    assert out.keys is rows.keys and set(CASES[name].provides) <= set(out.columns)


@pytest.mark.parametrize("name", NAMES)
def test_noise_is_the_rows_own_in_any_batch_and_order(name):
    rows = table()
    whole = apply(CASES[name], rows)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = apply(CASES[name], rows.take(order))
    alone = [apply(CASES[name], rows.slice(i, 1)) for i in range(len(rows))]
    for column in whole.columns:
        expected = lists(whole.columns[column])
        assert lists(shuffled.columns[column]) == [expected[i] for i in order]
        assert [lists(one.columns[column])[0] for one in alone] == expected


@pytest.mark.parametrize("name", NAMES)
def test_epoch_seed_key_copy_and_name_each_change_the_noise(name):
    rows = table()
    other_keys = rows.set_column(0, "key", pa.array(range(900, 900 + len(rows)), pa.uint64()))
    chain = Chain((CASES[name],))
    batch = Batch.from_arrow(rows, chain.columns())
    copies = Batch(batch.keys, batch.columns, np.ones(len(batch), np.uint64))
    found = [
        apply(CASES[name], rows),
        apply(CASES[name], rows, epoch=2),
        apply(CASES[name], rows, seed=4),
        apply(CASES[name], rows, names=("other",)),
        apply(CASES[name], other_keys),
        chain.apply(copies, seed=3, epoch=1, vocabulary=RICH),
    ]
    if name in block.NOISELESS:
        found = found[:1]
    bytes_of = [b"".join(out.columns[c].values.tobytes() for c in sorted(out.columns)) for out in found]
    assert len(set(bytes_of)) == len(found)
    assert digest(apply(CASES[name], rows)) == digest(found[0])


@pytest.mark.parametrize("name", NAMES)
def test_another_step_leaves_this_ones_noise_unchanged(name):
    """The other step changes nothing, so only its randomness could reach this one."""
    step, harmless = CASES[name], Idle()
    rows = table()
    alone = apply(step, rows)
    first = FOREIGN[0] in step.needs()  # such a step must come first
    before = Chain((step,)) if first else Chain((harmless, step), ("harmless", step.kind))
    out = before.apply(Batch.from_arrow(rows, before.columns()), seed=3, epoch=1, vocabulary=RICH)
    for column in {"tokens", *step.provides}:
        assert lists(out.columns[column]) == lists(alone.columns[column])
    if "positive" in step.provides:
        return
    after = Chain((step, harmless), (step.kind, "harmless"))
    out = after.apply(Batch.from_arrow(rows, after.columns()), seed=3, epoch=1, vocabulary=RICH)
    assert lists(out.tokens) == lists(alone.tokens)


@pytest.mark.parametrize("name", NAMES)
def test_origin_laws(name):
    """Tokens that were kept are the passage's at their origin; a label is the passage's token there."""
    rows = table()
    original = lists(Ragged.from_arrow(rows["tokens"]))
    out = apply(CASES[name], rows)
    labels = lists(out.columns["labels"]) if "labels" in out.columns and out.aligned("labels") else None
    for r, (tokens, origin) in enumerate(zip(lists(out.tokens), lists(out.origin()))):
        asked = labels[r] if labels is not None else [IGNORE] * len(tokens)
        for token, place, label in zip(tokens, origin, asked):
            assert -1 <= place < len(original[r])
            if place >= 0 and label == IGNORE:
                assert token == original[r][place]
            if label != IGNORE:
                assert place >= 0 and label == original[r][place]


@pytest.mark.parametrize("name", NAMES)
def test_lengths_stay_within_the_declared_bound(name):
    rows = table()
    out = apply(CASES[name], rows)
    stored = Ragged.from_arrow(rows["tokens"]).lengths
    for n, passage in enumerate(stored):
        for column, most in CASES[name].bounds(int(passage)).items():
            assert out.columns[column].lengths[n] <= most, column


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", [[], [7], [2, 3, 0], [7, 8], [5 + i % 50 for i in range(8192)]], ids=len)
def test_edge_rows_alone_and_among_others(name, row):
    one = np.array(row, np.int32)
    starts = (np.arange(len(row)) % 3 == 0).astype(np.int32)
    alone = apply(CASES[name], paired(passages([one], [starts], [1])))
    assert len(alone) == 1
    if not CASES[name].moves and all(token in SPECIAL for token in row):
        assert lists(alone.tokens) == [row]
    other = np.array([9, 9], np.int32)
    ones = np.ones(2, np.int32)
    pair = paired(passages([one], [starts], [1]))
    others = paired(passages([other, other], [ones, ones], [2, 3]))
    among = apply(CASES[name], pa.concat_tables([others.slice(0, 1), pair, others.slice(1)]))
    for column in alone.columns:
        assert lists(among.columns[column])[1] == lists(alone.columns[column])[0]


@pytest.mark.parametrize("name", NAMES)
def test_an_unusable_row_is_left_as_it_is(name):
    rows = table()
    before, out = Batch.from_arrow(rows, Chain((CASES[name],)).columns()), apply(CASES[name], rows)
    for r in np.flatnonzero(~out.usable):
        assert lists(out.tokens)[r] == lists(before.tokens)[r]
    assert out.usable.any()


@pytest.mark.parametrize("name", NAMES)
def test_the_original_stays_what_it_was(name):
    rows = table()
    assert lists(apply(CASES[name], rows).original) == lists(Ragged.from_arrow(rows["tokens"]))


@pytest.mark.parametrize("name", NAMES)
def test_no_row_at_all(name):
    out = apply(CASES[name], table().slice(0, 0))
    assert len(out) == 0 and all(len(column) == 0 for column in out.columns.values())


@pytest.mark.parametrize("name", NAMES)
def test_arrow_in_and_out_sliced_and_chunked(name):
    rows = table()
    expected = apply(CASES[name], rows)
    middle = rows.slice(5, 20)
    chunked = pa.concat_tables([middle.slice(0, 1), middle.slice(1, 11), middle.slice(12)])
    out = apply(CASES[name], chunked)
    for column in out.columns:
        arrow = out.columns[column].to_arrow()
        arrow.validate(full=True)
        assert arrow.type == pa.list_(pa.int32())
        assert arrow.to_pylist() == lists(expected.columns[column])[5:25]
