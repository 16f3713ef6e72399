"""Prepare, disturbed: the store has the same bytes whatever the workers, and after a kill."""

from __future__ import annotations

import hashlib
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.disks import disk, remount
from tests.end_to_end.tiny import kill, papermoth, started, wait_for, write_corpus, write_recipe


def contents(folder: Path) -> dict[str, str]:
    """A hash of every file of a store, by name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About six megabytes of text in a few files, so that there are several parts to be cut off between."""
    folder = tmp_path_factory.mktemp("prepare")
    small = write_corpus(folder / "small")
    text = "\n\n".join(path.read_text("utf-8") for path in sorted(small.iterdir()))
    (folder / "corpus").mkdir()
    for number in range(6):
        body = "\n\n".join(f"{number}.{i}\n{text}" for i in range(1 + 1_000_000 // len(text)))
        (folder / "corpus" / f"{number}.txt").write_text(body, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def store(corpus: Path) -> Path:
    recipe = write_recipe(corpus / "tiny.yaml", corpus / "corpus")
    done = papermoth("prepare", recipe, "--out", "one", "--workers", "1", cwd=corpus)
    assert done.returncode == 0, done.stdout + done.stderr
    return corpus / "one"


@pytest.mark.timeout(400)
def test_two_workers_killed_and_run_again_end_in_the_same_bytes(corpus: Path, store: Path) -> None:
    target = corpus / "killed"
    arguments = ("prepare", corpus / "tiny.yaml", "--out", target, "--workers", "2")
    with started(*arguments, cwd=corpus) as process:
        wait_for(lambda: len(list(target.glob("parts/*.json"))) >= 1, process)
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        kill([member for member in family if member.is_running()])
    assert not (target / "manifest.json").exists()
    refused = papermoth("pretrain", corpus / "tiny.yaml", "--dry-run", cwd=corpus)
    assert refused.returncode == 2 and "not prepared yet" in refused.stderr

    again = papermoth(*arguments, cwd=corpus)
    assert again.returncode == 0, again.stdout + again.stderr
    assert contents(target) == contents(store)
    assert len([name for name in contents(store) if name.startswith("train-")]) >= 4


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_full_disk_is_one_line_and_the_finished_parts_stay(corpus: Path, store: Path, tmp_path: Path) -> None:
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 2**20
    place = tmp_path / "disk"
    arguments = ("prepare", corpus / "tiny.yaml", "--out", place / "store", "--workers", "1")
    with disk(place, size / 2) as mounted:
        if not mounted:
            pytest.skip("no file system can be mounted here")
        full = papermoth(*arguments, cwd=corpus)
        assert full.returncode == 1, full.stdout + full.stderr
        assert full.stderr == (
            f"papermoth: store {place / 'store'}: the disk is full (No space left on device); the parts that are "
            "finished are kept; free some space and run the same command again, which goes on from there\n"
        )
        assert len(list((place / "store" / "parts").glob("*.json"))) >= 1
        remount(place, "ro")
        refused = papermoth(*arguments, cwd=corpus)
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stdout + refused.stderr
        assert "it cannot be written to (Read-only file system)" in refused.stderr
        remount(place, f"rw,size={int(3 * size * 1024)}k")
        again = papermoth(*arguments, cwd=corpus)
        assert again.returncode == 0, again.stdout + again.stderr
        assert contents(place / "store") == contents(store)


def test_a_folder_with_something_else_is_never_written_to(corpus: Path, store: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    done = papermoth("prepare", corpus / "tiny.yaml", "--out", tmp_path, cwd=corpus)
    assert done.returncode == 2 and "not empty" in done.stderr
    fresh = papermoth("prepare", corpus / "tiny.yaml", "--out", tmp_path, "--fresh", cwd=corpus)
    assert fresh.returncode == 2 and (tmp_path / "letter.txt").exists()
