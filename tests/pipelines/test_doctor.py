from __future__ import annotations

import sys

import pytest

from pipelines import doctor as module
from pipelines.doctor import (
    check_folder,
    check_numba_cache,
    check_package,
    check_python,
    check_ray,
    check_space,
    check_torch,
    doctor,
)
from pipelines.finding import Finding
from pipelines.outcome import JobFailed


def test_a_line_says_what_is_well_or_what_to_do():
    assert str(Finding("torch works")) == "ok torch works"
    assert str(Finding("no space", "free some")) == "!! no space; free some"


def test_python_and_packages(monkeypatch):
    assert not check_python((3, 11)).do and "3.11" in check_python((3, 10)).do
    assert not check_package("pyarrow").do and check_package("pyarrow").what.startswith("pyarrow ")
    assert check_package("no-such-thing").do == "pip install papermoth"
    monkeypatch.setattr(module, "version", lambda name: "2.9.1")
    assert "2.60" in check_package("ray").do and not check_package("numpy").do


def test_an_import_that_fails_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "torch cannot be imported" in check_torch().what and check_torch().do
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "Ray cannot be imported" in check_ray().what and check_ray().do


def test_ray_is_imported_and_not_started():
    import ray

    started = ray.is_initialized()
    assert not check_ray().do
    assert ray.is_initialized() == started


def test_folders_and_space(tmp_path):
    assert not check_folder(tmp_path).do
    assert "cannot be written to" in check_folder(tmp_path / "none").what
    assert list(tmp_path.iterdir()) == []
    assert not check_space("x", tmp_path, 1, "free some").do
    assert check_space("x", tmp_path, 1 << 60, "free some").do == "free some"


def test_numba_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new"))
    assert check_numba_cache().what.endswith("new") and not check_numba_cache().do
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "NUMBA_CACHE_DIR" in check_numba_cache().do


def test_the_outcome_counts_the_faults(monkeypatch):
    said = []
    monkeypatch.setattr(module, "findings", lambda *_: iter([Finding("a"), Finding("b", "mend b")]))
    with pytest.raises(JobFailed, match="1 of 2 checks") as failure:
        doctor(None, say=said.append)
    assert failure.value.exit_code == 1 and said == ["ok a", "!! b; mend b"]
    monkeypatch.setattr(module, "findings", lambda *_: iter([Finding("a")]))
    doctor(None, say=said.append)


def test_every_machine_check_has_a_line(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = list(module.findings(None))
    assert len(found) >= 15 and all(str(line).startswith(("ok ", "!! ")) for line in found)
