from __future__ import annotations

import numpy as np

from corruption.frames import FRAMES
from corruption.schema import PATTERNS
from corruption.vocabulary import Vocabulary
from pipelines.preview_matrix import MOST, matrices_of
from pipelines.preview_spelling import Spelling
from tests.pipelines.preview_case import corrupted
from tests.pipelines.small_tokenizers import wordpiece

TOKENIZER = wordpiece()
VOCABULARY, SPELLING = Vocabulary.from_tokenizer(TOKENIZER), Spelling(TOKENIZER)


def test_nothing_is_made_where_no_column_asks_for_it():
    frame = FRAMES["single"](("input_ids",))
    assert matrices_of(corrupted([5, 6]), frame, VOCABULARY, SPELLING) == {}


def test_a_row_that_cannot_be_used_has_none():
    after = corrupted([5, 6], permutation_order=[-1, -1], reason="too_short")
    assert matrices_of(after, None, VOCABULARY, SPELLING) == {}


def test_without_a_frame_the_content_alone_is_drawn():
    pattern = PATTERNS.index("sequence_to_sequence")
    after = corrupted([5, 6, 7], segment=[0, 0, 1], numbers={"attention_pattern": pattern})
    (matrix,) = matrices_of(after, None, VOCABULARY, SPELLING)[0]
    assert matrix.tokens == ("the", "cat", "sat")
    assert matrix.sees.astype(int).tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    streams = matrices_of(corrupted([5, 6], permutation_order=[-1, 0]), None, VOCABULARY, SPELLING)[0]
    assert [matrix.sees.astype(int).tolist() for matrix in streams] == [[[1, 0], [1, 1]], [[1, 0], [1, 0]]]


def test_only_the_first_tokens_are_looked_at_and_see_the_same():
    order = np.random.default_rng(0).permutation(200) - 100
    order = np.where(order < 0, -1, order)
    (whole, _), cut = (
        matrices_of(corrupted([5] * n, permutation_order=order[:n]), None, VOCABULARY, SPELLING)[0] for n in (200, 50)
    )
    assert whole.sees.shape == (MOST, MOST) and whole.total == 200 and len(whole.tokens) == MOST
    assert (whole.sees[:50, :50] == cut[0].sees).all()
    small = whole.crop(3)
    assert small.sees.shape == (3, 3) and len(small.tokens) == 3 and small.total == 200
