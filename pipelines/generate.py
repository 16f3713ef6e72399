"""Generate: a recipe's corrupted examples as a data set on disk, by a Ray Data job that can be interrupted."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from corruption.errors import InputError
from pipelines.console import Console
from pipelines.data_set import (
    DATA,
    TRAIN,
    DataSet,
    open_data_set,
    partial_of,
)
from pipelines.disk import writing
from pipelines.generate_finish import finish
from pipelines.generate_folder import MADE, RECORDS, claim, discard, existing, recover, same_request
from pipelines.generate_plan import Piece
from pipelines.generate_request import bind, of_recipe
from pipelines.generate_task import Work, attempt, failure
from pipelines.generator import open_generator
from pipelines.generator_replace import Replacing, actors
from pipelines.out_folder import alone, located
from pipelines.prepare import prepare
from pipelines.ray_session import PLUMBING, RaySession, on_cores
from pipelines.readable import amount, counted, shown
from pipelines.recipe import Recipe
from pipelines.recipe_text import name_only
from pipelines.store import digest_of


def generate(
    recipe: Recipe,
    *,
    out: Path,
    copies: int = 1,
    epochs: int = 1,
    files: Literal["parquet", "jsonl"] = "parquet",
    generator: str | None = None,
    temperature: float | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    address: str | None = None,
    tokens: int | None = None,
    console: Console,
) -> DataSet:
    """Write the recipe's data set, go on with it where it was, or find it there; prepares the store where missing.

    generator: folder or hub name of a masked language model that replaces the labelled tokens by its samples at
    `temperature` (None: 1); see `generator_replace`. workers: cores to keep busy, or a generator's copies (None: all
    cores here, or one copy a GPU; as Ray sees fit on a cluster). tokens: of passages in a shard (None: by the store's
    size). overwrite: replace another data set once this one is complete.
    Raises InputError for what the user can correct, JobFailed when the disk is full or a stored shard is damaged.
    """
    if temperature is not None and generator is None:
        raise InputError("--temperature", "it does nothing without --generator", "leave it out, or name a generator")
    model = None
    if generator is not None:
        model = open_generator(generator, 1.0 if temperature is None else temperature, recipe, files)
    folder = located(out)
    cpus = None if address is not None else (workers or os.cpu_count() or 1) + PLUMBING
    with ExitStack() as stack:
        with writing(f"--out {folder}"):
            stack.enter_context(alone(folder))
            recover(folder)
        there = existing(folder, overwrite=overwrite)
        wanted = {"seed": recipe.seed, "copies": copies, "epochs": epochs, "files": files, **of_recipe(recipe)}
        if model is not None:
            wanted["generator"] = model.identity()
        if there is not None and not overwrite:
            _refuse_other(there, {"generator": None, **wanted})
        session = stack.enter_context(RaySession(address, cpus=cpus))
        report = prepare(recipe, workers=workers, address=address, session=session, console=console)
        work, pieces, about = bind(recipe, report, folder, wanted, tokens)
        if model is not None:
            model.check(report.tokenizer)
            work, about = replace(work, generator=model), {**about, "generator_name": name_only(model.source)}
        if there is not None and _is_there(there, about, overwrite):
            if same_request(folder, work.identity):
                discard(partial_of(folder))
            console.say(f"the data set {shown(folder)} is there already: {_amount(there)}")
            return there
        _warn_of_weights(recipe, console)
        with writing(f"--out {folder}"):
            claim(folder, work.identity, overwrite=overwrite)
            missing = _missing(pieces, work)
        found = len(pieces) - len(missing)
        gone_on = f", {found:,} of them made before" if found else ""
        console.say(f"generating {counted(len(pieces), 'shard')} into {shown(folder)}{gone_on}")
        if missing:
            session.start()
            if workers is None and address is None:
                workers = os.cpu_count()
            _run(missing, work, folder, len(pieces), workers, console)
        with writing(f"--out {folder}", _kept(len(pieces), len(pieces))):
            finish(folder, pieces, work, about, recipe, report)
        made = open_data_set(folder)
        console.done("generate", shards=len(pieces), tokens=sum(made.manifest["tokens"].values()))
        _say(made, console)
        return made


def _refuse_other(there: DataSet, wanted: dict[str, Any]) -> None:
    """Before hours of preparing: refuse a folder whose data set differs in what is known already."""
    made = {**there.manifest, "corruption": there.manifest["recipe"]["corruption"]}
    for key, value in wanted.items():
        if made.get(key) != value:
            plain = isinstance(value, (int, str))
            raise _other(there, f"{key} {made.get(key)}, not {value}" if plain else f"other {key}")


def _other(there: DataSet, what: str) -> InputError:
    given = f"it holds another finished data set ({what})"
    return InputError(f"--out {shown(there.folder)}", given, "use another --out, or replace it with --overwrite")


def _is_there(there: DataSet, about: dict[str, Any], overwrite: bool) -> bool:
    """Whether the folder's data set is the one asked for, and whole.

    Raises InputError when it is another or damaged, unless it is to be overwritten, which looks more closely.
    """
    if there.identity == about["identity"]:
        if not overwrite:
            there.check_files()
            return True
        return not any(there.changed())
    if not overwrite:
        other = [key for key in ("store", "tokenizer") if there.manifest[key] != about[key]]
        raise _other(there, f"of another {' and '.join(other)}" if other else "cut into other shards")
    return False


def _warn_of_weights(recipe: Recipe, console: Console) -> None:
    if any(source.weight != 1.0 for source in recipe.corpus.sources):
        console.warn("the weights of the sources do not count here: a data set holds every passage equally often")


def _missing(pieces: Sequence[Piece], work: Work) -> list[Piece]:
    """The shards without a record of this request that fits the file; reads all that are there, in threads."""
    with ThreadPoolExecutor() as pool:
        records = pool.map(partial(_record, work=work), pieces)
        return [piece for piece, record in zip(pieces, records) if record is None]


def _record(piece: Piece, work: Work) -> dict[str, Any] | None:
    """What a shard's record says, without the request; None where there is none, or none that fits."""
    folder = Path(work.partial)
    try:
        record: dict[str, Any] = json.loads((folder / RECORDS / f"{piece.name}.json").read_text("utf-8"))
        path = folder / MADE / DATA / piece.name
        whole = path.stat().st_size == record["bytes"] and digest_of(path) == record["blake2b"]
    except (OSError, ValueError, KeyError):
        return None
    return record if whole and record.pop("request", None) == work.identity else None


def _run(pieces: Sequence[Piece], work: Work, folder: Path, total: int, workers: int | None, console: Console) -> None:
    """Make the shards. Raises InputError or JobFailed for the first that cannot be made."""
    import cloudpickle
    import ray.data

    table = pa.table({"piece": [cloudpickle.dumps(piece) for piece in pieces]})
    make: Any = _make_shards
    options: dict[str, Any] = {"fn_kwargs": {"work": work}, **on_cores(workers)}
    if work.generator is not None:
        make, options = Replacing, actors(work, len(pieces), workers)
    dataset = (
        ray.data.from_arrow(table)
        .repartition(target_num_rows_per_block=1, strict=True)
        .map_batches(make, batch_size=1, batch_format="pyarrow", **options)
    )
    follow(dataset.iter_rows(), folder, len(pieces), total, console)


def _make_shards(rows: pa.Table, work: Work) -> Iterator[pa.Table]:
    import cloudpickle

    for piece in rows["piece"].to_pylist():
        yield pa.Table.from_pylist([attempt(cloudpickle.loads(piece), work)])


def follow(results: Iterable[dict[str, Any]], folder: Path, count: int, total: int, console: Console) -> None:
    """Show how `count` of `total` shards come; raises what the first fault says, and RuntimeError if one is lost."""
    done, came = Counter[str](), total - count
    console.progress("generate", came, total, tokens=0, rows=0)
    for result in results:
        if result["fault"]:
            raise failure(result["fault"], folder, _kept(came, total))
        came += 1
        done.update(tokens=result["tokens"], rows=result["rows"])
        console.progress("generate", came, total, tokens=done["tokens"], rows=done["rows"])
    if came != total:
        raise RuntimeError(f"{came} of {total} shards came back: the job lost some")


def _kept(done: int, total: int) -> str:
    return f"; {done:,} of {counted(total, 'shard')} {'is' if done == 1 else 'are'} finished and kept"


def _say(made: DataSet, console: Console) -> None:
    console.say(f"data set {shown(made.folder)}: {_amount(made)}")
    for split, dropped in made.manifest["dropped"].items():
        if dropped:
            console.say(f"  left out of {split}: " + ", ".join(f"{n:,} {reason}" for reason, n in dropped.items()))
    found = made.manifest["realised"].get(TRAIN, {})
    if found.get("labelled"):
        console.say(
            f"  labelled {found['labelled']:,} of {found['choosable']:,} tokens that may be chosen, "
            f"rate {found['labelled'] / found['choosable']:.4f}"
        )
    if TRAIN in (shares := made.manifest.get("replaced_share", {})):
        console.say(
            f"  replaced {found['replaced']:,} of {found['selected']:,} selected tokens, share {shares[TRAIN]:.4f}"
        )


def _amount(made: DataSet) -> str:
    rows = " and ".join(f"{n:,} {split} rows" for split, n in made.manifest["rows"].items())
    size = sum(shard["bytes"] for shard in made.shards())
    return f"{rows} in {counted(len(made.shards()), 'shard')}, {amount(size, 'B')}"
