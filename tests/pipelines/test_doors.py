"""Four doors and one job: windows of a run, Ray Data, `datasets` and a `DataLoader` give the same bytes."""

from __future__ import annotations

import warnings

import datasets
import numpy as np
import pyarrow as pa
import pytest
from torch.utils.data import DataLoader

from corruption import Chain, Corruptor, Mask
from corruption.registry import parse_step
from pipelines.plan import Address
from pipelines.store import open_store
from pipelines.window import read_window
from tests.pipelines.synthetic import VOCABULARY, plan_and_feed, write_store
from trainers.collator import Collator

SEED = 7
CHAINS = {
    "words": Chain((Mask(rate=0.3, unit="word"),)),
    "moving": Chain((parse_step({"kind": "rotate"}), Mask(rate=0.3))),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("store"), rows=40)


@pytest.fixture(scope="module")
def passages(store):
    """The training passages, as a user would read them from the store's Parquet files."""
    opened = open_store(store)
    names = ["key", "tokens", "word_start"]
    groups = zip(opened.train.shard, opened.train.number.tolist())
    return pa.concat_tables([opened.read(shard, [number], names) for shard, number in groups])


def of_the_run(store, chain, epoch):
    """{key: (input_ids, labels)} of an epoch's windows."""
    plan, feed = plan_and_feed(store, chain=chain, seed=SEED)
    found = {}
    for row in plan.table(Address(epoch, 0, 0), 1).to_pylist():
        if row["epoch"] != epoch:
            continue
        for microbatch in read_window(row, feed).to_pylist():
            ends = np.cumsum(microbatch["lengths"])[:-1]
            columns = [np.split(np.array(microbatch[f"column_{name}"]), ends) for name in ("input_ids", "labels")]
            for key, ids, labels in zip(microbatch["keys"], *columns):
                found[key] = (ids.tolist(), labels.tolist())
    return found


def by_key(table):
    columns = (table[name].to_pylist() for name in ("input_ids", "labels"))
    return dict(zip(table["key"].to_pylist(), zip(*columns)))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("epoch", [0, 2])
def test_every_door_gives_the_bytes_of_a_run(store, passages, name, epoch):
    chain = CHAINS[name]
    wanted = of_the_run(store, chain, epoch)
    assert len(wanted) == len(passages) == 120
    stage = Corruptor(chain, VOCABULARY, seed=SEED, epoch=epoch)
    assert by_key(stage(passages)) == wanted
    mapped = datasets.Dataset(passages).map(chain.batched(VOCABULARY, seed=SEED, epoch=epoch), batched=True)
    assert by_key(mapped.with_format("arrow")[:]) == wanted
    collator = Collator(chain, VOCABULARY, seed=SEED)
    loader = DataLoader(datasets.Dataset(passages), batch_size=16, collate_fn=collator, num_workers=2)
    collator.set_epoch(epoch)
    found = []
    for batch in loader:
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"]):
            n = int(mask.sum())
            found.append((ids[:n].tolist(), labels[:n].tolist()))
    assert dict(zip(passages["key"].to_pylist(), found)) == wanted


@pytest.mark.usefixtures("local_ray")
def test_the_stage_runs_in_ray_data(store, passages):
    import ray

    chain = CHAINS["words"]
    wanted = of_the_run(store, chain, 1)
    read = ray.data.from_arrow(passages).repartition(5)
    stage = Corruptor(chain, VOCABULARY, seed=SEED, epoch=1)
    for size in (7, 64):
        made = read.map_batches(stage, batch_format="pyarrow", batch_size=size)
        found = pa.concat_tables(ray.get(made.to_arrow_refs()))
        assert by_key(found) == wanted
        assert found.schema.field("input_ids").type == pa.list_(pa.int32())


@pytest.mark.usefixtures("local_ray")
def test_rows_that_fall_out_and_rows_that_go_along_in_ray_data():
    import ray

    rows = pa.table(
        {
            "tokens": [[9 + i, 10, 11][: 1 + 2 * (i % 2)] for i in range(40)],
            "sentence_start": [[1, 0, 1][: 1 + 2 * (i % 2)] for i in range(40)],
            "text": [f"text {i}" for i in range(40)],
        }
    )
    chain = Chain((parse_step({"kind": "sentence_pair", "task": "sop"}),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ray.data.from_arrow(rows).map_batches(Corruptor(chain, VOCABULARY), batch_format="pyarrow", batch_size=1)
        assert sorted(row["text"] for row in made.take_all()) == sorted(f"text {i}" for i in range(1, 40, 2))
