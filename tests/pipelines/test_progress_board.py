"""What trainer 0 puts on the board is shown once, and the last of it when the run ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pipelines import progress_board
from pipelines.progress_board import Board, StopPoll, Watcher


class Actor:
    """A board as Ray would hand it out, without Ray: `board.put.remote(...)` happens here and now."""

    def __init__(self) -> None:
        self.board = Board()
        self.failing = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.board, name)

        class Remote:
            @staticmethod
            def remote(*arguments: Any) -> Any:
                if self.failing > 0:
                    self.failing -= 1
                    raise ConnectionError("its node restarts")
                return method(*arguments)

        return Remote


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "get", lambda value, timeout=None: value)
    monkeypatch.setattr(progress_board, "POLL_SECONDS", 0.01)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def test_the_newest_number_of_each_name_is_kept_and_messages_are_taken_once() -> None:
    board = Board()
    assert board.take() == ({}, [])
    board.put({"step": 1, "train/loss": 9.0})
    board.put({"checkpoint": 1})
    board.put({"step": 2, "train/loss": 8.0})
    board.say("a")
    board.say("b")
    assert board.take() == ({"step": 2, "train/loss": 8.0, "checkpoint": 1}, ["a", "b"])
    assert board.take() == ({"step": 2, "train/loss": 8.0, "checkpoint": 1}, [])


def test_what_was_taken_does_not_change_any_more() -> None:
    board = Board()
    board.put({"step": 1})
    taken, _ = board.take()
    board.put({"step": 2})
    assert taken == {"step": 1}


def test_the_watcher_shows_each_step_once_and_every_message() -> None:
    actor, seen = Actor(), []
    watcher = Watcher(actor, lambda numbers, messages: seen.append((dict(numbers), messages)))
    for step in (1, 2):
        actor.board.put({"step": step})
        until(lambda step=step: bool(seen) and seen[-1][0].get("step") == step)
    actor.board.say("hello")
    until(lambda: bool(seen) and seen[-1][1] == ["hello"])
    time.sleep(0.05)
    actor.board.put({"step": 3})
    actor.board.say("the end")
    watcher.close()
    assert [numbers["step"] for numbers, _ in seen if numbers] == [1, 2, 3]
    assert [message for _, messages in seen for message in messages] == ["hello", "the end"]
    assert not watcher._thread.is_alive()


def test_a_board_out_of_reach_for_a_while_costs_nothing() -> None:
    actor, seen = Actor(), []
    actor.failing = 3
    watcher = Watcher(actor, lambda numbers, messages: seen.append(numbers))
    actor.board.put({"step": 7})
    until(lambda: bool(seen))
    watcher.close()
    assert [numbers["step"] for numbers in seen if numbers] == [7]


def test_a_board_that_died_is_told_at_the_end() -> None:
    actor, seen = Actor(), []
    actor.failing = 10**9
    watcher = Watcher(actor, lambda numbers, messages: seen.extend(messages))
    watcher.close()
    assert seen == ["the last progress is lost: ConnectionError"]


def test_the_drivers_wish_to_stop_reaches_the_trainer() -> None:
    actor = Actor()
    actor.failing = 1
    asked = StopPoll(actor)
    time.sleep(0.05)
    assert not asked()
    actor.board.stop()
    until(asked)
