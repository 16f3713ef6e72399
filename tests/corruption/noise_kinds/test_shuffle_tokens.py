"""The laws of token shuffling: C8."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise import draw, stream, unit
from corruption.noise_kinds import Mask, ShuffleSentences, ShuffleTokens
from corruption.registry import parse_step
from tests.corruption import golden_values
from tests.corruption.noise_kinds.masking import words
from tests.corruption.noise_kinds.moving import columns_follow, moved, origins
from tests.corruption.rows import VOCABULARY, batch, batches, lists

SHUFFLES = st.sampled_from(
    [
        ShuffleTokens(scope, window, unit_of)
        for scope, window in (
            ("global", None), ("local", None), ("local", 1.5), ("local", 6.0), ("local", 13.0), ("local", 500.0),
        )
        for unit_of in ("token", "word")
    ]
)  # fmt: skip


def row_of(n, rows=1):
    return batch([[5 + i % 50 for i in range(n)]] * rows)


@given(batches(), SHUFFLES, st.integers(0, 2**63), st.integers(0, 50))
def test_C8_a_permutation(rows, step, seed, epoch):
    for tokens, found, origin in moved(step, rows, seed, epoch):
        assert sorted(origin) == list(range(len(tokens)))
        assert found == [tokens[i] for i in origin]


@given(batches(), SHUFFLES, st.integers(0, 2**63))
def test_C8_words_move_whole(rows, step, seed):
    if step.unit == "word":
        starts = lists(rows.columns["word_start"])
        for (tokens, _, origin), flags in zip(moved(step, rows, seed), starts):
            blocks = {word[0]: list(word) for word in words(tokens, flags)}
            left = list(origin)
            while left:
                word = blocks.pop(left[0])
                assert left[: len(word)] == word
                left = left[len(word) :]
            assert not blocks


@given(batches(max_length=60), SHUFFLES, st.integers(0, 2**63))
def test_C8_in_the_local_scope_nothing_moves_as_far_as_the_window(rows, step, seed):
    if step.scope == "local":
        starts = lists(rows.columns["word_start"])
        for (tokens, _, origin), flags in zip(moved(step, rows, seed), starts):
            if step.unit == "word":
                number = {word[0]: w for w, word in enumerate(words(tokens, flags))}
                origin = [number[i] for i in origin if i in number]
            assert all(abs(new - old) < step.window for new, old in enumerate(origin))


@pytest.mark.parametrize("window", [1.0, 1.5, 2.0, 3.0, 7.9, 12.0, 12.5, 40.0, 1000.0])
def test_C8_the_local_order_is_the_stable_sort_of_place_plus_noise(window):
    """Against NumPy's sort of the same keys, in rows whose ways of sorting differ."""
    for n in (0, 1, 2, 3, 17, 400):
        start = np.uint64(stream(9, "shuffle_tokens", 0, 1, 0))
        with np.errstate(over="ignore"):
            keys = [i + window * unit(np.uint64(draw(start, np.uint64(i)))) for i in range(n)]
        expected = tuple(np.argsort(np.array(keys), kind="stable").tolist())
        assert origins(ShuffleTokens("local", window), row_of(n), seed=9) == [expected]


@pytest.mark.parametrize("unit_of", ["token", "word"])
def test_C8_a_window_of_one_changes_nothing(unit_of):
    assert origins(ShuffleTokens("local", 1.0, unit_of), row_of(300)) == [tuple(range(300))]


@pytest.mark.parametrize("unit_of", ["token", "word"])
@pytest.mark.parametrize("n", [3, 4])
def test_C8_every_global_order_is_equally_likely(unit_of, n):
    counts = Counter(origins(ShuffleTokens(unit=unit_of), row_of(n, 12_000), seed=n))
    assert set(counts) == set(permutations(range(n)))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_C8_local_exchanges_come_as_often_as_the_keys_say():
    """Neighbours i, i + 1 change sides if U - U' > 1/3: in (2/3)^2 / 2 of all cases; at distance 2 in (1/3)^2 / 2."""
    found = np.array(origins(ShuffleTokens("local"), row_of(60, 3000), seed=2))
    place = np.argsort(found, axis=1)
    for distance, share in ((1, 2 / 9), (2, 1 / 18)):
        # Pairs that share no token are independent of each other.
        a = place[:, 0:57:3]
        b = place[:, distance : 57 + distance : 3]
        assert stats.binomtest(int((a > b).sum()), a.size, share).pvalue > 1e-3
    assert (place[:, 0] > place[:, 3]).sum() == 0


def test_C8_the_first_token_moves_too():
    assert len({origin[0] for origin in origins(ShuffleTokens("local"), row_of(9, 200))}) == 3


@given(batches(), SHUFFLES, st.integers(0, 2**63))
def test_C8_words_of_one_token_equal_tokens(rows, step, seed):
    rows = rows.put(word_start=rows.tokens.with_values(np.ones_like(rows.tokens.values)))
    both = [moved(ShuffleTokens(step.scope, step.window, unit_of), rows, seed) for unit_of in ("token", "word")]
    assert both[0] == both[1]


@given(batches(), SHUFFLES, st.integers(0, 2**63))
def test_aligned_columns_follow(rows, step, seed):
    columns_follow(step, rows, seed)


def test_steps_that_need_what_it_breaks_are_refused_after_it():
    with pytest.raises(InputError, match=r"'sentence_start', which 'shuffle_tokens' before it leaves without meaning"):
        Chain((ShuffleTokens(unit="word"), ShuffleSentences()))
    with pytest.raises(InputError, match=r"'word_start', which 'shuffle_tokens' before it leaves without meaning"):
        Chain((ShuffleTokens(), Mask(unit="word")))
    Chain((ShuffleTokens(unit="word"), Mask(unit="word")))


def test_A_09_every_combination_works_or_is_refused_by_name():
    for scope in ("global", "local"):
        for window in (None, 1, 3, 2.5):
            for unit_of in ("token", "word"):
                fields = {"kind": "shuffle_tokens", "scope": scope, "window": window, "unit": unit_of}
                if scope == "global" and window is not None:
                    with pytest.raises(InputError, match=r"shuffle_tokens\.window: .* does nothing with scope: global"):
                        parse_step(fields)
                else:
                    moved(parse_step(fields), row_of(20))


@pytest.mark.parametrize("window", [0.5, -3.0, 0.0, float("nan"), float("inf")])
def test_windows_out_of_range_are_refused(window):
    with pytest.raises(InputError, match=r"shuffle_tokens\.window: .* is not from 1 to 1e9; give a number of places"):
        ShuffleTokens("local", window)


def test_what_it_asks_for():
    assert ShuffleTokens("local").window == 3.0 and ShuffleTokens().window is None
    assert ShuffleTokens().needs() == ("tokens",) and ShuffleTokens(unit="word").needs() == ("tokens", "word_start")
    assert ShuffleTokens().bounds(17) == {"tokens": 17}
    assert ShuffleTokens().breaks == ("word_start", "sentence_start")
    ShuffleTokens().check(VOCABULARY)


def test_golden_bytes():
    kept = json.loads((golden_values.FOLDER / "shuffle_tokens.json").read_text("utf-8"))
    assert kept.pop("when") == golden_values.WHEN
    assert golden_values.shuffle_tokens() == kept
