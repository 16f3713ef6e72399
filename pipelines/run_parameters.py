"""The recipe on its run: parameters, what a resume changed, identities as tags, the whole as a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipelines.tracking_names import LONGEST_TAG, clean_text, parameter_text, plain, shorten, store_name
from pipelines.tracking_store import with_retries

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

RESUMES = "papermoth.resumes"
_BATCH = 100  # parameters and tags a store takes at once


def describe_run(
    store: MlflowClient, run: Run, reopened: bool, params: Mapping[str, object], tags: Mapping[str, str]
) -> None:
    """Write parameters and tags to a new run, or to a reopened one what is new, with changes as
    "resume_<n>/<key>".

    Raises:
        Exception: whatever mlflow raises if the store does not take them.
    """
    run_id = run.info.run_id
    wanted = {store_name(key): (key, parameter_text(value)) for key, value in params.items()}
    known = dict(run.data.params) if reopened else {}
    resumes = int(run.data.tags.get(RESUMES, "0")) + 1 if reopened else 0
    written = {key: text for key, (_, text) in wanted.items() if key not in known}
    changed = {f"resume_{resumes}/{key}": text for key, text in _changes(known, wanted, resumes).items()}
    notes = {
        f"name.{key}": shorten(name, LONGEST_TAG, "cut") for key, (name, _) in wanted.items() if key != name
    }
    notes |= {store_name(key): shorten(str(value), LONGEST_TAG, "cut") for key, value in tags.items()}
    if reopened:
        with_retries(lambda: store.update_run(run_id, status="RUNNING"))
        # First, so that a start that breaks off here cannot make the next one write the same names again.
        with_retries(lambda: store.set_tag(run_id, RESUMES, str(resumes)))
    _write(store, run_id, written | changed, notes)
    if not reopened or changed:
        file = f"recipe.resume_{resumes}.json" if reopened else "recipe.json"
        with_retries(lambda: store.log_dict(run_id, _json_object(params), file))


def _changes(known: Mapping[str, str], wanted: Mapping[str, tuple[str, str]], resumes: int) -> dict[str, str]:
    """What differs from the values the run was last started with."""
    latest = {key: text for key, text in known.items() if not key.startswith("resume_")}
    for past in range(1, resumes):
        prefix = f"resume_{past}/"
        latest |= {key.removeprefix(prefix): text for key, text in known.items() if key.startswith(prefix)}
    changes = {key: text for key, (_, text) in wanted.items() if key in latest and latest[key] != text}
    gone = {key for key, text in latest.items() if key not in wanted and text != "(removed)"}
    return changes | dict.fromkeys(gone, "(removed)")


def _write(store: MlflowClient, run_id: str, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
    from mlflow.entities import Param, RunTag

    for some in _batches(params.items()):
        batch = [Param(key, text) for key, text in some]
        with_retries(partial(store.log_batch, run_id, params=batch))
    for some in _batches(tags.items()):
        marks = [RunTag(key, text) for key, text in some]
        with_retries(partial(store.log_batch, run_id, tags=marks))


def _batches(items: Any) -> Iterator[Sequence[tuple[str, str]]]:
    rest = iter(items)
    while some := list(islice(rest, _BATCH)):
        yield some


def _json_object(params: Mapping[str, object]) -> dict[str, Any]:
    return {clean_text(str(key)): plain(value) for key, value in params.items()}
