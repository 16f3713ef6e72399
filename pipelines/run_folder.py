"""A run's folder: what it was begun as, and how to bind it again to its store and model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corruption.errors import InputError
from pipelines.identity import differing
from pipelines.job import Job
from pipelines.out_folder import is_empty
from pipelines.readable import shown
from pipelines.recipe import Recipe
from pipelines.store import json_bytes, open_store, write_atomically

RUN = "run.json"
REDO = "use the version that began it, or begin it anew with --fresh"


def claim(folder: Path, job: Job) -> dict[str, Any]:
    """The run's record: found, or made. Raises InputError under another identity, or when the folder is foreign."""
    path = folder / RUN
    if path.exists():
        run = _read(path)
        if keys := differing(run["identity"], job.identity):
            told = ", ".join(f"{k} ({run['identity'].get(k)} there, {job.identity.get(k)} now)" for k in keys)
            raise InputError(
                f"run {folder}",
                f"it was begun with another {told}",
                "change it back, use another --out, or start anew with --fresh",
            )
        return run
    if not is_empty(folder):
        raise InputError(f"--out {folder}", "the folder is not empty and holds no run", "give an empty or new folder")
    run = {"identity": dict(job.identity), "recipe": job.recipe.plain(), "name": job.recipe.name, "store": job.store}
    write_atomically(path, json_bytes(run))
    return run


def refuse_foreign(folder: Path) -> None:
    """Raise InputError unless the folder is empty or a run's: --fresh must not remove anything else."""
    if not is_empty(folder) and not (folder / RUN).exists():
        raise InputError(f"--out {folder}", "the folder holds no run of ours", "give an empty or new folder")


def reopen(folder: Path) -> tuple[Job, dict[str, Any]]:
    """The job of a run's folder, and its record.

    Raises InputError when there is no run, or its store is gone or changed.
    """
    from pipelines.prepare import vocabulary_of
    from pipelines.tokenizers import load_tokenizer

    path = folder / RUN
    if not path.exists():
        raise InputError(f"run {folder}", f"it holds no {RUN}", "give the folder that pretrain printed")
    run = _read(path)
    try:
        recipe = Recipe.model_validate_json(json.dumps(run["recipe"]), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        given = f"its recipe is no longer one ({where}: {fault['msg']})"
        raise InputError(f"run {shown(folder)}", given, REDO) from None
    recipe._name = run["name"]
    store = open_store(Path(run["store"]))
    if store.identity != run["identity"]["corpus.manifest"]:
        raise InputError(f"store {store.folder}", "it is not the one the run was trained on", "prepare that one again")
    store.check_files()
    vocabulary = vocabulary_of(load_tokenizer(str(store.folder / "tokenizer")))
    return Job(recipe, str(store.folder), str(folder.absolute()), vocabulary, run["identity"]), run


def _read(path: Path) -> dict[str, Any]:
    try:
        run: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if missing := {"identity", "recipe", "name", "store"} - run.keys():
            raise ValueError(f"no {min(missing)}")
    except (ValueError, AttributeError) as error:
        given = f"its {path.name} is damaged ({error})"
        raise InputError(f"run {shown(path.parent)}", given, "begin anew with --fresh") from None
    return run
