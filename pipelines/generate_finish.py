"""The end of `generate`: the shards' records become a manifest and a card, and the folder gets its name."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corruption.errors import InputError
from pipelines.data_set import CARD, DATA, MANIFEST, RECIPE, SPLITS, TOKENIZER, partial_of
from pipelines.data_set_card import data_set_card
from pipelines.generate_folder import MADE, RECORDS, discard, put, tidy
from pipelines.generate_plan import Piece
from pipelines.generate_request import sections
from pipelines.generate_task import Work
from pipelines.generator_replace import replaced_shares
from pipelines.prepare import PrepareReport
from pipelines.readable import counted
from pipelines.recipe import Recipe
from pipelines.recipe_text import recipe_text
from pipelines.store import json_bytes, write_atomically


def finish(
    folder: Path,
    pieces: Sequence[Piece],
    work: Work,
    about: dict[str, Any],
    recipe: Recipe,
    report: PrepareReport,
) -> None:
    """Write what lies beside the finished shards and put the folder in its place.

    Raises InputError when no shard holds a row, after removing what was made.
    """
    shards = _records(pieces, work, folder)
    manifest = {**about, "shards": shards, **_sums(shards)}
    if work.generator is not None:
        manifest["replaced_share"] = replaced_shares(manifest["realised"])
    if not sum(manifest["rows"].values()):
        discard(partial_of(folder))
        told = ", ".join(f"{n} {reason}" for own in manifest["dropped"].values() for reason, n in sorted(own.items()))
        raise InputError("corpus", f"this corruption can use none of its passages ({told})", "change one of the two")
    made = Path(work.partial) / MADE
    tidy(made / DATA, {piece.name for piece in pieces})
    shutil.rmtree(made / TOKENIZER, ignore_errors=True)
    shutil.copytree(report.store.folder / "tokenizer", made / TOKENIZER, copy_function=shutil.copyfile)
    write_atomically(made / RECIPE, recipe_text(sections(recipe)).encode())
    write_atomically(made / CARD, data_set_card(manifest, report.store.manifest).encode())
    write_atomically(made / MANIFEST, json_bytes(manifest))
    tidy(made, {CARD, RECIPE, MANIFEST, TOKENIZER, DATA})
    put(folder)


def _records(pieces: Sequence[Piece], work: Work, folder: Path) -> list[dict[str, Any]]:
    """The manifest's entries of all shards. Raises InputError when some were written where this machine cannot see."""
    paths = [Path(work.partial) / RECORDS / f"{piece.name}.json" for piece in pieces]
    if away := sum(not path.exists() for path in paths):
        given = f"{counted(away, 'shard')} written by other machines cannot be seen from here"
        raise InputError(f"--out {folder}", given, "give a folder that all machines of the cluster share")
    records = [json.loads(path.read_text("utf-8")) for path in paths]
    return [{key: value for key, value in record.items() if key != "request"} for record in records]


def _sums(shards: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """rows, tokens, realised and dropped of each split that has shards."""
    found: dict[str, dict[str, Any]] = {"rows": {}, "tokens": {}, "realised": {}, "dropped": {}}
    for split in SPLITS:
        own = [shard for shard in shards if shard["split"] == split]
        if not own:
            continue
        for name in ("rows", "tokens"):
            found[name][split] = sum(shard[name] for shard in own)
        for name in ("realised", "dropped"):
            total = Counter[str]()
            for shard in own:
                total.update(shard[name])
            found[name][split] = dict(sorted(total.items()))
    return found
