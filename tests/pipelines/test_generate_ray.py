"""Generate's Ray job: the same bytes as the plain loop, for any workers, and when workers are killed as they work."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.data_set import DataSet
from pipelines.generate import generate
from pipelines.recipe import Recipe
from tests.pipelines.generated import contents, generate_here
from tests.pipelines.hunting import hunted
from tests.pipelines.small_run import Heard, small_recipe, write_corpus


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, DataSet]:
    """The recipe, its store made, and its data set of some dozen shards, made in a loop."""
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        recipe = small_recipe(folder, write_corpus(folder / "corpus.txt"))
        return recipe, generate_here(recipe, folder / "plain", epochs=12, copies=2)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_ray_writes_the_bytes_of_the_plain_loop(
    local_ray: None,
    plain: tuple[Recipe, DataSet],
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    recipe, made = plain
    monkeypatch.chdir(made.folder.parent)
    heard = Heard()
    options = {"epochs": 12, "copies": 2, "tokens": 4096, "workers": workers}
    data = generate(recipe, out=tmp_path / "out", console=heard.console, **options)
    assert contents(data.folder) == contents(made.folder)
    total = len(made.shards())
    assert total > 48 and f"generate  {total}/{total}  100%" in heard.out


def test_ray_data_reads_it(local_ray: None, plain: tuple[Recipe, DataSet]) -> None:
    import ray.data

    made = plain[1]
    rows = ray.data.read_parquet(str(made.folder / "data"))
    assert rows.count() == sum(made.manifest["rows"].values())
    shard = made.read(made.shards("train")[0])
    read = ray.data.read_parquet(str(made.path(made.shards("train")[0]))).take_all()
    assert [list(row["input_ids"]) for row in read] == shard["input_ids"].to_pylist()


def test_killed_workers_are_retried_and_leave_the_same_bytes(
    local_ray: None, plain: tuple[Recipe, DataSet], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each worker that is killed was making a shard, whose result came all the same: Ray ran its task again."""
    recipe, made = plain
    monkeypatch.chdir(made.folder.parent)
    with hunted("_make_shards", 3) as killed:
        options = {"epochs": 12, "copies": 2, "tokens": 4096, "workers": 2}
        data = generate(recipe, out=tmp_path / "out", console=Heard().console, **options)
    assert contents(data.folder) == contents(made.folder)
    assert killed, "no worker was there to be killed: the test shows nothing"
