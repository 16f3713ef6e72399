"""A step in the preview is the very step that the stream feeds: addresses, keys and framed bytes."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import numpy as np
import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Crop, Mask, SentencePair
from pipelines.plan import Address
from pipelines.preview import preview
from pipelines.preview_step import microbatches_of_step
from pipelines.recipe import load_recipe
from pipelines.window import read_window
from tests.pipelines.small_run import prepare_here, small_recipe, write_corpus
from tests.pipelines.synthetic import digest, plan_and_feed, reference, write_store

CHAINS = {
    "mask": Chain((Mask(),)),
    "words twice": Chain((Mask(unit="word", rate=0.3),)),
    "shorter": Chain((Crop(rate=0.5), Mask())),
    "pairs, some left out": Chain((SentencePair(), Mask())),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store"), sources=2)


def framed(feed, eaten):
    """(keys, digest) of a microbatch as the stream would send it."""
    after = eaten.after
    usable = after.take(np.flatnonzero(after.usable))
    columns = feed.frame.apply(usable, feed.vocabulary)
    flat = {name: column.values for name, column in columns.items()}
    return usable.keys.tolist(), digest(flat, columns[feed.frame.columns[0]].lengths)


def keys_at(plan, feed, address):
    """The keys that the window task sends at this address."""
    for row in plan.table(address, 1).to_pylist():
        table = read_window(row, feed)
        if len(table):
            assert tuple(table[c][0].as_py() for c in ("epoch", "window", "number")) == tuple(address)
            return table["keys"][0].as_py()
    raise AssertionError("the plan is endless")


@pytest.mark.parametrize("chain", CHAINS)
def test_a_step_is_the_one_that_the_stream_sends(store, chain):
    plan, feed = plan_and_feed(store, weights=(1.0, 1.0), chain=CHAINS[chain])
    wanted = reference(plan, feed, Address(0, 0, 0), 40)
    left_out = 0
    for step in (0, 1, 7, 23, 39):
        found = list(microbatches_of_step(plan, feed, step))
        assert [eaten.lane for eaten in found] == [0, 1, 2]
        for eaten, (address, bytes_) in zip(found, wanted[step], strict=True):
            keys, made = framed(feed, eaten)
            assert eaten.address == address and made == bytes_ and keys == keys_at(plan, feed, address)
            assert eaten.stored["key"].to_pylist() == eaten.before.keys.tolist()
            left_out += int((~eaten.after.usable).sum())
    assert bool(left_out) == (chain == "pairs, some left out")


def test_steps_straddle_epochs_with_the_noise_and_copies_of_each(store):
    plan, feed = plan_and_feed(store, weights=(1.5, 2.0), lanes=4)
    steps = -(-int(plan.counts(0).sum() + plan.counts(1).sum()) // 4) + 1
    wanted = reference(plan, feed, Address(0, 0, 0), steps)
    epochs, copies = [], set()
    for step in range(steps):
        found = list(microbatches_of_step(plan, feed, step))
        assert [(e.address, framed(feed, e)[1]) for e in found] == wanted[step]
        epochs.append({e.address.epoch for e in found})
        copies |= {int(copy) for e in found for copy in e.before.copies}
    assert {0, 1} in epochs and copies == {0, 1}


def test_the_columns_shown_beside_change_nothing(store):
    plan, feed = plan_and_feed(store, weights=(1.0, 1.0))
    (first, *_) = microbatches_of_step(plan, feed, 3)
    assert {"doc", "sentence_start"} < set(first.stored.column_names)
    assert set(first.before.columns) == {"tokens"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The folder of a small run's recipe and of its store, in the default place."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare_here(small_recipe(folder, write_corpus(folder / "corpus.txt")))
    return folder


def shown(folder, monkeypatch, overrides=(), **options):
    monkeypatch.chdir(folder)
    file = io.StringIO()
    preview(load_recipe("small.yaml", overrides), file=file, width=100, **options)
    return file.getvalue()


def test_it_shows_where_each_row_comes_from(prepared, monkeypatch):
    text = shown(prepared, monkeypatch, step=1, rows=2)
    assert re.match(r"recipe small, seed 3, step 1; store stores/\w{8}\n", text)
    lines = re.findall(r"lane (\d): epoch 0, window (\d+), number (\d+); (\d+) passages?, [\d,]+ tokens", text)
    assert [lane for lane, *_ in lines] == ["0", "1"]
    places = re.findall(r"^lane (\d), epoch 0, window (\d+), number (\d+), row (\d); key \w{16}, copy 0$", text, re.M)
    shown_rows = [(*line[:3], str(row)) for line in lines for row in range(min(2, int(line[3])))]
    assert places == shown_rows and f"passage 1 of {len(places)}, document " in text
    assert "came to" in text


def test_one_lane_and_its_rates(prepared, monkeypatch):
    both = re.split(r"passage \d+ of \d+, ", shown(prepared, monkeypatch, step=1, rows=1000))
    alone = re.split(r"passage \d+ of \d+, ", shown(prepared, monkeypatch, step=1, lane=1, rows=1000))
    assert "lane 0" not in "".join(alone) and 2 < len(alone) < len(both)
    assert alone[1:-1] == both[-len(alone) + 1 : -1]
    few, many = (shown(prepared, monkeypatch, step=1, lane=1, rows=rows) for rows in (1, 1000))
    assert few[few.index("\nasked") :] == many[many.index("\nasked") :]


def test_a_step_behind_the_end_is_shown_and_said_so(prepared, monkeypatch):
    note = "the run ends before this step: its last one is step 3"
    assert note in shown(prepared, monkeypatch, step=4, rows=1)
    assert note not in shown(prepared, monkeypatch, step=3, rows=1)


def test_the_same_as_a_page(prepared, monkeypatch, tmp_path):
    text = shown(prepared, monkeypatch, step=0, rows=1)
    key = re.search(r"key (\w{16})", text).group(1)
    monkeypatch.chdir(prepared)
    preview(load_recipe("small.yaml"), step=0, rows=1, html=tmp_path / "step.html", file=io.StringIO())
    html = (tmp_path / "step.html").read_text("utf-8")
    assert key in html and '<h2 id="step">The step</h2>' in html


def test_a_store_named_in_the_recipe(prepared, monkeypatch):
    (folder,) = [path for path in (prepared / "stores").iterdir() if (path / "manifest.json").exists()]
    text = shown(prepared, monkeypatch, step=0, rows=1)
    recipe = (prepared / "small.yaml").read_text("utf-8")
    recipe = re.sub(r'source: "[^"]+"', f'store: "{folder}"', recipe).replace(", documents: line", "")
    (prepared / "stored.yaml").write_text(re.sub(r"tokenizer: .*\n", "", recipe), "utf-8")
    monkeypatch.chdir(prepared)
    file = io.StringIO()
    preview(load_recipe("stored.yaml"), step=0, rows=1, file=file, width=100)
    assert file.getvalue().splitlines()[1:] == text.splitlines()[1:]


def test_what_is_refused(prepared, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="--lane: 2, and a step of this recipe has 2; give 0 to 1"):
        shown(prepared, monkeypatch, step=0, lane=2)
    with pytest.raises(InputError, match="--lane: there are lanes in a step only; give --step too"):
        shown(prepared, monkeypatch, lane=0)
    with pytest.raises(InputError, match="--text: a step of the run has its own passages"):
        shown(prepared, monkeypatch, step=0, text="a")
    with pytest.raises(InputError, match="--epoch: a step of the run has its own epoch"):
        shown(prepared, monkeypatch, step=0, epoch=0)
    untrained = re.sub(r"train: .*\n", "", (prepared / "small.yaml").read_text("utf-8"))
    (prepared / "untrained.yaml").write_text(untrained, "utf-8")
    with pytest.raises(InputError, match="recipe untrained: train: it has no such section"):
        preview(load_recipe("untrained.yaml"), step=0, file=io.StringIO())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not prepared yet, and --dry-run and --step make nothing; run"):
        preview(load_recipe(prepared / "small.yaml"), step=0, file=io.StringIO())
    assert list(tmp_path.iterdir()) == []


def test_it_starts_no_ray_and_makes_nothing(prepared):
    before = sorted(path for path in prepared.rglob("*"))
    script = (
        "import sys\nfrom pipelines.cli import main\n"
        "try: main(['preview', 'small.yaml', '--step', '2', '--lane', '0', '--rows', '1'])\n"
        "finally: print('ray' in sys.modules, 'torch' in sys.modules, 'mlflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=prepared, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "passage 1 of 1" in done.stdout and done.stdout.splitlines()[-1].startswith("False")
    assert done.stdout.splitlines()[-1].split()[2] == "False"
    assert sorted(path for path in prepared.rglob("*")) == before
