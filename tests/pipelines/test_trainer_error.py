"""A bug in a trainer reaches the user as that trainer's traceback, through the pickling that Ray Train does."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from corruption.errors import InputError
from pipelines import trainer_error
from pipelines.outcome import JobFailed
from pipelines.trainer_error import first_traceback, keep_traceback


def failed(error: Exception) -> Exception:
    """What arrives of an exception that a trainer raised."""
    try:
        raise error
    except Exception as raised:
        keep_traceback(raised)
        return pickle.loads(pickle.dumps(raised))


class Group(Exception):
    """As Ray Train's WorkerGroupError: failures by rank."""

    def __init__(self, failures: dict[int, Exception]) -> None:
        super().__init__("Training failed due to worker errors:\n[Rank 0 Error Snippet]: ...")
        self.worker_failures = failures


def test_the_one_that_failed_first_is_told_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5.0, 4.0])
    monkeypatch.setattr(trainer_error, "time", SimpleNamespace(time=lambda: next(clock)))
    collateral, cause = failed(RuntimeError("connection closed by peer")), failed(ZeroDivisionError("the bug"))
    told = first_traceback(Group({0: collateral, 1: cause}))
    assert told is not None and told.startswith("trainer 1 failed first:\nTraceback (most recent call last):")
    assert "raise error" in told and told.endswith("ZeroDivisionError: the bug\n") and "peer" not in told


def test_errors_that_bring_none_are_left_to_others() -> None:
    assert first_traceback(ValueError("x")) is None
    assert first_traceback(Group({0: RuntimeError("killed")})) is None


@pytest.mark.parametrize(
    "error", [InputError("a", "b", "c"), JobFailed("x"), UnicodeDecodeError("utf-8", b"x", 0, 1, "y")]
)
def test_exceptions_with_a_reduce_of_their_own_do_no_harm(error: Exception) -> None:
    first_traceback(Group({0: failed(error)}))


def test_ray_train_still_hands_over_failures_by_rank() -> None:
    from ray.train import WorkerGroupError

    cause = failed(ZeroDivisionError("the bug"))
    arrived = pickle.loads(pickle.dumps(WorkerGroupError("snippet", {3: cause})))
    assert (first_traceback(arrived) or "").startswith("trainer 3 failed first:\n")
