"""A finished model folder on its run: its files as artifacts, and an entry to search by its metrics."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.tracking_names import clean_text, store_name
from pipelines.tracking_store import RunHandle, Warn, client, log_warning, only_warns, with_retries

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient


def log_model_folder(
    handle: RunHandle, folder: Path, name: str, metrics: Mapping[str, float], warn: Warn = log_warning
) -> None:
    """Store a model folder under the run's artifacts, with an entry that can be searched by its metrics.

    Doing it again for the same run and name replaces the files and adds no second model. Metrics that are not
    finite are left out.
    """
    with only_warns("storing the model", warn):
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder")
        store = client(handle.uri)
        model_name = "".join("-" if letter in "/:.%\"'" else letter for letter in clean_text(name)) or "model"
        # Not under the model's own name: mlflow would look there for a model, by its global address.
        store.log_artifacts(handle.run_id, str(folder), f"models/{model_name}")
        model_id = _external_model(store, handle, model_name)
        # A store would turn an infinity into the largest number.
        finite = {key: float(value) for key, value in metrics.items() if math.isfinite(value)}
        batch = [_model_metric(store, handle.run_id, key, value, model_id) for key, value in finite.items()]
        with_retries(lambda: store.log_batch(handle.run_id, metrics=batch))


def _external_model(store: MlflowClient, handle: RunHandle, name: str) -> str:
    experiment_id = store.get_run(handle.run_id).info.experiment_id
    found = store.search_logged_models(
        [experiment_id], filter_string=f"name = '{name}' AND source_run_id = '{handle.run_id}'"
    )
    if found:
        return str(found[0].model_id)
    # The steps of mlflow.create_external_model, which itself only knows the global tracking address.
    from mlflow.models.utils import get_external_mlflow_model_spec

    tags = {"mlflow.model.isExternal": "true", "files": f"runs:/{handle.run_id}/models/{name}"}
    model = store.create_logged_model(experiment_id, name=name, source_run_id=handle.run_id, tags=tags)
    with tempfile.TemporaryDirectory() as folder:
        get_external_mlflow_model_spec(model).save(str(Path(folder) / "MLmodel"))
        store.log_model_artifacts(model.model_id, folder)
    store.finalize_logged_model(model.model_id, "READY")
    return str(model.model_id)


def _model_metric(store: MlflowClient, run_id: str, key: str, value: float, model_id: str) -> Any:
    """A metric of the model that leaves the run with one value per step.

    The store writes a model's metric into the run's history too. Repeating the run's own last entry, to the
    millisecond, is taken as the same entry; a value of its own goes under "model/<key>".
    """
    from mlflow.entities import Metric

    key, now = store_name(key), int(time.time() * 1000)
    step = 0
    for name in (key, f"model/{key}"):
        last = max(store.get_metric_history(run_id, name), key=lambda entry: entry.step, default=None)
        if last is None:
            return Metric(name, value, now, step, model_id=model_id)
        if last.value == value:
            return Metric(name, value, last.timestamp, last.step, model_id=model_id)
        step = last.step
    return Metric(name, value, now, step + 1, model_id=model_id)
