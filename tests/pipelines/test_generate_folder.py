"""The folder of a data set: found again, gone on with, refused, replaced, and whole after a crash at any point."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines.data_set import DATA, MANIFEST, open_data_set, partial_of
from pipelines.generate_folder import MADE, RECORDS, REQUEST
from pipelines.out_folder import alone
from pipelines.recipe import Recipe
from tests.pipelines.generated import (
    changed,
    contents,
    generate_here,
    make_here,
    never,
)
from tests.pipelines.small_run import Heard


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_foreign_folders_and_files_are_never_touched(prepared: Recipe, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    (tmp_path / "file").write_text("text")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"^--out mine: the folder holds no data set of ours; give"):
            generate_here(prepared, tmp_path / "mine", overwrite=overwrite, run=never)
        with pytest.raises(InputError, match="it is a file"):
            generate_here(prepared, tmp_path / "file", overwrite=overwrite, run=never)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_what_was_put_beside_a_data_set_is_not_taken_away_with_it(prepared: Recipe, tmp_path: Path) -> None:
    made = generate_here(prepared, tmp_path / "out")
    (made.folder / ".git").mkdir()
    with pytest.raises(InputError, match=r"holds \.git, which is no part of a data set; take it out"):
        generate_here(prepared, tmp_path / "out", copies=2, overwrite=True, run=never)
    assert (made.folder / ".git").exists()


def test_an_empty_folder_and_a_link_to_one_are_filled(prepared: Recipe, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    generate_here(prepared, tmp_path / "link")
    for _ in range(2):
        assert (tmp_path / "link").is_symlink() and (tmp_path / "disk" / MANIFEST).exists()
        generate_here(prepared, tmp_path / "link", copies=2, overwrite=True)


def test_another_command_in_the_folder_is_refused(prepared: Recipe, tmp_path: Path) -> None:
    with alone(tmp_path / "out"), pytest.raises(InputError, match="another command works in it; wait for it"):
        generate_here(prepared, tmp_path / "out", run=never)


def test_a_damaged_one_is_refused_and_made_again_with_overwrite(prepared: Recipe, tmp_path: Path) -> None:
    made = generate_here(prepared, tmp_path / "out")
    whole = contents(made.folder)
    path = made.path(made.shards()[1])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"the manifest says \d+; generate it again with --overwrite"):
        generate_here(prepared, tmp_path / "out", run=never)
    generate_here(prepared, tmp_path / "out", overwrite=True)
    assert contents(made.folder) == whole
    data = path.read_bytes()
    path.write_bytes(data[:50] + b"x" + data[51:])
    generate_here(prepared, tmp_path / "out", overwrite=True)
    assert contents(made.folder) == whole
    (made.folder / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="its manifest is damaged"):
        generate_here(prepared, tmp_path / "out", run=never)
    generate_here(prepared, tmp_path / "out", overwrite=True)
    assert contents(made.folder) == whole
    generate_here(prepared, tmp_path / "out", overwrite=True, run=never)


def half(pieces, work, folder, total, workers, console) -> None:
    """The job, killed after half of its shards."""
    make_here(pieces[: len(pieces) // 2], work, folder, total - len(pieces) + len(pieces) // 2, workers, console)
    raise KeyboardInterrupt


def test_an_interrupted_one_is_gone_on_with(prepared: Recipe, tmp_path: Path) -> None:
    whole = contents(generate_here(prepared, tmp_path / "whole", epochs=2).folder)
    with pytest.raises(KeyboardInterrupt):
        generate_here(prepared, tmp_path / "cut", epochs=2, run=half)
    assert not (tmp_path / "cut").exists()
    with pytest.raises(InputError, match="it is not finished; run the same papermoth generate again"):
        open_data_set(tmp_path / "cut")
    made: list[str] = []

    def rest(pieces, *others) -> None:
        made.extend(piece.name for piece in pieces)
        make_here(pieces, *others)

    heard = Heard()
    finished = generate_here(prepared, tmp_path / "cut", epochs=2, heard=heard, run=rest)
    assert contents(finished.folder) == whole
    assert len(made) == len(finished.shards()) - len(finished.shards()) // 2
    assert f"{len(finished.shards()) // 2} of them made before" in heard.out
    assert not partial_of(tmp_path / "cut").exists()


def test_only_shards_that_are_whole_count_as_made(prepared: Recipe, tmp_path: Path) -> None:
    whole = contents(generate_here(prepared, tmp_path / "whole", epochs=4).folder)
    with pytest.raises(KeyboardInterrupt):
        generate_here(prepared, tmp_path / "cut", epochs=4, run=half)
    partial = partial_of(tmp_path / "cut")
    records = sorted((partial / RECORDS).iterdir())
    shards = [partial / MADE / DATA / record.name.removesuffix(".json") for record in records]
    assert len(shards) > 5
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:-1])
    data = shards[2].read_bytes()
    shards[2].write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    records[3].write_text("{")
    records[4].write_text(records[4].read_text().replace('"request": "', '"request": "0'))
    (partial / MADE / DATA / ".train-00000.parquet.77.tmp").write_bytes(b"left over")
    (partial / MADE / ".manifest.json.77.tmp").write_bytes(b"left over")
    made: list[str] = []

    def rest(pieces, *others) -> None:
        made.extend(piece.name for piece in pieces)
        make_here(pieces, *others)

    assert contents(generate_here(prepared, tmp_path / "cut", epochs=4, run=rest).folder) == whole
    assert {shard.name for shard in shards[:5]} <= set(made) and not {shard.name for shard in shards[5:]} & set(made)


def test_another_unfinished_one_is_refused_and_discarded_with_overwrite(prepared: Recipe, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        generate_here(prepared, tmp_path / "out", run=half)
    begun = contents(partial_of(tmp_path / "out"))
    with pytest.raises(InputError, match=r"another, unfinished data set lies in \.out\.partial beside it; finish it"):
        generate_here(prepared, tmp_path / "out", copies=2, run=never)
    assert contents(partial_of(tmp_path / "out")) == begun
    made = generate_here(prepared, tmp_path / "out", copies=2, overwrite=True)
    assert contents(made.folder) == contents(generate_here(prepared, tmp_path / "new", copies=2).folder)
    assert not partial_of(tmp_path / "out").exists()


def test_a_partial_folder_that_is_not_ours_is_refused(prepared: Recipe, tmp_path: Path) -> None:
    partial_of(tmp_path / "out").mkdir()
    (partial_of(tmp_path / "out") / f".{REQUEST}.5.tmp").touch()  # what a kill in the first moment leaves
    generate_here(prepared, tmp_path / "out")
    partial_of(tmp_path / "other").mkdir()
    (partial_of(tmp_path / "other") / "letter.txt").write_text("dear reader")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"\.other\.partial beside it is not ours; use another --out"):
            generate_here(prepared, tmp_path / "other", overwrite=overwrite, run=never)


class Crash(BaseException):
    """The end of the process, as far as the code under test can tell."""


CALLS = (("os", "rename"), ("os", "replace"), ("os", "fsync"), ("shutil", "rmtree"), ("shutil", "copytree"))


class Crashing:
    """Raises Crash before the nth call that changes names, whichever it is; a second crash follows at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.count, self.at = 0, at
        for module, name in CALLS:
            real = getattr({"os": os, "shutil": shutil}[module], name)
            monkeypatch.setattr(f"{module}.{name}", self._wrapped(real))

    def _wrapped(self, real):
        def call(*args, **kwargs):
            self.count += 1
            if self.count >= self.at:
                raise Crash
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("replacing", [False, True], ids=["new", "overwrite"])
def test_a_crash_at_any_point_leaves_the_old_or_the_new_and_a_rerun_ends_the_same(
    prepared: Recipe, tmp_path: Path, replacing: bool
) -> None:
    options = {"overwrite": replacing, "tokens": 20_000}
    whole = contents(generate_here(prepared, tmp_path / "whole", **options).folder)
    old = contents(generate_here(changed(prepared, "seed=9"), tmp_path / "old", tokens=20_000).folder)
    out, at, states = tmp_path / "out", 0, Counter[str]()
    while True:
        at += 1
        if replacing and not out.exists():
            shutil.copytree(tmp_path / "old", out)
        with pytest.MonkeyPatch.context() as patch:
            crashing = Crashing(patch, at)
            try:
                generate_here(prepared, out, **options)
                ended = True
            except Crash:
                ended = False
        if crashing.count < at:
            break
        # rmtree may end quietly where it ignores errors, but a crash is none
        found = contents(out) if out.exists() else None
        assert found in (None, old, whole)
        states["nothing" if found is None else "old" if found == old else "new"] += 1
        for folder in (partial_of(out), partial_of(out) / MADE):
            with pytest.raises(InputError):
                if (folder / MANIFEST).exists():
                    raise InputError("made", "everything is in it, and only the name is missing", "")
                open_data_set(folder)
        assert contents(generate_here(prepared, out, **options).folder) == whole, f"after call {at}"
        leftover = [
            path.name for path in tmp_path.iterdir() if path.name.startswith(".out") and "lock" not in path.name
        ]
        assert leftover == [], f"after call {at}"
        shutil.rmtree(out)
    assert ended and contents(out) == whole
    assert states["new"] and states["nothing" if not replacing else "old"]
    assert at > 20
