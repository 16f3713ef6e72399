"""Verify on data sets that others made: every fault that is planted is named, clean sets pass, claims are checked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corruption.noise_kinds import Mask
from corruption.schema import IGNORE
from tests.pipelines.small_run import small_recipe, write_corpus
from tests.pipelines.trained import trained
from tests.pipelines.verified import Rows, laws, masked, said, vocabulary, written

BERT = {"rate": 0.15, "count": "exact", "mask_share": 0.8, "random_share": 0.1}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    trained("wordpiece").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def clean() -> tuple[Rows, ...]:
    """Two parts of 800 rows. Share them, alter copies only."""
    return masked(seed=0), masked(seed=1)


def spoiled(rows: Rows, row: int, **cells: tuple[int, int]) -> Rows:
    """A copy with one number of one row changed: column=(position, number)."""
    other = {name: [list(values) for values in column] for name, column in rows.items()}
    for name, (position, number) in cells.items():
        other[name][row][position] = number
    return other


def place(rows: Rows, row: int, *, labelled: bool) -> int:
    """A position of text in a row, with a label or without."""
    text = range(1, rows["attention_mask"][row].index(0) - 1 if 0 in rows["attention_mask"][row] else 60)
    return next(p for p in text if (rows["labels"][row][p] != IGNORE) == labelled)


def test_a_clean_set_is_clean_with_all_claims(clean, tokenizer: Path, tmp_path: Path) -> None:
    code, text = said(written(tmp_path / "set", *clean), **BERT, tokenizer=tokenizer)
    assert code == 0, text
    assert {"labels", "padding", "special tokens", "random tokens", "rate", "shares"} <= laws(text, "ok")
    assert "noise not repeated" in laws(text, "ok") and laws(text, "not checked") == {"whole words"}
    assert re.search(r"realised: [\d,]+ of [\d,]+ tokens have a label, rate 0\.1[45]\d+; hidden 0\.[78]", text)


def test_a_clean_set_is_clean_without_any_claim(clean, tmp_path: Path) -> None:
    code, text = said(written(tmp_path / "set", *clean))
    assert code == 0, text
    assert laws(text, "not checked") == {"special tokens", "random tokens", "rate", "shares", "whole words"}
    assert "(what is special is guessed)" in text


@pytest.mark.parametrize("count", ["exact", "bernoulli", "stochastic"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_clean_sets_of_every_count(tokenizer: Path, tmp_path: Path, unit: str, count: str) -> None:
    parts = [masked(seed=seed, step=Mask(unit=unit, count=count)) for seed in (5, 6)]
    claims = {"rate": 0.15, "count": count, "unit": unit, "tokenizer": tokenizer}
    if unit == "token":
        claims |= {"mask_share": 0.8, "random_share": 0.1}
    code, text = said(written(tmp_path / "set", *parts), **claims)
    assert code == 0 and "rate" in laws(text, "ok"), text


# faults


@pytest.mark.parametrize("with_mask", [True, False])
def test_padding_masked(clean, tokenizer: Path, tmp_path: Path, with_mask: bool) -> None:
    known = vocabulary()
    row = next(row for row in range(100, 800) if clean[0]["attention_mask"][row][-1] == 0)
    bad = spoiled(clean[0], row, input_ids=(63, known.mask), labels=(63, known.pad))
    if not with_mask:
        del bad["attention_mask"]
    code, text = said(written(tmp_path / "set", bad), tokenizer=tokenizer)
    assert code == 1 and f"BREACH       padding: part-0.parquet, row {row}, position 63" in text


@pytest.mark.parametrize("role", ["cls", "sep"])
def test_a_special_token_masked(clean, tokenizer: Path, tmp_path: Path, role: str) -> None:
    known = vocabulary()
    number = getattr(known, role)
    position = clean[0]["input_ids"][7].index(number)
    bad = spoiled(clean[0], 7, input_ids=(position, known.mask), labels=(position, number))
    code, text = said(written(tmp_path / "set", bad), tokenizer=tokenizer)
    assert code == 1 and f"special tokens: part-0.parquet, row 7, position {position}: a special token is" in text


def test_special_ids_as_random_tokens(clean, tokenizer: Path, tmp_path: Path) -> None:
    bad = spoiled(clean[0], 3, input_ids=(place(clean[0], 3, labelled=True), vocabulary().sep))
    code, text = said(written(tmp_path / "set", bad), tokenizer=tokenizer)
    assert code == 1 and "random tokens" in laws(text, "BREACH")


@pytest.mark.parametrize("rate", [0.135, 0.165])
@pytest.mark.parametrize(("count", "rows", "width"), [("exact", 300, 64), ("bernoulli", 3000, 64), (None, 600, 512)])
def test_rate_off_by_10_percent(
    tokenizer: Path, tmp_path: Path, rate: float, count: str | None, rows: int, width: int
) -> None:
    """An exact count shows in any row of 50 tokens; coins in 100,000 tokens; a count that is not known in 150,000, in
    rows so long that rounding makes no difference."""
    made = masked(rows, width, step=Mask(rate=rate, count=count or "bernoulli"))
    code, text = said(written(tmp_path / "set", made), rate=0.15, count=count, tokenizer=tokenizer)
    assert code == 1 and laws(text, "BREACH") == {"rate"}


def test_keep_share_missing(tokenizer: Path, tmp_path: Path) -> None:
    """1,000 labels are enough."""
    made = masked(200, step=Mask(mask_share=0.9))
    code, text = said(written(tmp_path / "set", made), **BERT, tokenizer=tokenizer)
    assert code == 1 and laws(text, "BREACH") == {"shares"} and "kept: 0 of" in text


@pytest.mark.parametrize("claims", [{}, BERT])
def test_labels_shifted_by_one(clean, tokenizer: Path, tmp_path: Path, claims: dict) -> None:
    bad = {**clean[0], "labels": [[IGNORE, *labels[:-1]] for labels in clean[0]["labels"]]}
    code, text = said(written(tmp_path / "set", bad), **claims, tokenizer=tokenizer)
    assert code == 1 and "untouched" in laws(text, "BREACH")
    assert not claims or "shares" in laws(text, "BREACH")


def test_a_label_at_an_untouched_position(clean, tokenizer: Path, tmp_path: Path) -> None:
    """One more label than an exact count allows, in one row of 800."""
    position = place(clean[0], 9, labelled=False)
    bad = spoiled(clean[0], 9, labels=(position, clean[0]["input_ids"][9][position]))
    code, text = said(written(tmp_path / "set", bad), **BERT, tokenizer=tokenizer)
    assert code == 1 and "rate: part-0.parquet, row 9" in text and laws(text, "BREACH") == {"rate"}


def test_labels_at_untouched_positions_of_a_set_of_coins(tokenizer: Path, tmp_path: Path) -> None:
    """Where every row may have any count, they show in what is kept: one token in a hundred is enough."""
    made = masked(2000, step=Mask(count="bernoulli"))
    random = np.random.default_rng(0)
    for ids, labels, seen in zip(made["input_ids"], made["labels"], made["attention_mask"]):
        for p in range(1, sum(seen) - 1):
            if labels[p] == IGNORE and random.random() < 0.01 and ids[p] != vocabulary().unk:
                labels[p] = ids[p]
    claims = {**BERT, "count": "bernoulli"}
    code, text = said(written(tmp_path / "set", made), **claims, tokenizer=tokenizer)
    assert code == 1 and "shares" in laws(text, "BREACH")


def test_labels_that_are_the_input_everywhere(clean, tmp_path: Path) -> None:
    bad = {**clean[0], "labels": clean[0]["input_ids"]}
    bad["labels"] = [[t if t else IGNORE for t in row] for row in bad["input_ids"]]
    code, text = said(written(tmp_path / "set", bad))
    assert code == 1 and "every label is the token that stands there: nothing was hidden" in text


def test_half_a_word_masked(tokenizer: Path, tmp_path: Path) -> None:
    made = masked(300, step=Mask(unit="word"))
    pieces = {number for text, number in trained("wordpiece").get_vocab().items() if text.startswith("##")}
    row, position = next(
        (row, p) for row, labels in enumerate(made["labels"]) for p, label in enumerate(labels) if label in pieces
    )
    bad = spoiled(made, row, input_ids=(position, made["labels"][row][position]), labels=(position, IGNORE))
    claims = {"unit": "word", "tokenizer": tokenizer}
    assert said(written(tmp_path / "good", made), **claims)[0] == 0
    code, text = said(written(tmp_path / "bad", bad), **claims)
    assert code == 1 and laws(text, "BREACH") == {"whole words"} and f"row {row}, position" in text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_as_other_tokenizers_write_them(kind: str) -> None:
    from corruption.ragged import Ragged
    from corruption.vocabulary import Vocabulary
    from pipelines.verify_guess import word_starts

    other = trained(kind)
    ids = other("The government said unbelievable things", add_special_tokens=False)["input_ids"]
    rows = Ragged.from_rows([[other.bos_token_id, *ids, other.eos_token_id]])
    starts = word_starts(rows, other, Vocabulary.from_tokenizer(other)).values.tolist()
    texts = other.convert_ids_to_tokens(ids)
    assert starts[0] == starts[-1] == starts[1] == 1
    assert starts[2:-1] == [int(text[0] in "Ġ▁") for text in texts[1:]]
    assert sum(starts[1:-1]) == 5


def test_the_same_masks_in_two_shards(tokenizer: Path, tmp_path: Path) -> None:
    """Two workers with one seed: other texts, and the same coins at the same places. 100 rows are enough."""
    parts = [masked(100, text=text, step=Mask(count="bernoulli")) for text in (0, 1)]
    coins = np.random.default_rng(3).random((100, 64)) < 0.15
    known = vocabulary()
    for part in parts:
        for row in range(100):
            was = [t if label == IGNORE else label for t, label in zip(part["input_ids"][row], part["labels"][row])]
            chosen = [bool(coins[row, p]) and known.fixed[t] == 0 for p, t in enumerate(was)]
            part["input_ids"][row] = [known.mask if c else t for c, t in zip(chosen, was)]
            part["labels"][row] = [t if c else IGNORE for c, t in zip(chosen, was)]
    code, text = said(written(tmp_path / "set", *parts), tokenizer=tokenizer)
    assert code == 1 and laws(text, "BREACH") == {"noise not repeated"}
    assert "part-0.parquet and part-1.parquet" in text


def test_the_same_masks_in_two_epochs(clean, tokenizer: Path, tmp_path: Path) -> None:
    """The same texts twice under the same masks; under other masks they are no fault."""
    twice = written(tmp_path / "twice", {name: column[:100] for name, column in clean[0].items()}, clean[0])
    code, text = said(twice, tokenizer=tokenizer)
    assert code == 1 and "rows of the same text: " in text
    again = masked(seed=9, text=0)
    assert said(written(tmp_path / "other", clean[0], again), tokenizer=tokenizer)[0] == 0


ORIGINAL = [[2, 9, 10, 11, 3]] * 50


@pytest.mark.parametrize("named", ["original_ids", "original_input_ids", "original"])
def test_an_rtd_label_wrong_for_an_equal_token(tmp_path: Path, named: str) -> None:
    shown = [[2, 9, 20 + row, 11, 3] for row in range(50)]
    labels = [[0, 0, 1, 0, 0] for _ in range(50)]
    rows = {"input_ids": shown, "labels": labels, named: ORIGINAL}
    assert said(written(tmp_path / "good", rows))[0] == 0
    code, text = said(written(tmp_path / "bad", spoiled(rows, 30, labels=(1, 1))))
    assert code == 1 and "row 30, position 1: labelled as replaced, but 9 is the original" in text


def test_rtd_labels_without_originals_are_not_checked(tmp_path: Path) -> None:
    rows = {"input_ids": ORIGINAL, "labels": [[0, 0, 1, 0, 0]] * 50}
    code, text = said(written(tmp_path / "set", rows))
    assert code == 0 and "not checked  replaced tokens: there is no column of the original ids" in text


def test_truncated_shard(clean, tokenizer: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "set", *clean)
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-400])
    code, text = said(folder, tokenizer=tokenizer)
    assert code == 1 and "BREACH       readable: part-1.parquet: it cannot be read" in text


# seq2seq sets, with a recipe


def recipe(folder: Path, chain: str):
    write_corpus(folder / "corpus.txt")
    return small_recipe(folder, folder / "corpus.txt", [f"corruption={chain}", "objective={kind: seq2seq}"])


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A tokenizer with sentinels, and rows in its ids, padded as others pad them."""
    from corruption.chain import Noise
    from corruption.frames import FRAMES
    from corruption.noise_kinds import SpanSentinel
    from corruption.ragged import Batch
    from corruption.vocabulary import Vocabulary
    from pipelines.tokenizers import train_tokenizer
    from tests.pipelines.trained import news

    folder = tmp_path_factory.mktemp("t5")
    tokenizer = train_tokenizer(iter(news()), "unigram", 1200, sentinels=20)
    tokenizer.save_pretrained(folder)
    known = Vocabulary.from_tokenizer(tokenizer)
    ids = [tokenizer(line, add_special_tokens=False)["input_ids"][: 20 + i % 30] for i, line in enumerate(news()[:200])]
    from corruption.ragged import Ragged

    batch = Batch(np.arange(200).astype(np.uint64), {"tokens": Ragged.from_rows(ids)})
    out = SpanSentinel().apply(batch, Noise.of(0, "t5", 0), known)
    framed = FRAMES["encoder_decoder"]().apply(out, known)
    return folder, {
        "input_ids": [r.tolist() + [known.pad] * (60 - len(r)) for r in map(framed["input_ids"].row, range(200))],
        "labels": [r.tolist() + [IGNORE] * (30 - len(r)) for r in map(framed["labels"].row, range(200))],
    }


def test_a_clean_t5_set_and_one_with_a_sentinel_missing(t5, tmp_path: Path) -> None:
    folder, rows = t5
    asked = recipe(tmp_path, "[{kind: span_sentinel, rate: 0.15, mean_length: 3.0}]")
    code, text = said(written(tmp_path / "good", rows), recipe=asked, tokenizer=folder)
    assert code == 0 and {"sentinels", "rate", "frame"} <= laws(text, "ok"), text
    bad = {name: [list(row) for row in column] for name, column in rows.items()}
    del bad["labels"][5][1]
    code, text = said(written(tmp_path / "bad", bad), recipe=asked, tokenizer=folder)
    assert code == 1 and "sentinels: part-0.parquet, row 5" in text


def test_labels_of_another_length_need_a_recipe(t5, tmp_path: Path) -> None:
    code, text = said(written(tmp_path / "set", t5[1]))
    assert code == 2 and text.endswith(
        "labels are not as long as input_ids, so they are no labels of its positions; "
        "give --recipe, which says how they were made"
    )


def test_a_recipe_of_masks_gives_the_claims(clean, tokenizer: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "set", *clean)
    write_corpus(tmp_path / "corpus.txt")
    asked = small_recipe(tmp_path, tmp_path / "corpus.txt")
    code, text = said(folder, recipe=asked, tokenizer=tokenizer)
    assert code == 0 and {"rate", "shares"} <= laws(text, "ok"), text
    other = small_recipe(tmp_path, tmp_path / "corpus.txt", ["corruption=[{kind: mask, rate: 0.165}]"])
    assert laws(said(folder, recipe=other, tokenizer=tokenizer)[1], "BREACH") == {"rate"}
    code, text = said(folder, recipe=asked, rate=0.15)
    assert code == 2 and "the recipe says it already, so --rate would do nothing" in text


# formats and refusals


@pytest.mark.parametrize("splits", [1, 2])
def test_what_datasets_saved(clean, tokenizer: Path, tmp_path: Path, splits: int) -> None:
    import datasets

    made = datasets.Dataset.from_dict(clean[0])
    if splits == 2:
        made = datasets.DatasetDict({"train": made, "test": datasets.Dataset.from_dict(clean[1])})
        made.save_to_disk(tmp_path / "saved")
    else:
        made.save_to_disk(tmp_path / "saved", num_shards=3)
    code, text = said(tmp_path / "saved", **BERT, tokenizer=tokenizer)
    assert code == 0 and f"in {4 - splits} parts" in text, text


def test_one_file_and_other_list_types(clean, tokenizer: Path, tmp_path: Path) -> None:
    fixed = pa.table(clean[0], schema=pa.schema([(name, pa.list_(pa.int64(), 64)) for name in clean[0]]))
    pq.write_table(fixed, tmp_path / "one.parquet")
    code, text = said(tmp_path / "one.parquet", **BERT, tokenizer=tokenizer)
    assert code == 0, text
    assert "not checked  noise not repeated: there is one part, and no text comes twice" in text


def test_ids_that_only_later_parts_have_are_no_fault(tmp_path: Path) -> None:
    """Without a tokenizer the vocabulary is as large as the largest id of all."""
    early, late = masked(300, seed=3), masked(300, seed=4)
    known = vocabulary().size
    for row, labels in enumerate(late["labels"]):
        place = next(p for p, label in enumerate(labels) if label != IGNORE)
        labels[place] = known + row
    code, text = said(written(tmp_path / "set", early, late))
    assert code == 0, text


def test_an_id_that_no_tokenizer_has(tmp_path: Path) -> None:
    rows = masked(300, seed=3)
    place = next(p for p, label in enumerate(rows["labels"][7]) if label != IGNORE)
    rows["labels"][7][place] = 2**31 - 1
    code, text = said(written(tmp_path / "set", rows))
    assert code == 1 and "labels: part-0.parquet, row 7, position" in text


def test_a_tokenizer_beside_the_set_is_found(clean, tmp_path: Path) -> None:
    folder = written(tmp_path / "set", *clean)
    trained("wordpiece").save_pretrained(folder / "tokenizer")
    code, text = said(folder, **BERT)
    assert code == 0 and "special tokens" in laws(text, "ok")


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        ({"input_ids": [[1, 2]]}, "it has the columns input_ids"),
        ({"input_ids": [[1, 2]], "labels": [1]}, "labels is int64"),
        ({"input_ids": [["a"]], "labels": [[1]]}, "input_ids is list<element: string>"),
        ({"input_ids": [], "labels": []}, "it has no rows"),
    ],
)
def test_sets_without_what_is_needed_are_refused(tmp_path: Path, rows: Rows, given: str) -> None:
    kind = {"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int32())} if rows.get("input_ids") == [] else None
    folder = tmp_path / "set"
    folder.mkdir()
    pq.write_table(pa.table(rows, schema=None if kind is None else pa.schema(kind.items())), folder / "a.parquet")
    code, text = said(folder)
    assert code == 2 and given in text


def test_options_that_cannot_be_are_refused(clean, tmp_path: Path) -> None:
    folder = written(tmp_path / "set", clean[0])
    assert said(folder, unit="word") == (2, "--unit word: where words start is not known; give --tokenizer")
    assert said(folder, rate=1.5) == (2, "--rate: 1.5 is outside 0 to 1; give a share")
    code, text = said(folder, mask_share=0.8)
    assert code == 2 and "give --mask-share and --random-share" in text
    code, text = said(folder, rows=5)
    assert code == 2 and text.endswith("--rows does nothing with a data set that is not ours; leave it out")
    assert said(folder, store=tmp_path)[0] == 2


def test_json_lines_of_a_saved_set_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"input_ids": [1], "labels": [1]}) + "\n")
    assert said(tmp_path)[0] == 2
