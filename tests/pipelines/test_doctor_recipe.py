"""What the doctor says of a recipe: each line names what is well, or what to mend."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipelines import doctor_recipe as module
from pipelines.doctor_recipe import (
    check_model,
    check_place,
    check_tracking,
    checkpoint_bytes,
    recipe_findings,
)
from pipelines.finding import Finding
from pipelines.recipe import load_recipe


def test_tracking(tmp_path):
    assert not check_tracking(load_recipe("demo")).do
    gone = load_recipe("demo", [f"tracking.uri=sqlite:////proc/no/such/{tmp_path.name}.db"])
    assert "does not answer" in check_tracking(gone).what and check_tracking(gone).do


@pytest.fixture
def recipe_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Some text to look at.\n", "utf-8")
    return lambda *settings: load_recipe("demo", ["corpus={source: texts, format: text}", *settings])


def test_the_corpus_of_a_recipe(recipe_at):
    found = module.check_corpus(recipe_at())
    assert found == Finding("corpus: first document a.txt:0, 22 characters")
    assert "nowhere" in module.check_corpus(recipe_at("corpus={source: nowhere/*.txt}")).what
    store = module.check_corpus(recipe_at("corpus={store: no-store}", "tokenizer={}"))
    assert "no-store" in store.what and store.do
    Path("texts/a.txt").write_text("\n\n", "utf-8")
    assert module.check_corpus(recipe_at()).do


def test_the_tokenizer_of_a_recipe(recipe_at, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not module.check_tokenizer(recipe_at()).do
    missing = module.check_tokenizer(recipe_at("tokenizer={path: ./no-such-folder}"))
    assert "no-such-folder" in missing.what and missing.do


def test_the_model_of_a_recipe(recipe_at):
    found, size = check_model(recipe_at("model={kind: bert, layers: 2, width: 64, heads: 2}"))
    assert not found.do and "bert, " in found.what and "for each trainer" in found.what
    assert size is not None and size.layers == 2
    assert checkpoint_bytes(recipe_at("train.keep_checkpoints=2"), size) == 40 * size.parameters


def test_a_model_to_start_from_is_opened(recipe_at, tmp_path):
    missing, size = check_model(recipe_at("model={kind: bert, init: ./no-such-model}"))
    assert (missing.what, size) == ("model.init ./no-such-model: no such folder", None) and missing.do
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    broken, _ = check_model(recipe_at("model={kind: bert, init: ./broken}"))
    assert "configuration cannot be read" in broken.what and broken.do


def test_a_model_is_not_judged_without_its_tokenizer(recipe_at, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    found, size = check_model(recipe_at("tokenizer={path: ./no-such-folder}"))
    assert found.do == "mend the tokenizer first" and size is None


def test_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not check_place("runs", 1).do and list(tmp_path.iterdir()) == []
    assert "checkpoints take" in check_place("runs", 1 << 60).what and check_place("runs", 1 << 60).do
    (tmp_path / "runs").write_text("a file")
    assert check_place("runs", 0).do == "work in another folder or give --out"


@pytest.mark.parametrize(
    ("uri", "near"),
    [
        (None, "a file on this machine"),
        ("sqlite:////mnt/mlflow.db", "a file on this machine"),
        ("file:///mnt/mlruns", "a file on this machine"),
        ("http://localhost:5000", "this machine's own address"),
        ("http://127.0.0.1:5000", "this machine's own address"),
    ],
)
def test_a_store_that_other_nodes_cannot_reach_is_refused_for_several(uri, near):
    recipe = load_recipe("demo", [f"tracking.uri={uri}"] if uri else [])
    found = check_tracking(recipe, many=True)
    assert near in found.what and "MLflow server" in found.do


def test_a_server_is_asked_once_and_briefly():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = check_tracking(load_recipe("demo", [f"tracking.uri=http://127.0.0.1:{port}"]))
    assert "does not answer" in found.what and found.do


def test_one_line_for_each_part_and_no_trainer_for_data_alone(recipe_at):
    lines = [str(found) for found in recipe_findings(recipe_at(), None, remote=False)]
    for part in ("corpus", "tokenizer", "model", "this machine", "stores", "runs", "tracking"):
        assert any(part in line for line in lines), part
    data = load_recipe("bart", ["corpus={source: texts, format: text}"])
    told = [str(found) for found in recipe_findings(data, None, remote=False)]
    assert not any("trainer" in line.split("tracking")[0] for line in told)


def test_for_a_cluster_this_machine_does_not_count(recipe_at):
    lines = [found.what for found in recipe_findings(recipe_at("cluster.trainers=4"), None, remote=True)]
    assert not any(line.startswith("this machine") for line in lines)
    assert any("mlflow.db is a file" in line for line in lines)
