"""The stream through Ray against the plan read in a plain loop: equal for any trainers, resumes and kills."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from pipelines import stream
from pipelines.plan import Address, Plan
from pipelines.window import Feed
from tests.pipelines.hunting import hunted
from tests.pipelines.synthetic import digest, plan_and_feed, reference, write_store

STEPS, LANES = 40, 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Feed]:
    return plan_and_feed(write_store(tmp_path_factory.mktemp("store"), shards=4), lanes=LANES)


def consume(
    plan: Plan,
    feed: Feed,
    trainers: int,
    first: int,
    *,
    chunk: int = 4,
) -> dict[tuple[int, int], tuple[Address, str]]:
    """(step, lane) -> (address, digest) as trainers in threads receive it."""
    cursor = plan.address_of_step(first)
    dataset = stream.windows(plan, feed, cursor, STEPS - first, corruptors=2)
    iterators = stream.split(dataset, feed, trainers, chunk)
    got: dict[tuple[int, int], tuple[Address, str]] = {}
    failed: list[BaseException] = []

    def one(trainer: int) -> None:
        try:
            with closing(stream.steps(iterators[trainer], feed, trainers, cursor)) as source:
                for step, rows in enumerate(source, first):
                    if step == STEPS:
                        return
                    for i in range(len(rows)):
                        if rows["epoch"][i].as_py() != stream.FILLER:
                            address = Address(*(rows[c][i].as_py() for c in ("epoch", "window", "number")))
                            columns, lengths = stream.flat_columns(rows, i, feed.frame.columns)
                            got[step, rows["lane"][i].as_py()] = address, digest(columns, lengths)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(r,)) for r in range(trainers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed, failed
    return got


def expected(plan: Plan, feed: Feed, first: int = 0) -> dict[tuple[int, int], tuple[Address, str]]:
    steps = reference(plan, feed, Address(0, 0, 0), STEPS)
    return {(s, lane): steps[s][lane] for s in range(first, STEPS) for lane in range(LANES)}


# Two trainers share three lanes unevenly; the resumes begin inside a window, and on another number of trainers.
@pytest.mark.parametrize(
    ("trainers", "first"),
    [(2, 0), (3, 23), (1, 31), *(pytest.param(*case, marks=pytest.mark.soak) for case in ((1, 0), (3, 0), (2, 7)))],
)
def test_every_step_has_the_plans_microbatches(
    local_ray: None, run: tuple[Plan, Feed], trainers: int, first: int
) -> None:
    plan, feed = run
    assert consume(plan, feed, trainers, first) == expected(plan, feed, first)


def test_a_killed_data_worker_changes_nothing(local_ray: None, tmp_path: Path) -> None:
    """The first worker processes that are seen reading windows are killed as they read; Ray runs their tasks again."""
    plan, feed = plan_and_feed(write_store(tmp_path, shards=4), lanes=LANES, window_row_groups=1, seed=11)
    with hunted("_read_windows", 2) as killed:
        got = consume(plan, feed, 2, 0, chunk=1)
    assert got == expected(plan, feed)
    assert killed, "no worker was there to be killed: the test shows nothing"


def test_a_lost_window_is_noticed(local_ray: None, run: tuple[Plan, Feed]) -> None:
    plan, feed = run
    cursor = plan.address_of_step(5)
    iterators = stream.split(stream.windows(plan, feed, cursor, 10), feed, 1, 2)
    with pytest.raises(stream.StreamBroken, match=r"delivered .* where .* was due"):
        next(stream.steps(iterators[0], feed, 1, Address(0, 0, 0)))
