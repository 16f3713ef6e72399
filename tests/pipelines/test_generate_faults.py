"""What the machine, the store or the cluster does wrong while a data set is made: one line each, and nothing lost."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.noise_kinds import Mask
from pipelines import generate as generate_module
from pipelines import generate_finish, generate_task
from pipelines.console import Console
from pipelines.generate import follow
from pipelines.generate_plan import plan_shards
from pipelines.generate_task import attempt
from pipelines.outcome import JobFailed
from pipelines.recipe import Recipe
from pipelines.store import open_store
from tests.pipelines.generated import (
    contents,
    generate_here,
    made_up_work,
)
from tests.pipelines.small_run import Heard
from tests.pipelines.synthetic import VOCABULARY


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (
            errno.ENOSPC,
            JobFailed,
            r"the disk is full \(No space left on device\); 2 of \d+ shards are finished and kept",
        ),
        (errno.EDQUOT, JobFailed, "the disk is full"),
        (errno.EIO, JobFailed, r"writing failed \(Input/output error\); 2 of \d+ shards are finished and kept; mend"),
        (errno.EROFS, InputError, r"it cannot be written to \(Read-only file system\); 2 of \d+ shards are finished"),
        (errno.EACCES, InputError, r"it cannot be written to \(Permission denied\)"),
        (errno.EPERM, InputError, r"it cannot be written to \(Operation not permitted\)"),
    ],
    ids=lambda value: errno.errorcode.get(value) if isinstance(value, int) else "",
)
def test_a_write_that_fails_in_a_task_is_one_line_and_a_rerun_goes_on(
    prepared: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type, said: str
) -> None:
    real, shards = generate_task.write_atomically, []

    def failing(path: Path, data: bytes) -> None:
        shards.append(path.name)
        if len(shards) > 4:
            raise OSError(number, os.strerror(number), str(path))
        real(path, data)

    monkeypatch.setattr(generate_task, "write_atomically", failing)
    with pytest.raises(kind, match=said) as caught:
        generate_here(prepared, tmp_path / "out")
    assert "run the same command again, which goes on from there" in str(caught.value)
    assert str(caught.value).startswith(f"--out {tmp_path / 'out'}: ") and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    heard = Heard()
    finished = generate_here(prepared, tmp_path / "out", heard=heard)
    assert "2 of them made before" in heard.out
    assert contents(finished.folder) == contents(generate_here(prepared, tmp_path / "new").folder)


@pytest.mark.parametrize("where", ["alone", "claim", "put"])
def test_a_write_that_fails_in_the_command_is_one_line(
    prepared: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(generate_finish if where == "put" else generate_module, where, full)
    with pytest.raises(JobFailed, match=r"^--out .*out: the disk is full"):
        generate_here(prepared, tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    generate_here(prepared, tmp_path / "out")


def test_a_damaged_shard_of_the_store_is_named(tmp_path: Path) -> None:
    work = made_up_work(tmp_path, Chain((Mask(),)))
    store = open_store(Path(work.store))
    path = Path(work.store) / "train-00001.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(200) + data[300:])
    pieces = plan_shards(store, copies=1, epochs=1, tokens=900, files="parquet")
    results = [attempt(piece, work) for piece in pieces]
    assert {bool(result["fault"]) for result in results} == {True, False}
    with pytest.raises(JobFailed, match=r"^shard .*train-00001.parquet: cannot be read \(.*\); prepare the store"):
        follow(results, tmp_path / "x", len(pieces), len(pieces), Console())


def test_an_input_error_in_a_task_comes_out_as_it_is(tmp_path: Path) -> None:
    small = replace(VOCABULARY, size=50)
    work = made_up_work(tmp_path, Chain((Mask(),)), vocabulary=small)
    pieces = plan_shards(open_store(Path(work.store)), copies=1, epochs=1, tokens=900, files="parquet")
    with pytest.raises(InputError, match="is not one of synthetic's 50; use the tokenizer the passages were made with"):
        follow([attempt(pieces[0], work)], tmp_path / "x", 1, 1, Console())


def test_a_bug_in_a_task_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = made_up_work(tmp_path, Chain((Mask(),)))
    pieces = plan_shards(open_store(Path(work.store)), copies=1, epochs=1, tokens=900, files="parquet")
    monkeypatch.setattr(generate_task, "realised", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        attempt(pieces[0], work)


def test_a_lost_shard_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="1 of 3 shards came back: the job lost some"):
        follow([{"name": "a", "rows": 1, "tokens": 1, "fault": ""}], tmp_path, 3, 3, Console())


def test_shards_that_other_machines_kept_to_themselves_are_missed(prepared: Recipe, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shards written by other machines cannot be seen from here; give a"):
        generate_here(prepared, tmp_path / "out", run=lambda *_: None)


def test_progress_counts_what_was_there_but_not_its_tokens() -> None:
    heard = Heard()
    rows = [{"name": "a", "rows": 3, "tokens": 40, "fault": ""}, {"name": "b", "rows": 2, "tokens": 2, "fault": ""}]
    follow(rows, Path("x"), 2, 10, heard.console)
    lines = heard.out.splitlines()
    assert lines[0].startswith("generate  8/10  80%") and "rows 0" in lines[0]
    assert lines[-1].startswith("generate  10/10  100%") and "rows 5" in lines[-1]
