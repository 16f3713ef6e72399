"""`papermoth verify` as a user runs it: on what generate made, on a copy that was spoiled, and on a stranger's set."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.data_set import partial_of
from tests.end_to_end.conftest import Prepared
from tests.end_to_end.tiny import papermoth


@dataclass(frozen=True)
class Made:
    """A working folder with a data set of two epochs, and the store it was made of."""

    folder: Path
    data: Path


@pytest.fixture(scope="module")
def made(prepared: Prepared) -> Made:
    done = papermoth("generate", prepared.recipe, "--out", "data/tiny", "--epochs", "2", cwd=prepared.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return Made(prepared.folder, prepared.folder / "data" / "tiny")


def test_a_clean_set_ends_with_0_and_a_line_a_law(made: Made) -> None:
    done = papermoth("verify", "data/tiny", cwd=made.folder)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("ok ") for line in lines) >= 12 and not any("BREACH" in line for line in lines)
    assert any("rows of them derived again" in line for line in lines)
    assert lines[-1].endswith("checked, all hold")


def test_json_lines(made: Made) -> None:
    done = papermoth("verify", "data/tiny", "--log", "json", "--rows", "0", cwd=made.folder)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and {event["event"] for event in events} == {"progress", "message"}


def test_a_spoiled_set_ends_with_1_and_a_sentence(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.data, tmp_path / "spoiled")
    shard = sorted((tmp_path / "spoiled" / "data").glob("train*"))[0]
    rows = pq.read_table(shard)
    labels = rows["labels"].to_pylist()
    labels[3] = [label if label == -100 else 9 for label in labels[3]]
    column = pa.array(labels, pa.list_(pa.int32()))
    pq.write_table(rows.set_column(rows.column_names.index("labels"), "labels", column), shard)
    done = papermoth("verify", tmp_path / "spoiled", "--rows", "0", cwd=made.folder)
    assert done.returncode == 1
    assert f"BREACH       labels: {shard.name}, row 3, position" in done.stdout
    assert (
        done.stderr.startswith(f"papermoth: data set {tmp_path / 'spoiled'} breaks ") and done.stderr.count("\n") == 1
    )


def test_an_unfinished_set_ends_with_2(made: Made, tmp_path: Path) -> None:
    partial_of(tmp_path / "set").mkdir()
    done = papermoth("verify", tmp_path / "set", cwd=made.folder)
    assert done.returncode == 2 and "it is not finished; run the same papermoth generate again" in done.stderr


def test_a_strangers_set(made: Made, tmp_path: Path) -> None:
    """What generate made, without its manifest, is a set like any other."""
    shutil.copytree(made.data / "data", tmp_path / "stranger")
    options = ("--rate", "0.15", "--count", "exact", "--mask-share", "0.8", "--random-share", "0.1")
    done = papermoth("verify", tmp_path / "stranger", *options, "--tokenizer", made.data / "tokenizer", cwd=made.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok           rate" in done.stdout and "realised: " in done.stdout
    done = papermoth("verify", tmp_path / "stranger", "--rate", "2", cwd=made.folder)
    assert done.returncode == 2 and "--rate: 2.0 is outside 0 to 1" in done.stderr


def test_it_starts_no_ray(made: Made) -> None:
    script = "import sys\nfrom pipelines.cli import main\ntry: main(['verify', 'data/tiny'])\n"
    script += "finally: print('ray' in sys.modules, 'mlflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=made.folder, timeout=120, check=False
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "False False", done.stdout + done.stderr
