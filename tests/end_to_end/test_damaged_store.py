"""A store that is damaged, or changed, after the start: one line that names the shard, a checkpoint, and a way on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.store import open_store
from tests.end_to_end.conftest import Made
from tests.end_to_end.tiny import digests, papermoth, write_recipe


def store_of(folder: Path) -> Path:
    """The one store below a working folder."""
    (found,) = (folder / "stores").glob("*/manifest.json")
    return found.parent


def flip(path: Path, row_group: int) -> None:
    """Turn one bit of the tokens of a row group, which no size and no footer tells."""
    chunk = pq.read_metadata(path).row_group(row_group).column(2)
    assert chunk.path_in_schema.startswith("tokens")
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 0x40
    path.write_bytes(data)


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("part", "trainers"), [("train", 2), ("held_out", 1)])
def test_a_bit_that_flipped_stops_the_run_in_one_line_and_mended_it_goes_on(
    undisturbed: Made, tmp_path: Path, part: str, trainers: int
) -> None:
    """Found by a task of the stream or, in what is held out, by the trainers; no restart tries it again for long."""
    shutil.copytree(undisturbed.folder / "stores", tmp_path / "stores")
    store = open_store(store_of(tmp_path))
    shard = (store.train if part == "train" else store.held_out).shard[-1]
    path, whole = store.folder / shard, (store.folder / shard).read_bytes()
    flip(path, 0)
    recipe = write_recipe(tmp_path / "damaged.yaml", undisturbed.corpus, trainers=trainers, checkpoint_every=10)
    broken = papermoth("pretrain", recipe, "--out", "run", cwd=tmp_path, timeout=150)
    assert broken.returncode == 1, broken.stdout + broken.stderr
    line = broken.stderr.strip().splitlines()[-1]
    assert line.startswith(f"papermoth: shard {path}: cannot be read") and "Traceback" not in broken.stderr

    path.write_bytes(whole)
    again = papermoth("pretrain", recipe, "--out", "run", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert digests(tmp_path / "run") == digests(undisturbed.run)


def test_a_shard_that_is_missing_or_cut_is_named_before_any_step(undisturbed: Made, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.folder / "stores", tmp_path / "stores")
    store = open_store(store_of(tmp_path))
    path = store.folder / store.train.shard[-1]
    path.write_bytes(path.read_bytes()[:-1])
    for told in ("bytes, the manifest says", "missing"):
        broken = papermoth("pretrain", undisturbed.recipe, "--out", "run", cwd=tmp_path)
        assert broken.returncode == 2 and not (tmp_path / "run").exists()
        (line,) = broken.stderr.strip().splitlines()
        assert path.name in line and told in line
        path.unlink(missing_ok=True)
