"""What export writes is an ordinary Hugging Face folder, which a plain process loads and calls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines.export import export
from pipelines.job import MODEL, OUTCOME, Job
from pipelines.store import json_bytes
from tests.pipelines.small_run import Heard, finish, small_job, small_recipe, write_corpus

LOAD = """
import sys, warnings
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
torch.set_num_threads(1)
for folder in sys.argv[1:]:
    model, found = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), found
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = f"A moth flies at {tokenizer.mask_token}."
    given = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        logits = model.eval()(**given).logits
    assert logits.shape == (*given["input_ids"].shape, model.config.vocab_size) and logits.isfinite().all()
    both = tokenizer([text, "short"], return_tensors="pt", padding=True)
    with torch.no_grad():
        padded = model(**both).logits
    assert torch.allclose(padded[0], logits[0], atol=1e-4)
    assert tokenizer.mask_token_id in given["input_ids"][0].tolist()
    print(type(model).__name__)
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Exports of an untrained run of each kind of model."""
    folders = {}
    for kind in ("bert", "roberta", "modernbert"):
        folder = tmp_path_factory.mktemp(kind)
        job = small_job(folder, small_recipe(folder, write_corpus(folder / "corpus.txt"), kind=kind))
        run = finish(job)
        (run / OUTCOME).write_bytes(json_bytes({"status": "finished", "step": 4}))
        folders[kind] = export(run, folder / "out", console=Heard().console)
    return folders


def test_a_plain_process_loads_every_kind_and_calls_it(exported: dict[str, Path]) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, exported.values())],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["BertForMaskedLM", "RobertaForMaskedLM", "ModernBertForMaskedLM"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_the_folder_is_whole(exported: dict[str, Path], kind: str) -> None:
    names = {path.name for path in exported[kind].iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
    assert not any(path.name.startswith(".partial") for path in exported[kind].parent.iterdir())
    assert json.loads((exported[kind] / "config.json").read_text())["model_type"] == kind
    assert "| steps | 4 of " in (exported[kind] / "README.md").read_text()


@pytest.fixture
def run(small: Job, tmp_path: Path) -> Path:
    shutil.copytree(small.folder, tmp_path / "run")
    (tmp_path / "run" / OUTCOME).write_bytes(json_bytes({"status": "finished", "step": 4}))
    return tmp_path / "run"


def test_only_a_new_or_empty_folder_is_written_to(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    with pytest.raises(InputError, match=r"^--out mine: the folder is not empty; give an empty or new folder"):
        export(run, Path("mine"), console=Heard().console)
    with pytest.raises(InputError, match="it is a file"):
        export(run, Path("mine/letter.txt"), console=Heard().console)
    (tmp_path / "empty").mkdir()
    heard = Heard()
    assert export(run, Path("empty"), console=heard.console) == tmp_path / "empty"
    assert "exported the model run/model to empty" in heard.out
    with pytest.raises(InputError, match="not empty"):
        export(run, Path("empty"), console=Heard().console)


def test_H_09_a_link_is_followed_and_stays(run: Path, tmp_path: Path) -> None:
    (tmp_path / "disk d").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk d")
    assert export(run, tmp_path / "link", console=Heard().console) == tmp_path / "disk d"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "link" / "config.json").exists()


def test_a_run_without_a_model_leaves_the_target_alone(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run / MODEL)
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="neither a model nor a checkpoint"):
        export(run, tmp_path / "out", console=Heard().console)
    assert (tmp_path / "out").is_dir() and not list((tmp_path / "out").iterdir())
