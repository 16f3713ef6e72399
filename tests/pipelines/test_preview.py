"""The command as a whole: the same noise as training, in the terminal and as a page, without Ray."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from corruption import Batch, Chain, InputError, Mask, Vocabulary
from pipelines.preview import preview
from pipelines.preview_rows import rows as rows_of
from pipelines.preview_spelling import Spelling
from pipelines.preview_text import row_lines
from pipelines.recipe import load_recipe
from tests.pipelines.small_tokenizers import byte_level, wordpiece

ROOT = Path(__file__).parents[2]
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
[MASK] hidden   ~word~ replaced at random
labels: the token asked for here

passage 1 of 2, document in put.txt:0
original  the cat sat on the mat.
corrupted the cat sat on [MASK] [MASK] .
labels                   the    mat

passage 2 of 2, document in put.txt:1
original  the dog ran far, un [UNK] dogs sat.
corrupted [MASK] dog ran far, ~,~ [UNK] dogs ~the~ .
labels    the                 un             sat

asked     mask: rate 0.3, unit token, count exact, mask_share 0.6,
          random_share 0.2
came to   5 of 17 tokens labelled, rate 0.2941, hidden 0.600, random
          0.400, kept 0.000
"""


def test_colours_on_a_terminal(recipe_file):
    """In a process of its own: what a terminal can do is read from the environment, once."""
    plain = shown(load_recipe(recipe_file), rows=2)
    code = (
        "import sys; from pipelines.preview import preview; from pipelines.recipe import load_recipe; "
        "preview(load_recipe(sys.argv[1]), rows=2, width=70, file=sys.stdout)"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TTY_COMPATIBLE")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(recipe_file)],
        env={**kept, "FORCE_COLOR": "1", "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    coloured = done.stdout
    assert "\x1b[1;37;41m[MASK]\x1b[0m" in coloured and "\x1b[1;30;43m~,~\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_it_is_the_noise_of_training(recipe_file):
    from pipelines.passages import PassageBuilder, PassageSettings
    from pipelines.preview_passages import read_documents

    recipe = load_recipe(recipe_file)
    tokenizer = wordpiece()
    builder = PassageBuilder(tokenizer.backend_tokenizer.to_str(), PassageSettings(budget=30))
    table, _ = builder.build(read_documents(recipe, 3))
    batch = Batch.from_arrow(table, ("tokens",))
    after = Chain((Mask(rate=0.3, random_share=0.2, mask_share=0.6),)).apply(
        batch, seed=3, epoch=2, vocabulary=Vocabulary.from_tokenizer(tokenizer)
    )
    seen = " ".join(shown(recipe, rows=3, epoch=2).split())
    vocabulary, spelling = Vocabulary.from_tokenizer(tokenizer), Spelling(tokenizer)
    for row in rows_of(after, vocabulary, spelling, titles=["x"] * len(table)):
        for _, line in row_lines(row, 60):
            assert " ".join(line.plain.split()) in seen
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


def test_a_page_instead_of_the_terminal(recipe_file, tmp_path, monkeypatch):
    recipe = load_recipe(recipe_file)
    file = io.StringIO()
    preview(recipe, rows=2, html=tmp_path / "page.html", file=file)
    assert file.getvalue() == "wrote page.html: 2 passages\n"
    html = (tmp_path / "page.html").read_text("utf-8")
    for text in ("document in put.txt:0", "recipe small, seed 3, epoch 0", "rate 0.2941", "replaced at random"):
        assert text in html
    preview(recipe, rows=1, html=tmp_path / "page.html", file=io.StringIO())
    assert (tmp_path / "page.html").read_text("utf-8") != html


def test_a_page_that_cannot_be_written_is_refused_before_any_work(recipe_file, tmp_path):
    recipe = load_recipe(recipe_file, ["corpus.source=nowhere/*.txt"])
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(InputError, match=r"mine\.html: the file is no preview of ours; give another name"):
        preview(recipe, html=tmp_path / "mine.html")
    with pytest.raises(InputError, match="--width: a page fits itself to the window; leave out this option or --html"):
        preview(recipe, html=tmp_path / "new.html", width=80)


def test_nothing_is_wider_than_it_may_be(recipe_file):
    for width in (40, 60, 100):
        file = io.StringIO()
        preview(load_recipe(recipe_file), rows=3, width=width, file=file)
        assert max(map(len, file.getvalue().splitlines())) <= width
