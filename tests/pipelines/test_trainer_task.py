"""What runs in each trainer, without Ray: its lanes of each step, the digests, the names of metrics."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from corruption.schema import IGNORE
from pipelines import trainer_task
from pipelines.plan import Address, Plan
from pipelines.stream import StreamBroken, deal
from pipelines.trainer_task import Digests, _metric, _steps, _unbroken, begun, work
from pipelines.window import Feed, read_window
from tests.pipelines.synthetic import digest, plan_and_feed, reference, write_store
from trainers.step import Step, StepsBroken

LANES, CHUNK = 3, 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Feed]:
    return plan_and_feed(write_store(tmp_path_factory.mktemp("store"), shards=2), lanes=LANES)


class Iterating:
    """What a trainer's iterator gives, from the plan and `deal` in a plain loop."""

    def __init__(self, run: tuple[Plan, Feed], rank: int, trainers: int, cursor: Address, steps: int) -> None:
        plan, feed = run
        each = -(-LANES // trainers) * CHUNK
        rows = [read_window(row, feed) for row in plan.table(cursor, (steps + 1) * LANES).to_pylist()]
        table = pa.concat_tables(rows)
        self.parts = [
            deal(table.slice(at, LANES * CHUNK), feed, trainers, CHUNK).slice(rank * each, each)
            for at in range(0, len(table), LANES * CHUNK)
        ]

    def iter_batches(self, *, batch_size: int, batch_format: str, drop_last: bool, **_: Any) -> Iterator[pa.Table]:
        assert batch_format == "pyarrow" and drop_last
        table = pa.concat_tables(self.parts).combine_chunks()
        yield from (table.slice(at, batch_size) for at in range(0, len(table), batch_size))


def steps(run: tuple[Plan, Feed], rank: int, trainers: int, first: int, count: int) -> list[Step]:
    cursor = run[0].address_of_step(first)
    found = _steps(Iterating(run, rank, trainers, cursor, count), run[1], trainers, cursor, first)
    return [next(found) for _ in range(count)]


class Heard:
    """A board's handle that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.broken = SimpleNamespace(remote=self.told.append)


def test_a_damaged_shard_is_told_and_anything_else_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop ends a run with StepsBroken after a checkpoint; all else restarts the trainers."""
    import ray

    monkeypatch.setattr(ray, "get", lambda found: found)
    line = "shard a.parquet: cannot be read (Page checksum); prepare the store again"

    def ending(error: Exception) -> Iterator[Any]:
        yield 1
        raise error

    board = Heard()
    found = _unbroken(ending(RuntimeError(f"ShardDamaged: {line}\n  in a task")), board)
    assert next(found) == 1
    with pytest.raises(StepsBroken) as broken:
        next(found)
    assert str(broken.value) == line and board.told == [line]
    board = Heard()
    with pytest.raises(ZeroDivisionError):
        list(_unbroken(ending(ZeroDivisionError()), board))
    assert not board.told


def test_the_first_step_is_fetched_before_it_is_asked_for() -> None:
    asked = threading.Event()

    def source() -> Iterator[Any]:
        asked.set()
        yield from (1, 2, 3)

    found = begun(source())
    assert asked.wait(10)
    assert list(found) == [1, 2, 3] and list(begun(iter(()))) == []


def test_a_stream_that_breaks_at_once_is_told_where_the_first_step_is_due() -> None:
    def source() -> Iterator[Any]:
        raise StreamBroken("gone")
        yield

    found = begun(source())
    with pytest.raises(StreamBroken, match="gone"):
        next(found)


@pytest.mark.parametrize("trainers", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 5])
def test_together_the_trainers_have_each_steps_lanes(run: tuple[Plan, Feed], trainers: int, first: int) -> None:
    plan, feed = run
    expected = reference(plan, feed, Address(0, 0, 0), first + 9)
    shares = [steps(run, rank, trainers, first, 9) for rank in range(trainers)]
    for place in range(9):
        number = first + place
        mine = [share[place] for share in shares]
        assert {step.number for step in mine} == {number}
        assert {step.cursor for step in mine} == {plan.address_of_step(number + 1)}
        lanes = sorted((lane for step in mine for lane in step.lanes), key=lambda lane: lane.number)
        assert [lane.number for lane in lanes] == list(range(LANES)), "no lane is missing, no filler is handed on"
        assert [digest(lane.columns, lane.lengths) for lane in lanes] == [d for _, d in expected[number]]
        labelled = sum(int((lane.columns["labels"] != IGNORE).sum()) for lane in lanes)
        # The counts and tokens are the whole step's, whatever the share: content tokens, without [CLS] and [SEP].
        assert {step.counts["mlm"] for step in mine} == {labelled}
        tokens = sum(int(lane.lengths.sum()) - 2 * len(lane.lengths) for lane in lanes)
        assert {step.tokens for step in mine} == {tokens}


def test_D_07_steps_go_on_through_the_epochs(run: tuple[Plan, Feed]) -> None:
    """Three epochs and a bit: a step is never empty, and those of later epochs have other noise."""
    plan, _ = run
    last = next(n for n in range(10_000) if plan.address_of_step(n).epoch == 3)
    seen = steps(run, 0, 1, 0, last)
    assert all(step.tokens > 0 and step.counts["mlm"] > 0 and len(step.lanes) == LANES for step in seen)
    examples = sum(len(lane.lengths) for step in seen for lane in step.lanes)
    stored = int(plan.row_groups.histogram.sum())
    assert 3 * stored <= examples <= 3 * stored + LANES * 200
    # A leftover microbatch of one row of one token may well look the same twice.
    prints = [digest(lane.columns, lane.lengths) for step in seen for lane in step.lanes if lane.lengths.sum() > 50]
    assert len(set(prints)) == len(prints) > 3 * LANES


def test_a_stream_from_another_place_is_refused(run: tuple[Plan, Feed]) -> None:
    plan, feed = run
    iterator = Iterating(run, 0, 1, plan.address_of_step(2), 3)
    with pytest.raises(StreamBroken, match="was due"):
        next(_steps(iterator, feed, 1, plan.address_of_step(1), 1))


def lines(path: Path) -> list[tuple[int, str]]:
    return [(line["step"], line["digest"]) for line in map(json.loads, path.read_text().splitlines())]


def test_digests_of_steps_that_are_replayed_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / "digests.jsonl"
    first = Digests(path, 0)
    for step in range(1, 8):
        first.put(step, f"{step:032x}")
    assert lines(path) == [(step, f"{step:032x}") for step in range(1, 8)], "each line is there at once"
    again = Digests(path, 5)
    again.put(6, "other")
    assert lines(path) == [*((step, f"{step:032x}") for step in range(1, 6)), (6, "other")]
    Digests(path, 0)
    assert lines(path) == []


@pytest.mark.parametrize("torn", ['{"step": 4, "dig', '{"step": 4', "{"])
def test_a_line_torn_by_a_kill_is_dropped(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "digests.jsonl"
    path.write_text('{"step": 1, "digest": "a"}\n{"step": 2, "digest": "b"}\n' + torn)
    Digests(path, 2).put(3, "c")
    assert lines(path) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("loss", "train/loss"),
        ("loss/mlm", "train/loss/mlm"),
        ("heldout/loss", "held_out/loss"),
        ("heldout/count/mlm", "held_out/count/mlm"),
    ],
)
def test_metrics_are_named_for_the_tracker(name: str, metric: str) -> None:
    assert _metric(name) == metric


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("first line\nsecond"), "trainer 1 stopped: ValueError: first line"),
        (RuntimeError(), "trainer 1 stopped: RuntimeError: "),
        (KeyError("x" * 900), f"trainer 1 stopped: KeyError: '{'x' * 299}"),
    ],
)
def test_a_failure_is_told_on_the_board_and_raised_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    import ray
    import ray.train

    def failing(config: dict[str, Any]) -> None:
        raise error

    said: list[str] = []
    board = SimpleNamespace(say=SimpleNamespace(remote=said.append))
    monkeypatch.setattr(trainer_task, "_work", failing)
    monkeypatch.setattr(ray, "get", lambda value: value)
    monkeypatch.setattr(ray.train, "get_context", lambda: SimpleNamespace(get_world_rank=lambda: 1))
    with pytest.raises(type(error)) as raised:
        work({"board": board})
    assert raised.value is error and said == [told]
