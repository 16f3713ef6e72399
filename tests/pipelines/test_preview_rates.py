from __future__ import annotations

from collections import Counter

import numpy as np

from corruption.noise_kinds import Mask
from corruption.ragged import Batch
from corruption.schema import IGNORE, PATTERNS
from corruption.vocabulary import Vocabulary
from pipelines.preview_rates import count, rates
from tests.pipelines.preview_case import corrupted
from tests.pipelines.small_tokenizers import wordpiece

TOKENIZER = wordpiece("<extra_id_0>")
VOCABULARY = Vocabulary.from_tokenizer(TOKENIZER)
MASK, SENTINEL = TOKENIZER.mask_token_id, TOKENIZER.convert_tokens_to_ids("<extra_id_0>")


def counted(after: Batch) -> Counter[str]:
    """The counts of a batch of one row, beside the passage it came from."""
    before = Batch(after.keys, {"tokens": after.original})
    return count(before, after, VOCABULARY)


def came_to(*after: Batch) -> list[str]:
    counts: Counter[str] = Counter()
    for one in after:
        counts.update(counted(one))
    return [text for _, text in rates([], counts)]


def test_steps_say_what_they_were_asked_for():
    steps = [
        {"kind": "mask", "name": "mask", "rate": 0.15, "unit": "token"},
        {"kind": "mask", "name": "more"},
        {"kind": "infill", "name": "infill", "lengths": {"kind": "poisson", "mean": 3.0}, "most": None},
        {"kind": "views", "name": "views", "first": [], "second": [{"kind": "crop", "name": "crop", "rate": 1 / 3}]},
    ]
    assert [text for name, text in rates(steps, {}) if name == "asked"] == [
        "mask: rate 0.15, unit token",
        "mask (more)",
        "infill: lengths poisson(mean 3)",
        "views: first [], second [crop(rate 0.333333)]",
    ]


def test_labels_and_shares():
    labels = [5, 6, 7, 8, IGNORE]
    after = corrupted([5, 6, 7, 8, 1], [MASK, MASK, 9, 8, 1], labels=labels)
    assert came_to(after) == ["4 of 4 tokens labelled, rate 1.0000, hidden 0.500, random 0.250, kept 0.250"]
    assert came_to(after, after)[0].startswith("8 of 8 tokens")
    assert came_to(corrupted([1], labels=[IGNORE])) == ["0 of 0 tokens labelled, rate 0.0000"]


def test_the_rate_of_labels_is_of_the_input_when_the_passage_was_cut():
    after = corrupted([5, 6, 7, 8], [6, MASK], origin=[1, 2], labels=[IGNORE, 7])
    assert came_to(after) == [
        "1 of 2 tokens labelled, rate 0.5000, hidden 1.000, random 0.000, kept 0.000",
        "2 of 4 tokens taken out, rate 0.5000; 0 put in; 0 stand elsewhere, rate 0.0000",
    ]


def test_edits():
    after = corrupted([5, 6, 7, 8], [8, MASK, SENTINEL, 5], origin=[3, -1, -1, 0], unaligned={"targets": [6, 7, 7]})
    assert came_to(after) == [
        "2 of 4 tokens taken out, rate 0.5000; 2 put in (hidden 1, sentinels 1); 2 stand elsewhere, rate 0.5000",
        "3 tokens to write, 0.7500 of the original",
    ]


def test_tokens_replaced_without_a_label():
    assert came_to(corrupted([5, 6, 7, 8], [5, 9, 7, 9])) == [
        "2 of 4 tokens replaced without a label, rate 0.5000",
        "4 tokens",
    ]


def test_pairs_patterns_and_views():
    follows, foreign = (
        corrupted(
            [5, 6],
            segment=[0, 1],
            numbers={"next_sentence_label": label, "attention_pattern": PATTERNS.index("left_to_right")},
            unaligned={"positive": [5]},
        )
        for label in (0, 1)
    )
    assert came_to(follows, foreign, foreign) == [
        "3 tokens in the other view, 0.5000 of the original",
        "2 of 3 pairs do not follow, 0.667",
        "attention left to right 3 of 3",
    ]


def test_what_is_left_out_counts_nowhere_else():
    out = corrupted([5, 6], labels=[IGNORE] * 2, reason="one_sentence")
    used = corrupted([5, 6], [MASK, 6], labels=[5, IGNORE])
    assert came_to(out, used) == [
        "1 of 2 tokens labelled, rate 0.5000, hidden 1.000, random 0.000, kept 0.000",
        "1 of 2 passages left out: 1 one sentence",
    ]
    assert came_to(out)[0] == "0 of 0 tokens labelled, rate 0.0000"


def test_counts_of_a_chain_are_those_of_its_rows():
    from corruption.chain import Chain
    from corruption.ragged import Ragged

    rows = [list(range(5, 15)) for _ in range(30)]
    before = Batch(np.arange(30, dtype=np.uint64), {"tokens": Ragged.from_rows(rows)})
    after = Chain((Mask(rate=0.3),)).apply(before, seed=0, epoch=0, vocabulary=VOCABULARY)
    found = count(before, after, VOCABULARY)
    assert found["labelled"] == 90 and found["input_choosable"] == 300 and found["rows"] == 30
    assert found["unlabelled"] == found["put_masks"] == 0
