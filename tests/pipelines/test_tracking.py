"""Tracking against a real MLflow on sqlite: one run per job, whatever is thrown at it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corruption.errors import InputError
from pipelines import tracking, tracking_store
from pipelines.metric_record import MetricRecord, read_record
from pipelines.tracking import (
    MetricLogger,
    RunHandle,
    SystemMetrics,
    finish_run,
    log_dataset,
    log_model_folder,
    metric_history,
    open_run,
    resolve_uri,
)
from pipelines.tracking_names import (
    LONGEST_PARAMETER,
    metric_number,
    parameter_text,
    plain,
    step_number,
    store_name,
)
from pipelines.tracking_store import client

ILLEGAL = [
    "loss/mlm(%)",
    "recall@1",
    "len[0,5]",
    "a:b",
    "",
    "損失",
    "../x",
    "a//b",
    "x" * 300,
    "a(b",
    "a)b",
    "a=b",
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('tracking') / 'mlflow.db'}"


@pytest.fixture
def start(uri: str, request: pytest.FixtureRequest) -> Callable[..., RunHandle]:
    def opened(**options: Any) -> RunHandle:
        options = {"params": {"train.steps": 10}, "tags": {"identity": "abc"}} | options
        return open_run(uri, "tests", request.node.name, **options)

    return opened


def run_of(handle: RunHandle) -> Any:
    return client(handle.uri).get_run(handle.run_id)


def artifact(handle: RunHandle, name: str) -> Any:
    with contextlib.redirect_stderr(None):
        return json.loads(Path(client(handle.uri).download_artifacts(handle.run_id, name)).read_text())


def all_values(handle: RunHandle) -> dict[str, list[tuple[int, float]]]:
    store = client(handle.uri)
    return {
        key: [(entry.step, entry.value) for entry in store.get_metric_history(handle.run_id, key)]
        for key in run_of(handle).data.metrics
    }


# --- names, texts, numbers -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)  # the first call imports mlflow
@given(st.lists(st.one_of(st.text(max_size=300), st.sampled_from(ILLEGAL)), unique=True, max_size=30))
@example(["a(b", "a)b", store_name("a(b"), store_name(store_name("a(b"))])
@example([".", "..", " a", "a ", "a/", "/a", "a\n", "a\0", "\ud800"])
def test_E_02_names_are_legal_and_injective(names: list[str]) -> None:
    from mlflow.utils.validation import _validate_metric_name

    mapped = [store_name(name) for name in names]
    assert len(set(mapped)) == len(names)
    for name in mapped:
        _validate_metric_name(f"nonfinite.{name}")
        _validate_metric_name(f"resume_12/{name}")
        _validate_metric_name(name)
        assert len(name) <= 200


@pytest.mark.parametrize(
    "name", ["train/loss", "corruption.0.lengths.mean", "a:b", "損失", "a-b c", ".hidden"]
)
def test_legal_names_stay(name: str) -> None:
    assert store_name(name) == name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (0.1, "0.1"),
        (math.inf, '"inf"'),
        (np.int64(3), "3"),
        (["b", {"c": None}], '["b", {"c": null}]'),
        (Path("x/y"), "x/y"),
        ("a\ud83d\0b", "a\ufffd\ufffdb"),
    ],
)
def test_parameter_texts(value: object, text: str) -> None:
    assert parameter_text(value) in (text, json.dumps(text))


def test_E_01_shortened_values_say_so_and_still_differ() -> None:
    first, second = (parameter_text(["file.txt"] * 3000 + [last]) for last in ("a", "b"))
    assert len(first) == len(second) == LONGEST_PARAMETER and first != second
    assert "shortened from" in first and "recipe.json" in first
    assert parameter_text("é" * LONGEST_PARAMETER) == "é" * LONGEST_PARAMETER


@pytest.mark.parametrize(
    ("step", "read"),
    [
        (2, 2),
        (2.0, 2),
        (np.int64(2), 2),
        (np.float32(2), 2),
        (torch.tensor(2), 2),
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (-1, None),
        (None, None),
        (True, None),
        (torch.tensor(True), None),
        (2.5, None),
        (math.nan, None),
        (math.inf, None),
        ("2", None),
        ([2], None),
        (np.array([1, 2]), None),
    ],
)
def test_E_07_steps(step: object, read: int | None) -> None:
    got = step_number(step)
    assert got == read and type(got) is type(read)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, 1.0),
        (np.float16(0.5), 0.5),
        (np.array(0.5), 0.5),
        (np.array([0.5]), 0.5),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
        (torch.tensor(0.5, requires_grad=True), 0.5),
        (Decimal("0.5"), 0.5),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        ("0.5", None),
        ([0.5], None),
        (None, None),
        (1j, None),
        (np.array(["0.5"]), None),
        (np.datetime64("2020-01-01"), None),
        (torch.tensor([0.5, 1.0]), None),
        (torch.empty((), device="meta"), None),
        (object(), None),
    ],
)
def test_E_07_values(value: object, read: float | None) -> None:
    assert metric_number(value) == read


def test_signalling_nan_is_nan() -> None:
    value = metric_number(Decimal("sNaN"))
    assert value is not None and math.isnan(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_plain_is_strict_json(value: object) -> None:
    assert json.dumps(plain(value), allow_nan=False).encode()


# --- opening ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["plain", "with space", "50% %20 of", "a#b", "é損", "q?x", "it's [1]"])
def test_sqlite_addresses_lead_back_to_their_file(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.engine import make_url

    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    for given_uri in ("sqlite:///runs/mlflow.db", "runs/mlflow.db"):
        resolved = resolve_uri(given_uri)
        assert make_url(resolved).database == str(tmp_path / folder / "runs/mlflow.db")
        assert resolve_uri(resolved) == resolved


def test_home_is_expanded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_uri("sqlite:///~/m.db") == f"sqlite:///{tmp_path}/m.db"
    assert resolve_uri("~/m.db") == f"sqlite:///{tmp_path}/m.db"


def test_servers_pass_through() -> None:
    for address in ("http://host:5000", "https://u:p@host/x", "postgresql+psycopg2://h/d", "databricks"):
        assert resolve_uri(address) == address


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("file:///tmp/mlruns", "give a database"),
        ("mlruns", "give a database"),
        ("sqlite://", "lost with its process"),
        ("sqlite:///:memory:", "lost with its process"),
        ("ftp://x", "unknown scheme 'ftp'"),
        ("sqlite:////proc/nowhere/m.db", "cannot make its folder"),
        ("sqlite:////proc/version", "cannot be used"),
        ("http://127.0.0.1:9", "cannot be opened"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_line(address: str, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(InputError, match=said) as caught:
        open_run(address, "e", "r", params={}, tags={})
    assert address in str(caught.value) and "\n" not in str(caught.value)
    assert time.monotonic() - began < 10


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"this is text, not a database\n" * 100)
    with pytest.raises(InputError, match="not a database"):
        open_run(f"sqlite:///{tmp_path}/m.db", "e", "r", params={}, tags={})


def test_opening_puts_everything_in_its_place(start: Callable[..., RunHandle], uri: str) -> None:
    params = {
        "seed": 0,
        "corpus.source": ["a", "b"],
        "train.learning_rate": 1e-4,
        "init": None,
        "odd(key)": 1,
    }
    handle = start(params=params, tags={"recipe.identity": "abcd", "corpus": "ef"})
    assert pickle.loads(pickle.dumps(handle)) == handle and handle.uri == uri
    run = run_of(handle)
    assert run.info.status == "RUNNING"
    assert run.data.params == {
        "seed": "0",
        "corpus.source": '["a", "b"]',
        "train.learning_rate": "0.0001",
        "init": "null",
        store_name("odd(key)"): "1",
    }
    assert run.data.tags["recipe.identity"] == "abcd" and run.data.tags["corpus"] == "ef"
    assert run.data.tags[f"name.{store_name('odd(key)')}"] == "odd(key)"
    assert artifact(handle, "recipe.json") == params
    folder = Path(uri.removeprefix("sqlite:///")).parent
    assert run.info.artifact_uri.startswith((folder / "artifacts" / "tests").as_uri())
    finish_run(handle, "FINISHED")
    assert run_of(handle).info.status == "FINISHED"


def test_opening_leaves_the_working_directory_and_global_state_alone(
    start: Callable[..., RunHandle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    start()
    assert os.listdir(tmp_path) == []
    assert mlflow.active_run() is None and mlflow.get_tracking_uri() == before
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ


def test_more_parameters_than_a_request_takes(start: Callable[..., RunHandle]) -> None:
    handle = start(params={f"p.{i}": i for i in range(250)}, tags={f"t.{i}": "x" for i in range(150)})
    data = run_of(handle).data
    assert len(data.params) == 250 and sum(key.startswith("t.") for key in data.tags) == 150


def test_E_01_long_values(start: Callable[..., RunHandle]) -> None:
    config = {"corpus.source": "f/" * 5000, "nested": {"a": [None] * 3000}, "none": None, "é": "é" * 3000}
    handle = start(params=config)
    assert artifact(handle, "recipe.json") == config
    stored = run_of(handle).data.params
    assert set(stored) == set(config) and max(map(len, stored.values())) <= LONGEST_PARAMETER
    assert all("shortened from" in stored[key] for key in config if key != "none")


def test_E_05_resume_with_other_values(start: Callable[..., RunHandle]) -> None:
    first = {"train.steps": 10, "seed": 0, "gone": 1}
    handle = start(params=first)
    finish_run(handle, "KILLED")
    seconds = [
        {"train.steps": 20, "seed": 0, "new": 5},
        {"train.steps": 20, "seed": 0, "new": 5},
        {"train.steps": 10, "seed": 0, "new": 5, "gone": 2},
    ]
    for params in seconds:
        assert start(params=params, run_id=handle.run_id) == handle
        assert run_of(handle).info.status == "RUNNING"
    assert run_of(handle).data.params == {
        "train.steps": "10",
        "seed": "0",
        "gone": "1",
        "new": "5",
        "resume_1/train.steps": "20",
        "resume_1/gone": "(removed)",
        "resume_3/train.steps": "10",
        "resume_3/gone": "2",
    }
    assert artifact(handle, "recipe.json") == first
    assert artifact(handle, "recipe.resume_1.json") == seconds[0]
    assert artifact(handle, "recipe.resume_3.json") == seconds[2]
    assert run_of(handle).data.tags["papermoth.resumes"] == "3"


def test_resuming_a_run_the_store_does_not_hold_continues_in_a_new_one(
    start: Callable[..., RunHandle],
) -> None:
    warnings: list[str] = []
    handle = start(run_id="0" * 32, warn=warnings.append)
    assert handle.run_id != "0" * 32 and "new run continues it" in warnings[0]
    assert run_of(handle).data.tags["papermoth.continues"] == "0" * 32
    client(handle.uri).delete_run(handle.run_id)
    other = start(run_id=handle.run_id, warn=warnings.append)
    assert other.run_id != handle.run_id and "deleted" in warnings[1]


def test_E_06_inside_an_active_run(start: Callable[..., RunHandle], uri: str, tmp_path: Path) -> None:
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        mlflow.set_experiment("tests")
        with mlflow.start_run() as outer:
            handles = [start(), start()]  # twice in one process
            with MetricLogger(handles[0]) as logger:
                logger.log(1, {"loss": 1.0})
            for handle in handles:
                finish_run(handle, "FINISHED")
            assert mlflow.active_run().info.run_id == outer.info.run_id
            assert run_of(RunHandle(uri, outer.info.run_id, "tests")).info.status == "RUNNING"
            mlflow.log_metric("theirs", 1.0)
        assert mlflow.active_run() is None
    finally:
        mlflow.set_tracking_uri(before)
    for handle in handles:
        assert run_of(handle).data.tags["mlflow.parentRunId"] == outer.info.run_id
    assert "mlflow.parentRunId" not in run_of(start()).data.tags


def test_E_06_active_run_in_another_store(
    start: Callable[..., RunHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    class Elsewhere:
        class info:
            run_id = "f" * 32

    monkeypatch.setattr(mlflow, "active_run", lambda: Elsewhere)
    tags = run_of(start()).data.tags
    assert "mlflow.parentRunId" not in tags and tags["papermoth.outer_run"] == "f" * 32


def test_deleted_experiment_says_what_to_do(uri: str) -> None:
    handle = open_run(uri, "doomed", "r", params={}, tags={})
    store = client(uri)
    store.delete_experiment(run_of(handle).info.experiment_id)
    with pytest.raises(InputError, match="mlflow experiments restore"):
        open_run(uri, "doomed", "r", params={}, tags={})


# --- metrics ---------------------------------------------------------------------------------------------


def test_metrics_arrive_with_their_steps(start: Callable[..., RunHandle]) -> None:
    handle = start()
    with MetricLogger(handle) as logger:
        for step in range(0, 3000, 2):
            logger.log(step, {"train/loss": 10 - step / 1000, "train/tokens": step * 100})
        assert logger.flush()
        assert metric_history(handle, "train/loss") == [
            (step, 10 - step / 1000) for step in range(0, 3000, 2)
        ]
    assert (logger.stored, logger.skipped, logger.lost) == (3000, 0, 0)


def test_log_does_not_wait_for_the_store(
    start: Callable[..., RunHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = start()
    logger = MetricLogger(handle)
    store = logger._writer._store  # type: ignore[union-attr]
    real = store.log_batch
    monkeypatch.setattr(store, "log_batch", lambda *a, **k: (time.sleep(0.5), real(*a, **k)))
    slowest = 0.0
    for step in range(200):
        began = time.perf_counter()
        logger.log(step, {"loss": torch.tensor(0.5)})
        slowest = max(slowest, time.perf_counter() - began)
        time.sleep(0.001)
    assert slowest < 0.2
    assert not logger.flush(timeout=0.01)
    logger.close()
    assert len(metric_history(handle, "loss")) == 200


def test_D_12_replayed_steps_after_a_restart_are_logged_once(
    start: Callable[..., RunHandle], tmp_path: Path
) -> None:
    handle, record = start(), tmp_path / "metrics.jsonl"
    truth = {step: random.Random(step).random() for step in range(1, 61)}
    for first, last in ((1, 37), (21, 52), (41, 60), (1, 60)):  # each starts at an earlier checkpoint
        with MetricLogger(handle, record=record) as logger:
            for step in range(first, last + 1):
                logger.log(
                    step, {"train/loss": truth[step]} | ({"held_out/loss": 1.0} if step % 10 == 0 else {})
                )
                if step == 30:
                    logger.log(step, {"train/ppl": math.inf})
    values = all_values(handle)
    assert sorted(values["train/loss"]) == list(truth.items())
    assert sorted(values["held_out/loss"]) == [(step, 1.0) for step in range(10, 61, 10)]
    assert run_of(handle).data.tags["nonfinite.train/ppl"] == "inf@30"
    assert read_record(record)["train/loss"] == list(truth.items())
    assert read_record(record)["train/ppl"] == [(30, math.inf)]
    assert logger.stored == 0 and logger.skipped == 66


def test_E_02_illegal_metric_names(start: Callable[..., RunHandle]) -> None:
    handle = start()
    with MetricLogger(handle) as logger:
        for step in (1, 2):
            logger.log(step, {name: float(i) for i, name in enumerate(ILLEGAL)})
    data, values = run_of(handle).data, all_values(handle)
    assert len(values) == len(ILLEGAL) and logger.lost == 0
    for i, name in enumerate(ILLEGAL):
        mapped = store_name(name)
        assert sorted(values[mapped]) == [(1, float(i)), (2, float(i))]
        assert mapped == name or data.tags[f"name.{mapped}"] == name
    assert metric_history(handle, "recall@1") == [(1, 1.0), (2, 1.0)]


def test_E_03_values_that_are_not_finite(start: Callable[..., RunHandle], tmp_path: Path) -> None:
    handle, record = start(), tmp_path / "deep" / "metrics.jsonl"
    with MetricLogger(handle, record=record) as logger:
        logger.log(1, {"ppl": float(np.exp(np.float64(700.0))), "loss": 1.0})
        logger.log(2, {"ppl": np.float32(math.inf), "loss": torch.tensor(math.nan)})
        logger.log(3, {"ppl": -math.inf, "loss": 0.5, "bad@name": math.nan})
    values, tags = all_values(handle), run_of(handle).data.tags
    assert values["loss"] == [(1, 1.0), (3, 0.5)] and [step for step, _ in values["ppl"]] == [1]
    assert all(abs(value) < 1e305 for series in values.values() for _, value in series)
    assert tags["nonfinite.ppl"] == "inf@2,-inf@3" and tags["nonfinite.loss"] == "nan@2"
    assert tags[f"nonfinite.{store_name('bad@name')}"] == "nan@3"
    second = json.loads(record.read_text().splitlines()[1])
    assert second["ppl"] is None and second["nonfinite"] == {"ppl": "inf", "loss": "nan"}


def test_E_03_endless_nan_fills_no_tag(start: Callable[..., RunHandle]) -> None:
    handle = start()
    for _ in range(2):
        with MetricLogger(handle) as logger:
            for step in range(1000):
                logger.log(step, {"loss": math.nan})
    events = run_of(handle).data.tags["nonfinite.loss"].split(",")
    assert len(events) == 101 and events[0] == "nan@0" and events[-1] == "..."


def test_E_07_bad_types_give_one_warning_each(start: Callable[..., RunHandle]) -> None:
    handle, warnings = start(), []
    with MetricLogger(handle, warn=warnings.append) as logger:
        for step in range(3):
            logger.log(
                np.int64(step), {"train/grad_norm": torch.tensor(0.25, dtype=torch.bfloat16), "text": "0.5"}
            )
            logger.log(float(step), {"list": [1.0], "none": None, "decimal": Decimal("0.5")})  # type: ignore[arg-type]
            logger.log(-1, {"loss": 1.0})
            logger.log(None, {"loss": 1.0})  # type: ignore[arg-type]
            logger.log(True, {"loss": 1.0})
    assert all_values(handle) == {
        "train/grad_norm": [(0, 0.25), (1, 0.25), (2, 0.25)],
        "decimal": [(0, 0.5), (1, 0.5), (2, 0.5)],
    }
    stored = sqlite3.connect(handle.uri.removeprefix("sqlite:///"))
    kinds = stored.execute(
        "select distinct typeof(step) from metrics where run_uuid = ?", [handle.run_id]
    ).fetchall()
    stored.close()
    assert kinds == [("integer",)]
    assert warnings == [
        "metric 'text' is not a number but str ('0.5'); not logged",
        "metric 'list' is not a number but list ([1.0]); not logged",
        "metric 'none' is not a number but NoneType (None); not logged",
        "step int (-1) is not an integer >= 0; its metrics are not logged",
        "step NoneType (None) is not an integer >= 0; its metrics are not logged",
        "step bool (True) is not an integer >= 0; its metrics are not logged",
    ]


@contextlib.contextmanager
def broken(logger: MetricLogger) -> Iterator[list[int]]:
    """The store of this logger answers nothing but errors inside the block."""
    assert logger._writer is not None
    store, calls = logger._writer._store, [0]

    def refuse(*_: object, **__: object) -> None:
        calls[0] += 1
        raise ConnectionError("no route to host")

    real, store.log_batch = store.log_batch, refuse  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        store.log_batch = real  # type: ignore[method-assign]


def test_a_store_that_comes_back_gets_everything(start: Callable[..., RunHandle]) -> None:
    handle, warnings = start(), []
    logger = MetricLogger(handle, warn=warnings.append, longest_pause=0.3)
    logger.log(0, {"loss": 0.0})
    assert logger.flush()
    with broken(logger) as calls:
        for step in range(1, 50):
            logger.log(step, {"loss": float(step)})
        while calls[0] < 3:
            time.sleep(0.02)
        began = time.monotonic()
        assert not logger.flush(timeout=30)
        assert time.monotonic() - began < 1  # a failing store costs a checkpoint nothing
    deadline = time.monotonic() + 10
    while not logger.flush() and time.monotonic() < deadline:
        time.sleep(0.05)
    logger.close()
    assert metric_history(handle, "loss") == [(step, float(step)) for step in range(50)]
    assert logger.lost == 0 and len(warnings) == 1 and "training goes on" in warnings[0]


def test_a_store_that_stays_away_costs_only_the_metrics(
    start: Callable[..., RunHandle], tmp_path: Path
) -> None:
    handle, warnings, record = start(), [], tmp_path / "metrics.jsonl"
    logger = MetricLogger(handle, warn=warnings.append, record=record, capacity=20)
    with broken(logger) as calls:
        for step in range(50):
            logger.log(step, {"loss": float(step)})
            if step == 4:
                while not calls[0]:
                    time.sleep(0.01)
        logger.close(timeout=20)
        logger.close()
    logger.log(51, {"loss": 1.0})
    assert logger.lost == 50 and logger.stored == 0
    assert len(warnings) == 3 and "50 metric values did not reach" in warnings[1] and "closed" in warnings[2]
    assert len(read_record(record)["loss"]) == 50
    assert not logger._thread.is_alive()


def test_a_run_that_vanishes_stops_tracking_not_training(uri: str, start: Callable[..., RunHandle]) -> None:
    warnings: list[str] = []
    with MetricLogger(RunHandle(uri, "0" * 32, "tests"), warn=warnings.append) as logger:
        for step in range(5):
            logger.log(step, {"loss": 1.0})
        assert not logger.flush()
    assert logger.lost == 5 and "tracking is off" in warnings[0]


def test_a_refused_value_does_not_take_the_others_with_it(
    start: Callable[..., RunHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines import metric_writer

    handle, warnings = start(), []
    monkeypatch.setattr(metric_writer, "store_name", lambda name: name)
    with MetricLogger(handle, warn=warnings.append) as logger:
        for step in range(10):
            logger.log(step, {"good": 1.0, "bad(": 2.0})
    assert len(all_values(handle)["good"]) == 10
    assert (logger.stored, logger.lost) == (10, 10) and sum(
        "refuses metric 'bad('" in text for text in warnings
    ) == 1


def test_loggers_are_safe_from_several_threads(start: Callable[..., RunHandle]) -> None:
    handle = start()
    with MetricLogger(handle) as logger:
        threads = [
            threading.Thread(target=lambda k=k: [logger.log(step, {f"m{k}": 1.0}) for step in range(100)])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {key: len(series) for key, series in all_values(handle).items()} == {
        f"m{k}": 100 for k in range(4)
    }


E_04 = """
import sys
from pipelines.tracking import MetricLogger, finish_run, open_run
uri, name = sys.argv[1:]
handle = open_run(uri, "together", name, params={"name": name}, tags={})
with MetricLogger(handle) as logger:
    for step in range(100):
        logger.log(step, {"loss": step / 10})
finish_run(handle, "FINISHED")
print(handle.run_id, logger.stored, logger.lost)
"""


def test_E_04_processes_that_start_together_on_a_fresh_file(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", E_04, uri, f"job-{i}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(3)
    ]
    answers = [job.communicate(timeout=120) for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 3, answers
    assert [err for _, err in answers] == [""] * 3
    assert all(out.split()[1:] == ["100", "0"] for out, _ in answers)
    store = client(uri)
    experiment = store.get_experiment_by_name("together")
    assert experiment is not None
    runs = store.search_runs([experiment.experiment_id])
    assert sorted(run.data.params["name"] for run in runs) == [f"job-{i}" for i in range(3)]
    for run in runs:
        assert run.info.status == "FINISHED"
        assert len(store.get_metric_history(run.info.run_id, "loss")) == 100


# --- the local record ------------------------------------------------------------------------------------


def test_record_survives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    record = MetricRecord(path)
    for step in range(5):
        record.append(step, 0.0, {"loss": float(step), "損": math.nan})
    record.close()
    whole = path.read_bytes()
    for cut in range(len(whole) - 60, len(whole)):
        path.write_bytes(whole[:cut])
        again = MetricRecord(path)
        for step in range(2, 7):
            again.append(step, 0.0, {"loss": float(step)})
        again.close()
        assert read_record(path)["loss"] == [(step, float(step)) for step in range(7)]


def test_a_record_that_cannot_be_written_only_warns(start: Callable[..., RunHandle], tmp_path: Path) -> None:
    handle, warnings = start(), []
    (tmp_path / "file").write_text("")
    with MetricLogger(handle, warn=warnings.append, record=tmp_path / "file" / "metrics.jsonl") as logger:
        logger.log(1, {"loss": 1.0})
    assert metric_history(handle, "loss") == [(1, 1.0)] and "metric record" in warnings[0]


# --- data set, model, machine, end -----------------------------------------------------------------------


def test_dataset_is_an_input_of_the_run(start: Callable[..., RunHandle]) -> None:
    handle = start()
    for _ in range(2):  # a resumed job says it again
        log_dataset(
            handle,
            name="wiki",
            digest="ab" * 32,
            source="/data/wiki/*.parquet",
            profile={"tokens": np.int64(5)},
        )
    (given_input,) = run_of(handle).inputs.dataset_inputs
    assert given_input.dataset.name == "wiki" and given_input.dataset.digest == ("ab" * 32)[:36]
    assert json.loads(given_input.dataset.profile) == {"digest": "ab" * 32, "tokens": 5}
    assert json.loads(given_input.dataset.source) == {"uri": "/data/wiki/*.parquet"}
    assert {tag.key: tag.value for tag in given_input.tags} == {"mlflow.data.context": "pretraining"}


def test_model_folder_is_stored_and_searchable(start: Callable[..., RunHandle], tmp_path: Path) -> None:
    import mlflow

    handle = start()
    with MetricLogger(handle) as logger:
        logger.log(10, {"held_out/loss": 1.5, "train/loss": 2.0})
    (tmp_path / "config.json").write_text("{}")
    before = mlflow.get_tracking_uri()
    for _ in range(2):
        log_model_folder(
            handle,
            tmp_path,
            "bert: final",
            {"held_out/loss": 1.5, "train/loss": 1.9, "only/here": 0.5, "ppl": math.inf},
        )
    store = client(handle.uri)
    assert [file.path for file in store.list_artifacts(handle.run_id, "models/bert- final")] == [
        "models/bert- final/config.json"
    ]
    found = store.search_logged_models(
        [run_of(handle).info.experiment_id],
        filter_string=f"metrics.`held_out/loss` < 2 AND source_run_id = '{handle.run_id}'",
    )
    assert [(model.name, model.status.name) for model in found] == [("bert- final", "READY")]
    assert {metric.key: metric.value for metric in found[0].metrics} == {
        "held_out/loss": 1.5,
        "model/train/loss": 1.9,
        "only/here": 0.5,
    }
    values = all_values(handle)
    assert values["held_out/loss"] == [(10, 1.5)] and values["train/loss"] == [(10, 2.0)]
    assert all(len({step for step, _ in series}) == len(series) for series in values.values())
    assert mlflow.get_tracking_uri() == before


def test_losing_the_store_after_opening_only_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    handle = RunHandle("http://127.0.0.1:9", "0" * 32, "e")
    warnings: list[str] = []
    log_dataset(handle, name="n", digest="d", source="s", profile={}, warn=warnings.append)
    finish_run(handle, "FAILED", warn=warnings.append)
    log_model_folder(handle, tmp_path / "nothing", "m", {}, warn=warnings.append)
    assert [text.split(" failed")[0] for text in warnings] == [
        "tracking: recording the data set",
        "tracking: marking the run FAILED",
        "tracking: storing the model",
    ]
    assert all("\n" not in text and "the job goes on" in text for text in warnings)


def test_H_06_killed_run_says_so(start: Callable[..., RunHandle]) -> None:
    handle = start()
    finish_run(handle, "KILLED")
    assert run_of(handle).info.status == "KILLED"
    with pytest.raises(ValueError, match="STOPPED"):
        finish_run(handle, "STOPPED")  # type: ignore[arg-type]


def test_system_metrics_are_sampled_and_go_on_after_a_resume(
    start: Callable[..., RunHandle], capfd: pytest.CaptureFixture[str]
) -> None:
    handle, warnings = start(), []
    counts = []
    for _ in range(2):
        with SystemMetrics(handle, interval=0.1, warn=warnings.append):
            time.sleep(1.0)
        counts.append(len(metric_history(handle, "system/cpu_utilization_percentage")))
    history = metric_history(handle, "system/cpu_utilization_percentage")
    assert warnings == [] and 0 < counts[0] < counts[1]
    assert [step for step, _ in history] == list(range(len(history)))
    assert capfd.readouterr().err == ""
    assert run_of(handle).info.status == "RUNNING"


def test_system_metrics_that_cannot_start_only_warn(
    start: Callable[..., RunHandle], monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, warnings = start(), []
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setitem(sys.modules, "mlflow.system_metrics.system_metrics_monitor", None)
    with SystemMetrics(handle, warn=warnings.append):
        pass
    assert len(warnings) == 1 and "system metrics are off" in warnings[0]


def test_light_imports() -> None:
    code = (
        "import sys, pipelines.tracking\n"
        "heavy = {'mlflow', 'ray', 'torch', 'sqlalchemy', 'pandas'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""


def test_how_to_open() -> None:
    assert tracking.how_to_open("http://host:5000") == "http://host:5000"
    assert (
        tracking.how_to_open("sqlite:////a b/m.db") == "mlflow ui --backend-store-uri 'sqlite:////a b/m.db'"
    )


def test_retries_stop_where_they_cannot_help() -> None:
    calls = []

    def refused() -> None:
        calls.append(1)
        error = ValueError("no")
        error.error_code = "INVALID_PARAMETER_VALUE"  # type: ignore[attr-defined]
        raise error

    with pytest.raises(ValueError, match="no"):
        tracking_store.with_retries(refused)
    assert len(calls) == 1
    answers = iter([OSError("locked"), OSError("locked")])

    def locked_twice() -> str:
        for error in answers:
            raise error
        return "done"

    assert tracking_store.with_retries(locked_twice, first_pause=0.001) == "done"
