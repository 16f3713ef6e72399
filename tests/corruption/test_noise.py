"""The generator: published vectors, golden vectors, one definition for compiled and plain code, and its
statistics.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import stats

from corruption import noise
from corruption.noise import below, draw, fold, mix, rank_bits, stream, unit
from tests.corruption import golden_values

U64 = st.integers(0, 2**64 - 1)


@njit
def _draws(start, n):
    out = np.empty(n, np.uint64)
    for i in range(n):
        out[i] = draw(start, np.uint64(i))
    return out


@njit
def _fold(start, part):
    return fold(start, part)


@njit
def _mix(z):
    return mix(z)


@njit
def _unit_below(bits, n):
    return unit(bits), below(bits, n)


def test_published_splitmix64_sequence():
    """Draws of stream s are the outputs of the published generator seeded with s."""
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert _draws(np.uint64(1234567), 5).tolist() == published


def test_golden_vectors():
    kept = json.loads((golden_values.FOLDER / "noise.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.noise() == kept


@given(U64, U64)
def test_compiled_mix_and_fold_are_the_plain_integers(start, part):
    assert int(_mix(np.uint64(start))) == noise._mix(start)
    expected = noise._mix(start ^ noise._mix((part + int(noise.GAMMA)) % 2**64))
    assert int(_fold(np.uint64(start), np.uint64(part))) == expected


@given(U64, st.integers(1, 2**32 - 1))
def test_unit_and_below_stay_in_range_and_use_the_top_bits(bits, n):
    u, i = _unit_below(np.uint64(bits), np.uint64(n))
    assert u == (bits >> 11) / 2**53 and 0.0 <= u < 1.0
    assert int(i) == ((bits >> 32) * n) >> 32 and 0 <= int(i) < n


@pytest.mark.parametrize(
    "changed",
    [
        (1, "mask", 0, 5, 0),
        (0, "mask2", 0, 5, 0),
        (0, "mask", 1, 5, 0),
        (0, "mask", 0, 6, 0),
        (0, "mask", 0, 5, 1),
    ],
)
def test_every_part_of_a_stream_changes_about_half_of_its_bits(changed):
    a, b = stream(0, "mask", 0, 5, 0), stream(*changed)
    assert 12 <= (a ^ b).bit_count() <= 52


def test_negative_and_huge_seeds_are_taken_modulo_two_to_the_64():
    assert stream(-1, 3) == stream(2**64 - 1, 3) == stream(2**64 * 5 - 1, 3)


def test_hash64_of_text_with_a_lone_surrogate_is_defined():
    assert 0 <= noise.hash64("a\ud800b") < 2**64


def test_example_keys_of_equal_documents_differ_by_number_and_of_documents_by_name():
    keys = {noise.example_key(f"doc{d}", n) for d in range(300) for n in range(300)}
    assert len(keys) == 90_000


@given(U64, st.lists(U64, max_size=20))
def test_rank_bits_depend_on_the_part_alone(prefix, parts):
    found = rank_bits(prefix, np.array(parts, np.uint64))
    expected = [
        _draws(np.uint64(stream_of), 1)[0] for stream_of in (_fold(np.uint64(prefix), np.uint64(p)) for p in parts)
    ]
    assert found.tolist() == [int(e) for e in expected]


def test_draws_are_uniform_in_every_byte_and_uncorrelated_over_streams():
    prefix = stream(3, "mask", 0)
    bits = rank_bits(prefix, np.arange(200_000, dtype=np.uint64))
    for shift in range(0, 64, 8):
        counts = np.bincount(((bits >> np.uint64(shift)) & np.uint64(255)).astype(np.int64), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
    u = (bits >> np.uint64(11)).astype(np.float64) / 2**53
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 4 / np.sqrt(len(u))
    assert stats.kstest(u, "uniform").pvalue > 1e-6


def test_rows_without_a_key_get_one_from_their_own_tokens():
    values = np.array([1, 2, 3, 1, 2, 3, 4], np.int32)
    keys = noise.keys_of_rows(values, np.array([0, 3, 6, 7, 7]))
    assert keys[0] == keys[1] and len(set(keys.tolist())) == 3
    assert noise.keys_of_rows(values[3:6], np.array([0, 3]))[0] == keys[0]
