from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import types

import numpy as np
import pyarrow as pa
import pytest

from corruption import Batch, Chain, InputError, Mask, Ragged, Vocabulary
from corruption.schema import IGNORE, PASSAGES
from pipelines.preview import LONGEST, _shortened, first_passages, preview, stored_passages
from pipelines.preview_text import Tally, legend, passage_lines, rates
from pipelines.recipe import load_recipe

WORDS = ["the", "cat", "sat", "on", "mat", "dog", "ran", "far", "un", "##known", "##s", ",", "."]


def wordpiece():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


def byte_level(**special):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate(["<pad>", "<mask>", "<s>", "</s>", *letters, "Ġc", "at"])}
    backend = Tokenizer(models.BPE(vocab, [("Ġ", "c"), ("a", "t")]))
    backend.pre_tokenizer, backend.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def rendered(tokenizer, text, corrupted, labels):
    """The lines of one row whose corrupted tokens and labels are given."""
    original = tokenizer(text, add_special_tokens=False)["input_ids"]
    before = Batch(np.array([1], np.uint64), {"tokens": Ragged.from_rows([original])})
    after = before.put(
        tokens=Ragged.from_rows([corrupted(original)]), labels=Ragged.from_rows([labels(original)])
    )
    tally = Tally()
    lines = passage_lines(tokenizer, Vocabulary.from_tokenizer(tokenizer), before, after, 0, tally)
    return {name: line.plain for name, line in lines}, tally


def test_marks_show_what_happened_where():
    tokenizer = wordpiece()
    ids = tokenizer.convert_tokens_to_ids

    def corrupted(original):
        out = list(original)
        out[1], out[3], out[4] = ids("[MASK]"), ids("dog"), ids("on")
        return out

    def labels(original):
        return [token if i in (1, 3, 4) else IGNORE for i, token in enumerate(original)]

    lines, tally = rendered(tokenizer, "the cat sat unknown on the mats .", corrupted, labels)
    assert lines["original"] == "the cat sat unknown on the mats."
    assert lines["corrupted"] == "the [MASK] sat ~dog on~ on the mats."
    assert lines["labels"] == "cat | unknown"
    assert (tally.masked, tally.random, tally.kept, tally.labelled, tally.choosable) == (1, 2, 0, 3, 10)


def test_kept_tokens_and_pieces_of_words():
    tokenizer = wordpiece()
    lines, tally = rendered(tokenizer, "unknown cats", list, lambda row: [IGNORE, row[1], IGNORE, IGNORE])
    assert lines["corrupted"] == "un=##known= cats"
    assert lines["labels"] == "##known" and tally.kept == 1
    assert rendered(tokenizer, "the cat", list, lambda row: [IGNORE] * 2)[0]["labels"] == "none"


def test_bytes_of_one_letter_and_control_characters():
    tokenizer = byte_level(mask_token="<mask>", pad_token="<pad>")
    text = "a cat é\x1b[31m\ncat"

    def hide(row):
        return [tokenizer.mask_token_id if i == 1 else token for i, token in enumerate(row)]

    lines, _ = rendered(
        tokenizer, text, hide, lambda row: [token if i == 1 else IGNORE for i, token in enumerate(row)]
    )
    assert lines["original"] == "a cat é [31m cat"
    assert lines["corrupted"] == "a <mask>at é [31m cat"
    assert lines["labels"] == "c"


def test_rates_name_what_was_asked_and_what_came_of_it():
    steps = [{"kind": "mask", "name": "mask", "rate": 0.15}, {"kind": "mask", "name": "more"}]
    lines = [f"{name}: {text.plain}" for name, text in rates(steps, Tally(120, 100, 12, 2, 1))]
    assert lines == [
        "asked: mask: rate 0.15",
        "asked: mask (more)",
        "came to: 15 of 100 tokens labelled, rate 0.1500, hidden 0.800, random 0.133, kept 0.067",
    ]
    assert [text.plain for _, text in rates([], Tally())] == ["0 of 0 tokens labelled, rate 0.0000"]
    assert "[MASK]" in legend("[MASK]").plain and "hidden" not in legend(None).plain


def test_first_passages_of_every_document_come_first():
    table = pa.table({"doc": pa.array([5, 5, 5, 2, 9, 9], pa.uint64()), "n": range(6)})
    assert first_passages(table, 3)["n"].to_pylist() == [0, 3, 4]
    assert first_passages(table, 4)["n"].to_pylist() == [0, 1, 3, 4]
    assert first_passages(table, 99)["n"].to_pylist() == list(range(6))
    assert first_passages(PASSAGES.empty_table(), 3).num_rows == 0


def test_long_documents_are_looked_at_from_the_front():
    from pipelines.documents import Document

    long = Document(
        "k", "x" * (LONGEST + 5), links=[(0, 3, "A"), (LONGEST - 1, LONGEST + 1, "B")], words=["x"]
    )
    short = _shortened(long)
    assert (
        len(short.text) == LONGEST
        and short.links == [(0, 3, "A")]
        and short.words is None
        and short.key == "k"
    )
    assert len(long.text) == LONGEST + 5


RECIPE = """\
seed: 3
corpus: {source: %s, documents: line, max_tokens: 32}
tokenizer: {path: %s}
corruption: [{kind: mask, rate: 0.3, random_share: 0.2, mask_share: 0.6}]
objective: {kind: mlm}
model: {kind: bert, layers: 1, width: 8, heads: 1}
train: {steps: 1, decay_steps: 1, tokens_per_step: 64, microbatch_tokens: 64, learning_rate: 1e-3}
"""


@pytest.fixture
def recipe_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d s").mkdir()
    lines = ["the cat sat on the mat .", "the dog ran far , un known dogs sat .", "the mats , the cats ."]
    (tmp_path / "d s" / "in put.txt").write_text("\n".join(lines) + "\n", "utf-8")
    wordpiece().save_pretrained(tmp_path / "tokenizer")
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE % (json.dumps("d s/in put.txt"), "tokenizer"), "utf-8")
    return path


def shown(recipe, **options):
    file = io.StringIO()
    preview(recipe, file=file, width=70, **options)
    return file.getvalue()


def test_golden_text_without_colours(recipe_file):
    """Changes with the noise or the layout; neither should without a line in the changelog."""
    text = shown(load_recipe(recipe_file), rows=2)
    assert "\x1b" not in text
    assert [line.rstrip() for line in text.splitlines()] == GOLDEN.splitlines()


GOLDEN = """\
recipe small, seed 3, epoch 0; tokenizer tokenizer
[MASK] hidden   ~word~ replaced at random   =word= kept, but asked for

passage 1 of 2, document in put.txt:0
original  the cat sat on the mat.
corrupted the cat sat on [MASK] [MASK] .
labels    the mat

passage 2 of 2, document in put.txt:1
original  the dog ran far, un [UNK] dogs sat.
corrupted [MASK] dog ran far, ~,~ [UNK] dogs ~the~ .
labels    the | un | sat

asked     mask: rate 0.3, unit token, count exact, mask_share 0.6,
          random_share 0.2
came to   5 of 17 tokens labelled, rate 0.2941, hidden 0.600, random
          0.400, kept 0.000
"""


def test_colours_on_a_terminal(recipe_file, monkeypatch):
    plain = shown(load_recipe(recipe_file), rows=2)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = shown(load_recipe(recipe_file), rows=2)
    assert "\x1b[1;37;41m[MASK]\x1b[0m" in coloured and "\x1b[1;30;43m~,~\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_a_store_shows_its_first_passages():
    rows = PASSAGES.empty_table().schema
    parts = {("a", 0): [1, 2], ("a", 1): [3], ("b", 0): [4, 5]}

    class Stored:
        train = types.SimpleNamespace(shard=["a", "a", "b"], number=np.array([0, 1, 0], np.int32))

        def read(self, shard, numbers, columns):
            assert list(columns) == rows.names and len(numbers) == 1
            return pa.table({"doc": pa.array(parts[shard, numbers[0]], pa.uint64())})

    assert stored_passages(Stored(), 2)["doc"].to_pylist() == [1, 2]
    assert stored_passages(Stored(), 4)["doc"].to_pylist() == [1, 2, 3, 4]
    assert stored_passages(Stored(), 99)["doc"].to_pylist() == [1, 2, 3, 4, 5]


def test_it_is_the_noise_of_training(recipe_file):
    from pipelines.passages import PassageBuilder, PassageSettings
    from pipelines.preview import read_documents

    recipe = load_recipe(recipe_file)
    tokenizer = wordpiece()
    builder = PassageBuilder(tokenizer.backend_tokenizer.to_str(), PassageSettings(budget=30))
    table, _ = builder.build(read_documents(recipe, 3))
    batch = Batch.from_arrow(table, ("tokens",))
    after = Chain((Mask(rate=0.3, random_share=0.2, mask_share=0.6),)).apply(
        batch, seed=3, epoch=2, vocabulary=Vocabulary.from_tokenizer(tokenizer)
    )
    tally = Tally()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    for row in range(len(table)):
        for _, line in passage_lines(tokenizer, vocabulary, batch, after, row, tally):
            assert " ".join(line.plain.split()) in " ".join(shown(recipe, rows=3, epoch=2).split())
    assert shown(recipe, rows=3, epoch=2) != shown(recipe, rows=3, epoch=1)


def test_text_from_the_command_line_needs_no_corpus(recipe_file):
    recipe = load_recipe(recipe_file, ["corpus.source=nowhere/*.txt"])
    text = shown(recipe, text="the cat sat on the mat")
    assert "passage 1 of 1, document text" in text and "original" in text
    with pytest.raises(InputError, match="preview: no passage came out of the text"):
        shown(recipe, text="   ")


def test_every_source_has_its_share(recipe_file, tmp_path):
    (tmp_path / "other.txt").write_text("the mat\n" * 9, "utf-8")
    sources = (
        "{sources: [{source: d s, documents: line, name: a}, {source: other.txt, documents: line, name: b}]}"
    )
    text = shown(load_recipe(recipe_file, [f"corpus={sources}", "corpus.max_tokens=32"]), rows=4)
    assert text.count("document a/") == 2 and text.count("document b/") == 2


def test_A_19_a_tokenizer_without_a_mask_token_is_refused_by_name(recipe_file, tmp_path):
    byte_level(eos_token="</s>", pad_token="<pad>").save_pretrained(tmp_path / "gpt")
    recipe = load_recipe(recipe_file, ["tokenizer.path=gpt"])
    with pytest.raises(InputError, match="mask_token") as error:
        shown(recipe)
    assert "mlm" in str(error.value)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pipelines.cli import main; main()",
            "preview",
            "small.yaml",
            "--set",
            "tokenizer.path=gpt",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 2 and "mask_token" in done.stderr and "mlm" in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_preview_starts_no_ray_and_works_in_a_pipe(recipe_file, tmp_path):
    script = (
        "import sys\nfrom pipelines.cli import main\ntry: main(['preview', 'small.yaml', '--rows', '1'])\n"
    )
    script += "finally: print('ray' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "passage 1 of 1" in done.stdout and "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("False")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d s", "small.yaml", "tokenizer"]


def test_a_tokenizer_to_train_is_trained_on_a_sample_and_said_so(recipe_file):
    recipe = load_recipe(recipe_file, ["tokenizer={train: {kind: wordpiece, vocab_size: 128}}"])
    text = shown(recipe, rows=1)
    assert "tokenizer trained just now on the first 4 MB" in " ".join(text.split())
