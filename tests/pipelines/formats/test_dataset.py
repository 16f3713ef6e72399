"""Data sets of the datasets library: saved folders and hub names."""

from pathlib import Path
from typing import Any

import datasets
import pytest

from corruption.errors import InputError
from pipelines.sources import Source, list_files
from tests.pipelines.formats.reading import read


@pytest.fixture(scope="module")
def rows() -> datasets.Dataset:
    features = datasets.Features(
        {
            "body": datasets.Value("string"),
            "class": datasets.ClassLabel(names=["bad", "good"]),
            "n": datasets.Value("int64"),
        }
    )
    columns = {
        "body": [f"text {n}" for n in range(300)],
        "class": [n % 3 - 1 for n in range(300)],
        "n": list(range(300)),
    }
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("unit_bytes", [500, 1 << 30])
def test_a_saved_folder(tmp_path: Path, rows: datasets.Dataset, unit_bytes: int) -> None:
    rows.select(range(299, -1, -1)).save_to_disk(str(tmp_path / "saved"))
    got = read(tmp_path, "saved", unit_bytes=unit_bytes, text="body", label="class")
    assert got.texts == [f"text {n}" for n in range(299, -1, -1)]
    assert [document.label for document in got.documents[-3:]] == ["good", "bad", None]
    assert got.keys[:2] == ["saved:0", "saved:1"]
    assert read(tmp_path, "saved", text="body", id="n").keys[0] == "299"


def test_a_folder_of_splits(tmp_path: Path, rows: datasets.Dataset) -> None:
    datasets.DatasetDict(train=rows.select([0]), test=rows.select([1])).save_to_disk(str(tmp_path / "saved"))
    assert read(tmp_path, "saved", text="body", split="test").texts == ["text 1"]
    assert read(tmp_path, ".", text="body").texts == ["text 0"]  # found inside a folder too
    with pytest.raises(InputError, match=r"no split 'dev'; set split to one of \['test', 'train'\]"):
        read(tmp_path, "saved", text="body", split="dev")
    with pytest.raises(InputError, match="text: no file has a column 'text'"):
        read(tmp_path, "saved")


def test_broken_saved_folders_are_rejected(tmp_path: Path, rows: datasets.Dataset) -> None:
    rows.select([0]).save_to_disk(str(tmp_path / "a"))
    rows.select([1]).save_to_disk(str(tmp_path / "b"))
    next((tmp_path / "b").glob("*.arrow")).write_bytes(b"broken")
    got = read(tmp_path, {"source": ["a", "b"], "text": "body"})
    assert got.texts == ["text 0"] and [(r.file, r.reason) for r in got.rejects] == [("b", "unreadable")]


def test_a_hub_name_goes_through_load_dataset(
    tmp_path: Path, rows: datasets.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def load_dataset(name: str, config: str | None, *, split: str, revision: str | None) -> datasets.Dataset:
        asked.append((name, config, split, revision))
        if split == "nope":
            raise ValueError('Unknown split "nope". Should be one of ["train"].')
        return rows

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    spec = Source(source="hub:org/name", text="body", config="en", split="test", revision="abc")
    [unit] = list_files([spec], tmp_path)
    assert not asked and unit.relative == "org/name/test"
    got = read(
        tmp_path,
        {"source": "hub:org/name", "text": "body", "config": "en", "split": "test", "revision": "abc"},
    )
    assert got.texts[:2] == ["text 0", "text 1"] and got.keys[0] == "org/name/test:0"
    assert set(asked) == {("org/name", "en", "test", "abc")}
    with pytest.raises(InputError, match="Unknown split"):
        read(tmp_path, {"source": "hub:org/name", "text": "body", "split": "nope"})
