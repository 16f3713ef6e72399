"""Prepare: sources -> a passage store, as a Ray Data job that can be interrupted and run again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from corruption.errors import InputError
from corruption.vocabulary import Vocabulary
from pipelines.console import Console
from pipelines.disk import error_of, fault_of, not_written, writing
from pipelines.documents import Tally, nothing_usable
from pipelines.formats.unit import Unit
from pipelines.held_out import at_least_two_documents
from pipelines.out_folder import alone, is_empty, located
from pipelines.outcome import JobFailed
from pipelines.passages import PassageSettings
from pipelines.ray_session import PLUMBING, RaySession, on_cores
from pipelines.readable import shown
from pipelines.recipe import Recipe
from pipelines.shard_task import PARTS, ShardSettings, make_shards, part_name, read_group
from pipelines.store import MANIFEST, Store, json_bytes, open_store, write_atomically
from pipelines.store_writer import finish_store
from pipelines.tokenizer_job import ensure_tokenizer, files_fingerprint, is_trained

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

STORES = Path("stores")
REQUEST = "preparing.json"
QUARANTINE_FILE = "quarantine.jsonl"
GROUP_BYTES = 32 << 20
PART_BYTES = (1 << 20, 64 << 20)
"""Least and most text in a part; between them the corpus makes 64 parts."""
WORTH_A_WORD = 0.001
"""Share of characters in scripts without spaces from which a corpus without a words column is warned of."""

_KEPT = "; the parts that are finished are kept"

_PART_SCHEMA = pa.schema(
    [
        ("group", pa.int32()),
        ("part", pa.int32()),
        ("source", pa.int32()),
        ("last", pa.bool_()),
        ("documents", pa.large_binary()),
        ("tally", pa.large_string()),
        ("quarantine", pa.large_string()),
    ]
)


@dataclass(frozen=True)
class PrepareReport:
    """What `prepare` did: the store, whether it was there already, and what became of the rows."""

    store: Store
    tokenizer: PreTrainedTokenizerFast
    reused: bool
    tally: Tally


def prepare(
    recipe: Recipe,
    *,
    out: Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
    strict: bool = False,
    address: str | None = None,
    session: RaySession | None = None,
    only_look: bool = False,
    console: Console,
) -> PrepareReport:
    """Make the recipe's passage store, or find it made.

    workers: most shard tasks at a time (None: one a core here, as Ray sees fit on a cluster). session: a Ray to
    share with what comes after. only_look: find the store but make nothing. fresh: throw away what is in the folder.
    Raises InputError when nothing in the sources can be used or the folder belongs to something else, JobFailed under
    `strict` when a row was rejected.
    """
    from pipelines.tokenizers import load_tokenizer, tokenizer_fingerprint

    if recipe.corpus.store is not None:
        store = open_store(Path(recipe.corpus.store).expanduser().absolute())
        _same_settings(recipe, store)
        store.check_files()
        tokenizer = load_tokenizer(str(store.folder / "tokenizer"))
        console.say(f"using the store {store.folder}: {_amount(store)}")
        return PrepareReport(store, tokenizer, True, _tally(store.manifest["tally"]))
    from pipelines.sources import list_files, list_units

    sources = recipe.corpus.located()
    files = list_files(sources, Path.cwd())
    if only_look and not is_trained(recipe, files):
        raise _not_prepared(recipe)
    tokenizer = ensure_tokenizer(recipe, files, console=console)
    settings = _settings(recipe)
    request = {
        "files": files_fingerprint(files),
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "settings": settings,
    }
    name = hashlib.blake2b(json_bytes(request), digest_size=8).hexdigest()
    folder = located(out or STORES / name[:8])
    if fresh and folder.exists():
        _refuse_foreign(folder)
        shutil.rmtree(folder)
    if (folder / MANIFEST).exists():
        store = open_store(folder)
        if store.manifest.get("request") != name:
            raise InputError(f"store {folder}", "it was prepared from something else", "use another --out, or --fresh")
        store.check_files()
        console.say(f"reusing the store {shown(folder)}: {_amount(store)}")
        tally = _tally(store.manifest["tally"])
        _strict(strict, tally, folder)
        return PrepareReport(store, tokenizer, True, tally)
    if only_look:
        raise _not_prepared(recipe)
    with ExitStack() as stack:
        with writing(f"store {shown(folder)}"):
            stack.enter_context(alone(folder))
            _claim(folder, name)
        shard_settings = ShardSettings(
            str(folder),
            tokenizer.backend_tokenizer.to_str(),
            PassageSettings(budget=settings["budget"]),
            recipe.corpus.held_out,
            recipe.corpus.row_group_tokens,
            len(tokenizer),
        )
        units = list_units(sources, Path.cwd())
        console.say(f"preparing {len(files)} {'file' if len(files) == 1 else 'files'} into {shown(folder)}")
        if workers is None and address is None:
            workers = os.cpu_count()
        cpus = None if address is not None else (workers or 1) + PLUMBING
        with nullcontext(session) if session else RaySession(address, cpus=cpus) as ray:
            ray.start()
            names = _run(units, shard_settings, workers, console)
        about = {
            "request": name,
            "settings": settings,
            "tokenizer": request["tokenizer"],
            "tokenizer_name": _tokenizer_name(recipe),
            "sources": _sources(recipe, files),
        }
        with writing(f"store {shown(folder)}", _KEPT):
            store, tally = _finish(folder, names, about, tokenizer, recipe, console)
        _strict(strict, tally, folder)
        return PrepareReport(store, tokenizer, False, tally)


def _not_prepared(recipe: Recipe) -> InputError:
    return InputError(
        f"recipe {recipe.name}",
        "its store is not prepared yet, and --dry-run and --step make nothing",
        "run papermoth prepare first",
    )


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {
        "budget": recipe.content_tokens(),
        "held_out": recipe.corpus.held_out,
        "row_group_tokens": recipe.corpus.row_group_tokens,
    }


def _same_settings(recipe: Recipe, store: Store) -> None:
    """Refuse a store that was cut otherwise than the recipe says: the recipe's numbers would silently do nothing."""
    made, wanted = store.manifest["settings"], _settings(recipe)
    if wrong := [key for key in wanted if wanted[key] != made[key]]:
        key = wrong[0]
        name = {"budget": "corpus.max_tokens (without special tokens)"}.get(key, f"corpus.{key}")
        raise InputError(
            name, f"{wanted[key]}, but the store {store.folder} was made with {made[key]}", "make them equal"
        )


def grouped(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units in order, small ones of one source together: one group is one read task."""
    groups: list[list[Unit]] = []
    size = 0
    for unit in units:
        if not groups or groups[-1][0].source != unit.source or size + unit.size > GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(unit)
        size += unit.size
    return groups


def _run(units: Sequence[Unit], settings: ShardSettings, workers: int | None, console: Console) -> list[str]:
    """Run the job; returns the names of all parts, in order."""
    import cloudpickle
    import ray.data

    groups = grouped(units)
    total = sum(unit.size for unit in units)
    part_bytes = max(PART_BYTES[0], min(PART_BYTES[1], total // 64))
    table = pa.table(
        {"group": pa.array(range(len(groups)), pa.int32()), "units": [cloudpickle.dumps(g) for g in groups]}
    )
    parts: dict[int, dict[int, bool]] = {}
    done = Counter[str]()
    console.progress("prepare", 0, len(groups), tokens=0, documents=0)
    dataset = (
        ray.data.from_arrow(table)
        .repartition(target_num_rows_per_block=1, strict=True)
        .map_batches(
            _read,  # type: ignore[arg-type]
            batch_size=1,
            batch_format="pyarrow",
            fn_kwargs={"part_bytes": part_bytes},
        )
        .repartition(target_num_rows_per_block=1, strict=True)
        .map_batches(
            _make,  # type: ignore[arg-type]
            batch_size=1,
            batch_format="pyarrow",
            fn_kwargs={"settings": settings},
            **on_cores(workers),
        )
    )
    for line in dataset.iter_rows():
        if line["fault"]:
            error = error_of(json.loads(line["fault"]))
            raise not_written(error, f"store {shown(Path(settings.folder))}", _KEPT)
        parts.setdefault(line["group"], {})[line["part"]] = bool(line["last"])
        done.update(parts=1, documents=line["documents"], tokens=line["tokens"])
        read = sum(any(found.values()) for found in parts.values())
        console.progress("prepare", read, len(groups), tokens=done["tokens"], documents=done["documents"])
    for group in range(len(groups)):
        found = parts.get(group, {})
        if sorted(found) != list(range(len(found))) or sum(found.values()) != 1:
            raise RuntimeError(f"group {group} came back with parts {sorted(found)}: the job lost one")
    return [part_name(group, part) for group in sorted(parts) for part in sorted(parts[group])]


def _read(rows: pa.Table, part_bytes: int) -> Iterator[pa.Table]:
    import cloudpickle

    for group, units in zip(rows["group"].to_pylist(), rows["units"].to_pylist()):
        for part in read_group(cloudpickle.loads(units), group, part_bytes):
            yield pa.Table.from_pylist([part], schema=_PART_SCHEMA)


def _make(rows: pa.Table, settings: ShardSettings) -> Iterator[pa.Table]:
    for part in rows.to_pylist():
        try:
            line = {**make_shards(part, settings), "fault": ""}
        except OSError as error:
            nothing = dict.fromkeys(("group", "part", "last", "documents", "tokens"), 0)
            line = {**nothing, "fault": json.dumps(fault_of(error))}
        yield pa.Table.from_pylist([line])


def _finish(
    folder: Path, names: list[str], about: dict[str, Any], tokenizer: Any, recipe: Recipe, console: Console
) -> tuple[Store, Tally]:
    records = [json.loads((folder / PARTS / f"{name}.json").read_text("utf-8")) for name in names]
    tally, counts = Tally(), Counter[str]()
    for record in records:
        tally.merge(_tally(record["tally"]))
        counts.update(record["counts"])
    counts["shared_keys"] = (
        counts["documents"] - counts["documents_without_tokens"] - sum(record["documents"] for record in records)
    )
    counts = +counts
    if not tally.adds_up():
        raise RuntimeError(f"{tally.rows} rows read, but not all are accounted for: {tally.to_json()}")
    lines = [
        json.dumps(line, ensure_ascii=False, sort_keys=True) for record in records for line in record["quarantine"]
    ]
    write_atomically(folder / QUARANTINE_FILE, "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass"))
    _say_rejects(tally, counts, folder, console)
    try:
        if not counts["passages"]:
            raise nothing_usable(tally)
        shards = at_least_two_documents(folder, records, recipe.corpus.row_group_tokens)
    except InputError:
        shutil.rmtree(folder)
        raise
    tokenizer.save_pretrained(folder / "tokenizer")
    about = {**about, "tally": tally.to_json(), "counts": dict(sorted(counts.items()))}
    finish_store(folder, shards, about)
    listed = {shard["name"] for shard in shards}
    for path in folder.glob("*.parquet"):
        if path.name not in listed and path.name != "row_groups.parquet":
            path.unlink()
    shutil.rmtree(folder / PARTS)
    (folder / REQUEST).unlink()
    store = open_store(folder)
    console.done("prepare", documents=tally.documents, tokens=counts["tokens"])
    console.say(f"store {shown(folder)}: {_amount(store)}")
    return store, tally


def _say_rejects(tally: Tally, counts: Counter[str], folder: Path, console: Console) -> None:
    console.say(f"read {tally.rows} rows: {tally.documents} documents")
    for title, what in (("left out", tally.expected), ("rejected", tally.rejects), ("repaired", tally.notes)):
        if what:
            console.say(f"  {title}: " + ", ".join(f"{n} {reason}" for reason, n in what.most_common()))
    if tally.rejects:
        console.warn(f"{tally.rejects.total()} rows or files were rejected; see {shown(folder / QUARANTINE_FILE)}")
    if counts["shared_keys"]:
        console.warn(
            f"{counts['shared_keys']:,} documents bring a key that another one has: they share its noise and its side "
            "of the held-out split; give each document an id of its own"
        )
    if counts["unsegmented_characters"] > WORTH_A_WORD * counts["characters"]:
        console.warn(
            f"{counts['unsegmented_characters']:,} characters of Chinese, Japanese, Thai or another script without "
            f"spaces in {counts['unsegmented_documents']:,} documents without a words column: each counts as a word"
        )


def _strict(strict: bool, tally: Tally, folder: Path) -> None:
    if strict and tally.rejects:
        raise JobFailed(
            f"--strict: {tally.rejects.total()} rows or files were rejected; see {folder / QUARANTINE_FILE}"
        )


def _claim(folder: Path, request: str) -> None:
    """Take the folder for this request, or go on with an interrupted one; never write into another's folder."""
    marker = folder / REQUEST
    if marker.exists():
        if json.loads(marker.read_text("utf-8")).get("request") != request:
            raise InputError(f"store {folder}", "another, unfinished store lies there", "use another --out, or --fresh")
        return
    if not is_empty(folder):
        raise InputError(f"--out {folder}", "the folder is not empty", "give an empty or new folder")
    write_atomically(marker, json_bytes({"request": request}))


def _refuse_foreign(folder: Path) -> None:
    ours = (folder / MANIFEST).exists() or (folder / REQUEST).exists()
    if not is_empty(folder) and not ours:
        raise InputError(f"--out {folder}", "the folder holds no store of ours", "give an empty or new folder")


def _tally(plain: dict[str, Any]) -> Tally:
    reasons = {name: Counter(plain[name]) for name in ("rejects", "expected", "notes")}
    return Tally(plain["rows"], plain["documents"], **reasons)


def _sources(recipe: Recipe, files: Sequence[Unit]) -> list[dict[str, Any]]:
    found = []
    for i, source in enumerate(recipe.corpus.sources):
        own = [file for file in files if file.source == i]
        found.append({"name": source.name or "", "formats": sorted({f.format for f in own}), "files": len(own)})
    return found


def _tokenizer_name(recipe: Recipe) -> str:
    spec = recipe.tokenizer
    return spec.path if spec.path is not None else f"trained {spec.train.kind} {spec.train.vocab_size}"  # type: ignore[union-attr]


def _amount(store: Store) -> str:
    passages, tokens = store.manifest["passages"], store.manifest["tokens"]
    return (
        f"{passages['train']:,} passages and {tokens['train']:,} tokens to train on, "
        f"{passages['held_out']:,} passages held out"
    )


def vocabulary_of(tokenizer: PreTrainedTokenizerFast) -> Vocabulary:
    """The kernels' vocabulary of a tokenizer."""
    return Vocabulary.from_tokenizer(tokenizer)
