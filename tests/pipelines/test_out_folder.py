from __future__ import annotations

from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines.out_folder import alone, is_empty, located


def test_nothing_there_and_an_empty_folder_are_empty(tmp_path: Path) -> None:
    assert is_empty(tmp_path / "new") and is_empty(tmp_path)
    (tmp_path / ".hidden").touch()
    assert not is_empty(tmp_path)


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt: it is a file; give an empty or new folder"):
        is_empty(tmp_path / "notes.txt")


def test_H_09_tilde_is_expanded_once_and_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert located(Path("~/~/d s")) == tmp_path / "~" / "d s"
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert located(Path("link")) == located(Path("link/")) == tmp_path / "real"
    assert is_empty(located(Path("link"))), "a link to nothing yet is a new folder"


def test_a_folder_belongs_to_one_command_at_a_time(tmp_path: Path) -> None:
    with alone(tmp_path / "run"):
        refused = pytest.raises(InputError, match="another command works in it; wait for it, or use another --out")
        with refused, alone(tmp_path / "run"):
            pass
    with alone(tmp_path / "run"):
        assert not (tmp_path / "run").exists(), "the lock lies beside the folder"
