"""One MLflow run per job, whatever its workers and restarts: opened, described and finished by the driver.

The global active run of mlflow is never touched: every call names its store and its run. Opening a run may
fail; after that nothing here raises because the store cannot be reached: it warns, and training goes on.
"""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from corruption.errors import InputError
from pipelines.metric_logger import MetricLogger
from pipelines.run_parameters import describe_run
from pipelines.system_metrics import SystemMetrics
from pipelines.tracked_model import log_model_folder
from pipelines.tracking_names import LONGEST_TAG, clean_text, plain, shorten, store_name
from pipelines.tracking_store import (
    RunHandle,
    Warn,
    client,
    creating,
    how_to_open,
    impatient,
    log_warning,
    only_warns,
    resolve_uri,
    short_reason,
    sqlite_path,
    with_retries,
)

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

__all__ = [
    "MetricLogger",
    "RunHandle",
    "SystemMetrics",
    "finish_run",
    "how_to_open",
    "log_dataset",
    "log_model_folder",
    "metric_history",
    "open_run",
    "resolve_uri",
]


def open_run(
    uri: str,
    experiment: str,
    name: str,
    *,
    params: Mapping[str, object],
    tags: Mapping[str, str],
    run_id: str | None = None,
    warn: Warn = log_warning,
) -> RunHandle:
    """Open a new run, or reopen `run_id`, with the flat recipe as parameters and the identities as tags.

    The whole of `params` is also stored as the artifact recipe.json. When a run is reopened with other
    values, those are logged as "resume_<n>/<key>" and recipe.resume_<n>.json. Inside somebody else's active
    run the new run names it as its parent and leaves it open. A `run_id` that this store does not hold (the
    address changed) gives a new run that names the old one in a tag.

    Raises:
        InputError: if the store cannot be opened at all.
    """
    uri = resolve_uri(uri)
    where = f"tracking.uri {uri!r}"
    with impatient():
        try:
            with creating(uri):
                store = with_retries(lambda: _reach(uri), tries=3 if sqlite_path(uri) else 2)
                experiment_id = with_retries(lambda: _experiment(store, uri, experiment))
                run = with_retries(lambda: _find_run(store, run_id, warn)) if run_id else None
                reopened = run is not None
                if run is None:
                    first_tags = _system_tags(name) | _parent_tags(store)
                    if run_id:
                        first_tags["papermoth.continues"] = run_id
                    run = with_retries(
                        lambda: store.create_run(experiment_id, tags=first_tags, run_name=clean_text(name))
                    )
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                where,
                f"cannot be opened ({short_reason(error)})",
                "check the address, that the server runs and that you may write there, or track locally with "
                "sqlite:///runs/mlflow.db",
            ) from error
        handle = RunHandle(uri, run.info.run_id, experiment)
        with only_warns("writing the run's parameters", warn):
            describe_run(store, run, reopened, params, tags)
    return handle


def log_dataset(
    handle: RunHandle,
    *,
    name: str,
    digest: str,
    source: str,
    profile: Mapping[str, object],
    warn: Warn = log_warning,
) -> None:
    """Record the corpus as an input of the run; stores hold 36 characters of a digest, the profile all."""
    with only_warns("recording the data set", warn), impatient():
        store = client(handle.uri)  # before mlflow.entities: it sets what mlflow reads on import
        from mlflow.entities import Dataset, DatasetInput, InputTag

        described = {"digest": digest} | {str(key): plain(value) for key, value in profile.items()}
        entity = Dataset(
            name=shorten(name, 500, "cut"),
            digest=clean_text(digest)[:36],
            source_type="local",
            source=json.dumps(
                {"uri": shorten(source, LONGEST_TAG, "whole in recipe.json")}, ensure_ascii=False
            ),
            profile=json.dumps(described, ensure_ascii=False),
        )
        tag = InputTag("mlflow.data.context", "pretraining")
        with_retries(lambda: store.log_inputs(handle.run_id, [DatasetInput(entity, [tag])]))


def finish_run(
    handle: RunHandle, status: Literal["FINISHED", "FAILED", "KILLED"], warn: Warn = log_warning
) -> None:
    """Close the run with its outcome."""
    if status not in ("FINISHED", "FAILED", "KILLED"):
        raise ValueError(f"status {status!r} is not FINISHED, FAILED or KILLED")
    with only_warns(f"marking the run {status}", warn), impatient():
        store = client(handle.uri)
        with_retries(lambda: store.set_terminated(handle.run_id, status=status))


def metric_history(handle: RunHandle, key: str) -> list[tuple[int, float]]:
    """Read one metric back as (step, value), by step, one value a step.

    Raises:
        Exception: whatever mlflow raises if the store cannot be read.
    """
    history = client(handle.uri).get_metric_history(handle.run_id, store_name(key))
    first: dict[int, float] = {}
    for entry in sorted(history, key=lambda entry: entry.timestamp):
        first.setdefault(entry.step, entry.value)
    return sorted(first.items())


def _reach(uri: str) -> MlflowClient:
    store = client(uri)
    store.search_experiments(max_results=1)
    return store


def _experiment(store: MlflowClient, uri: str, name: str) -> str:
    found = store.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage == "deleted":
        raise InputError(
            f"tracking.experiment {name!r}",
            "it was deleted in this store",
            f"run `mlflow experiments restore --experiment-id {found.experiment_id}` or choose another name",
        )
    if found is not None:
        return str(found.experiment_id)
    path = sqlite_path(uri)
    artifacts = None if path is None else (path.parent / "artifacts" / store_name(name)).as_uri()
    try:
        return str(store.create_experiment(name, artifact_location=artifacts))
    except Exception:
        found = store.get_experiment_by_name(name)  # another job made it in between
        if found is None:
            raise
        return str(found.experiment_id)


def _find_run(store: MlflowClient, run_id: str, warn: Warn) -> Run | None:
    try:
        run = store.get_run(run_id)
    except Exception as error:
        if getattr(error, "error_code", "") not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
        warn(f"this tracking store does not hold run {run_id}; a new run continues it")
        return None
    if run.info.lifecycle_stage == "deleted":
        warn(f"run {run_id} was deleted in the tracking store; a new run continues it")
        return None
    return run


def _system_tags(name: str) -> dict[str, str]:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container whose user id has no name
        user = "unknown"
    return {"mlflow.user": clean_text(user), "mlflow.source.type": "LOCAL", "mlflow.source.name": "papermoth"}


def _parent_tags(store: MlflowClient) -> dict[str, str]:
    mlflow: Any = sys.modules.get("mlflow")
    outer = mlflow.active_run() if mlflow is not None and hasattr(mlflow, "active_run") else None
    if outer is None:
        return {}
    try:
        store.get_run(outer.info.run_id)
    except (
        Exception
    ):  # the caller tracks elsewhere: a parent this store does not know would hide the run in its table
        return {"papermoth.outer_run": outer.info.run_id}
    return {"mlflow.parentRunId": outer.info.run_id}
