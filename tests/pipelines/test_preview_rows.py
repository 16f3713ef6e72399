"""What a preview shows, read off columns alone: every batch here is made by hand, no corruption is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.frames import FRAMES
from corruption.ragged import Batch
from corruption.schema import IGNORE, PATTERNS, REASONS
from pipelines.preview_rows import (
    FOREIGN_TEXT,
    HIDDEN,
    INSERTED,
    KEPT,
    LABELS,
    MOVED,
    ORDER,
    PLAIN,
    RANDOM,
    REMOVED,
    SPECIAL,
    WAS,
    _moved,
)
from tests.pipelines.preview_case import below, corrupted, ids, pieces, shown
from tests.pipelines.small_tokenizers import byte_level, wordpiece

TOKENIZER = wordpiece("<extra_id_0>", "<extra_id_1>")
SENTENCES = ids(TOKENIZER, "the cat sat . the dog ran . unknown mats .")


def token(text: str) -> int:
    return TOKENIZER.convert_tokens_to_ids(text)


def at(places: dict[int, int], length: int) -> list[int]:
    """Labels: the ids given at their places, IGNORE elsewhere."""
    return [places.get(i, IGNORE) for i in range(length)]


def test_hidden_replaced_and_kept_tokens_with_their_labels():
    original = ids(TOKENIZER, "the cat sat on the mats .")
    now = list(original)
    now[1], now[3] = token("[MASK]"), token("dog")
    after = corrupted(original, now, labels=at({1: original[1], 3: original[3], 5: original[5]}, len(now)))
    row = shown(TOKENIZER, after)
    assert pieces(row, "original") == [("the cat sat on the mats.", PLAIN)]
    assert pieces(row, "corrupted") == [
        ("the", PLAIN),
        ("[MASK]", HIDDEN),
        ("sat", PLAIN),
        ("dog", RANDOM),
        ("the", PLAIN),
        ("mat", KEPT),
        ("##s.", PLAIN),
    ]
    assert below(row, "corrupted", LABELS) == [("[MASK]", "cat"), ("dog", "on"), ("mat", "mat")]
    assert below(row, "corrupted", WAS) == []
    assert row.facts == () and row.title == "document a"


def test_what_was_hidden_or_replaced_without_being_asked_for_is_told():
    original = ids(TOKENIZER, "the cat sat")
    row = shown(TOKENIZER, corrupted(original, [original[0], token("[MASK]"), token("dog")]))
    assert below(row, "corrupted", WAS) == [("[MASK]", "cat"), ("dog", "sat")]


def test_taken_out_and_put_in():
    original = ids(TOKENIZER, "the cat sat on the mat")
    now = [original[0], token("[MASK]"), original[4], token("far"), original[5]]
    row = shown(TOKENIZER, corrupted(original, now, origin=[0, -1, 4, -1, 5]))
    assert pieces(row, "original") == [("the", PLAIN), ("cat sat on", REMOVED), ("the mat", PLAIN)]
    assert pieces(row, "corrupted")[1:4:2] == [("[MASK]", HIDDEN), ("far", INSERTED)]
    assert below(row, "corrupted", WAS) == [("[MASK]", "cat sat on")]


def test_a_stretch_at_either_end_and_one_that_nothing_stands_for():
    original = ids(TOKENIZER, "the cat sat on the mat")
    mask = token("[MASK]")
    row = shown(TOKENIZER, corrupted(original, [mask, original[1], original[3], mask], origin=[-1, 1, 3, -1]))
    assert below(row, "corrupted", WAS) == [("[MASK]", "the"), ("[MASK]", "the mat")]
    assert pieces(row, "original") == [
        ("the", REMOVED), ("cat", PLAIN), ("sat", REMOVED), ("on", PLAIN), ("the mat", REMOVED)
    ]  # fmt: skip


def test_out_of_order_no_one_stretch_is_named():
    row = shown(TOKENIZER, corrupted([5, 6, 7, 8], [7, token("[MASK]"), 5], origin=[2, -1, 0]))
    assert below(row, "corrupted", WAS) == []


def test_sentinels_and_targets():
    original = ids(TOKENIZER, "the cat sat on the mat")
    first, second = token("<extra_id_0>"), token("<extra_id_1>")
    after = corrupted(
        original,
        [original[0], first, original[3], original[4], second],
        origin=[0, -1, 3, 4, -1],
        unaligned={"targets": [first, original[1], original[2], second, original[5]]},
    )
    row = shown(TOKENIZER, after)
    assert pieces(row, "corrupted") == [
        ("the", PLAIN), ("<extra_id_0>", SPECIAL), ("on the", PLAIN), ("<extra_id_1>", SPECIAL)
    ]  # fmt: skip
    assert below(row, "corrupted", WAS) == [("<extra_id_0>", "cat sat"), ("<extra_id_1>", "mat")]
    assert pieces(row, "targets") == [
        ("<extra_id_0>", SPECIAL), ("cat sat", PLAIN), ("<extra_id_1>", SPECIAL), ("mat", PLAIN)
    ]  # fmt: skip


def test_a_decoder_without_targets_writes_the_original():
    frame = FRAMES["encoder_decoder"]()
    row = shown(TOKENIZER, corrupted([5, 6, 7], [5, 7], origin=[0, 2]), frame=frame)
    assert ("targets", "the whole original") in row.facts
    assert ("targets", "the whole original") not in shown(TOKENIZER, corrupted([5, 6], [5], origin=[0])).facts


def test_unknown_words_of_the_text_are_text():
    row = shown(TOKENIZER, corrupted([5, token("[UNK]")], unaligned={"targets": [token("[UNK]")]}))
    assert pieces(row, "targets") == [("[UNK]", PLAIN)] and ("corrupted", "the same text") in row.facts


def test_moved_sentences_and_their_order():
    places = [4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, 12]
    starts = [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    row = shown(TOKENIZER, corrupted(SENTENCES, [SENTENCES[i] for i in places], origin=places), starts)
    assert ("sentences", "1 2 3 -> 2 1 3") in row.facts
    kinds = [kind for _, kind in pieces(row, "corrupted")]
    assert kinds.count(MOVED) == 1 and set(kinds) == {MOVED, PLAIN}
    assert [kind for _, kind in pieces(row, "original")] == [PLAIN]


def test_a_rotation_inside_a_sentence_names_that_sentence_twice():
    places = [6, 7, 8, 9, 10, 11, 12, 0, 1, 2, 3, 4, 5]
    starts = [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    after = corrupted(SENTENCES, [SENTENCES[i] for i in places], origin=places)
    assert ("sentences", "1 2 3 -> 2 3 1 2") in shown(TOKENIZER, after, starts).facts
    assert ("order", "6 of 13 tokens moved") in shown(TOKENIZER, after).facts


def test_tokens_all_over_the_place_are_counted():
    places = [12, 0, 11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6]
    after = corrupted(SENTENCES, [SENTENCES[i] for i in places], origin=places)
    facts = shown(TOKENIZER, after, [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]).facts
    assert facts == (("order", "6 of 13 tokens moved"),)


def test_tokens_moved_inside_their_sentence_are_counted():
    after = corrupted([5, 6, 7, 8], [6, 5, 7, 8], origin=[1, 0, 2, 3])
    assert shown(TOKENIZER, after, [1, 0, 1, 0]).facts == (("order", "1 of 4 tokens moved"),)


def brute(origin: list[int]) -> int:
    """The length of a longest increasing subsequence, in quadratic time."""
    best = [1] * len(origin)
    for i, place in enumerate(origin):
        best[i] = 1 + max([best[j] for j in range(i) if origin[j] < place], default=0)
    return max(best, default=0)


@given(st.lists(st.integers(-1, 12), max_size=14))
def test_the_fewest_tokens_are_called_moved(origin):
    moved = _moved(origin)
    stays = [place for i, place in enumerate(origin) if i not in moved and place >= 0]
    assert stays == sorted(set(stays)) and len(stays) == brute([place for place in origin if place >= 0])
    assert all(origin[i] >= 0 for i in moved)


def test_two_segments_that_follow():
    row = shown(
        TOKENIZER,
        corrupted([5, 6, 7, 8], segment=[0, 0, 1, 1], labels=[IGNORE] * 4, numbers={"next_sentence_label": 0}),
    )
    assert pieces(row, "segment A") == [("the cat", PLAIN)] and pieces(row, "segment B") == [("sat on", PLAIN)]
    assert row.facts == (("labels", "none"), ("pair", "B follows A"))


def test_a_foreign_segment_with_a_masked_token():
    mask = token("[MASK]")
    row = shown(
        TOKENIZER,
        corrupted(
            [5, 6, 7],
            [5, 6, 9, mask, 11, 12],
            origin=[0, 1, -1, -1, -1, -1],
            segment=[0, 0, 1, 1, 1, 1],
            labels=[IGNORE, IGNORE, IGNORE, 10, 12, 12],
            numbers={"next_sentence_label": 1},
        ),
    )
    assert pieces(row, "segment B") == [("mat", FOREIGN_TEXT), ("[MASK]", HIDDEN), ("ran", RANDOM), ("far", KEPT)]
    assert below(row, "segment B", LABELS) == [("[MASK]", "dog"), ("ran", "far"), ("far", "far")]
    assert below(row, "segment B", WAS) == []
    assert pieces(row, "original") == [("the cat", PLAIN), ("sat", REMOVED)]
    assert row.facts == (("pair", "B does not follow A"),)


def test_segments_in_swapped_order_are_moved_not_foreign():
    row = shown(
        TOKENIZER,
        corrupted(
            [5, 6, 7, 8, 9],
            [7, 8, 9, 5, 6],
            origin=[2, 3, 4, 0, 1],
            segment=[0, 0, 0, 1, 1],
            numbers={"next_sentence_label": 1},
        ),
    )
    assert pieces(row, "segment A") == [("sat on mat", PLAIN)] and pieces(row, "segment B") == [("the cat", MOVED)]


def test_one_segment_alone_has_no_second_line():
    row = shown(TOKENIZER, corrupted([5, 6], segment=[0, 0], numbers={"next_sentence_label": IGNORE}))
    assert [line.name for line in row.lines] == ["original", "segment A"] and row.facts == ()


def test_order_of_prediction_and_both_streams():
    order = [-1, 1, -1, 0]
    after = corrupted([5, 6, 7, 8], permutation_order=order, labels=at({1: 6, 3: 8}, 4))
    row = shown(TOKENIZER, after, frame=FRAMES["permutation"]())
    assert below(row, "corrupted", ORDER) == [("the", "-"), ("cat", "1"), ("sat", "-"), ("on", "0")]
    content, query = row.matrices
    assert (content.name, query.name) == ("content stream", "query stream")
    assert content.tokens == ("the", "cat", "sat", "on", "[SEP]", "[CLS]") and content.total == 6
    assert content.sees.astype(int).tolist() == [
        [1, 0, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 0, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1],
    ]
    assert not query.sees[1, 1] and (query.sees | np.eye(6, dtype=bool) == content.sees).all()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_attention_pattern_over_the_framed_pair(pattern):
    after = corrupted(
        [5, 6, 7],
        segment=[0, 0, 1],
        labels=[IGNORE] * 3,
        numbers={"attention_pattern": PATTERNS.index(pattern)},
    )
    frame = FRAMES["pair"](("input_ids", "token_type_ids", "labels", "attention_pattern"))
    row = shown(TOKENIZER, after, frame=frame)
    (matrix,) = row.matrices
    assert matrix.tokens == ("[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]")
    assert ("attention", pattern.replace("_", " ")) in row.facts
    seen = {
        "bidirectional": [63] * 6,
        "left_to_right": [1, 3, 7, 15, 31, 63],
        "right_to_left": [63, 62, 60, 56, 48, 32],
        "sequence_to_sequence": [15, 15, 15, 15, 31, 63],
    }[pattern]
    assert (matrix.sees @ (1 << np.arange(6))).tolist() == seen


def test_the_other_view():
    row = shown(TOKENIZER, corrupted([5, 6, 7], unaligned={"positive": [5, token("[MASK]"), 7]}))
    assert pieces(row, "positive") == [("the", PLAIN), ("[MASK]", HIDDEN), ("sat", PLAIN)]
    same = shown(TOKENIZER, corrupted([5, 6, 7], unaligned={"positive": [5, 6, 7]}))
    assert same.facts == (("corrupted", "the same text"), ("positive", "the same text"))


@pytest.mark.parametrize("reason", REASONS)
def test_a_passage_that_cannot_be_used_says_why(reason):
    row = shown(TOKENIZER, corrupted([5, 6], labels=[IGNORE] * 2, reason=reason))
    assert [line.name for line in row.lines] == ["original"] and not row.matrices
    assert row.facts == (("dropped", f"{reason.replace('_', ' ')}: training leaves this passage out, and counts it"),)


def test_a_column_from_elsewhere_is_listed():
    after = corrupted([5, 6, 7], difficulty=[3, 1, 2], numbers={"weight": 4})
    assert shown(TOKENIZER, after).facts[-2:] == (("difficulty", "3 1 2"), ("weight", "4"))
    long = corrupted([5] * 30, difficulty=[1] * 30)
    assert shown(TOKENIZER, long).facts[-1] == ("difficulty", " ".join(["1"] * 24) + " ... (30 in all)")


def test_only_titled_rows_are_shown_and_each_has_its_place():
    from corruption.vocabulary import Vocabulary
    from pipelines.preview_rows import rows
    from pipelines.preview_spelling import Spelling

    both = Batch.take(corrupted([5, 6], labels=[5, IGNORE]), np.array([0, 0]))
    found = rows(both, Vocabulary.from_tokenizer(TOKENIZER), Spelling(TOKENIZER), titles=["a"], places=["lane 0", "x"])
    assert [(row.title, row.place) for row in found] == [("a", "lane 0")]


def test_characters_torn_over_several_labels_are_whole():
    tokenizer = byte_level(mask_token="<mask>", pad_token="<pad>")
    original = ids(tokenizer, "a é c")
    places = {i: original[i] for i in (1, 2, 3)}
    now = [tokenizer.mask_token_id if i in places else t for i, t in enumerate(original)]
    row = shown(tokenizer, corrupted(original, now, labels=at(places, len(original))))
    assert below(row, "corrupted", LABELS) == [("<mask>", "␣"), ("<mask><mask>", "é")]
    assert pieces(row, "original") == [("a é c", PLAIN)]


@given(st.data())
def test_the_original_can_be_read_back_from_what_is_shown(data):
    """Kept pieces, labels and what was there, in order, are the original: nothing shown is wrong or missing."""
    n = data.draw(st.integers(1, 12))
    original = data.draw(st.lists(st.integers(5, 17), min_size=n, max_size=n))
    chosen = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    stand = [data.draw(st.sampled_from([token("[MASK]"), t, 5, 6])) if c else t for t, c in zip(original, chosen)]
    labels = [t if c else IGNORE for t, c in zip(original, chosen)]
    row = shown(TOKENIZER, corrupted(original, stand, labels=labels))
    if ("corrupted", "the same text") in row.facts:
        return
    (line,) = [line for line in row.lines if line.name == "corrupted"]
    words = [piece.under.get(LABELS, piece.text) for piece in line.pieces]
    read, wanted = (
        text.replace(" ", "").replace("##", "") for text in ("".join(words), pieces(row, "original")[0][0])
    )
    assert read == wanted
