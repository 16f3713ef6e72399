"""The recipe's tokenizer: loaded from its folder, or trained on the corpus once and found again."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from corruption.errors import InputError
from pipelines.documents import Document, Tally, nothing_usable
from pipelines.formats.unit import Unit
from pipelines.out_folder import is_empty, located
from pipelines.readable import shown
from pipelines.store import json_bytes
from trainers.folders import beside, put

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from pipelines.console import Console
    from pipelines.recipe import Recipe

TOKENIZERS = Path("stores") / "tokenizers"
_LONG_RUN = re.compile(r"\S{1000}(?=\S)")
_COMPLETE = "tokenizer.json"
"""Found only in a whole folder: it gets its name after its files are written."""


def train(recipe: Recipe, *, out: Path | None = None, console: Console) -> Path:
    """Train the recipe's tokenizer, or find it trained; returns its folder, a copy of it where `out` is given.

    Raises InputError when the recipe names an existing tokenizer, the corpus holds no usable text, or something else
    lies in `out`.
    """
    from pipelines.sources import list_files

    if recipe.tokenizer.train is None:
        raise InputError(
            "tokenizer.path",
            f"the recipe uses the tokenizer {recipe.tokenizer.path}",
            "give tokenizer.train to train one",
        )
    files = list_files(recipe.corpus.located(), Path.cwd())
    folder = trained_folder(recipe, files)
    target = folder if out is None else located(out)
    same = _same_files(folder, target) if out is not None else False
    if out is not None and not same and not is_empty(target):
        raise InputError(f"--out {out}", "something else lies in the folder", "give an empty or new folder")
    if not (folder / _COMPLETE).exists():
        _train(recipe, files, folder, console)
    else:
        console.say(f"reusing the tokenizer {shown(target if same else folder)}")
    if out is not None and not same:
        partial = beside(target)
        shutil.copytree(folder, partial, dirs_exist_ok=True)
        put(partial, target)
        console.say(f"copied it to {shown(target)}")
    return target


def _same_files(folder: Path, target: Path) -> bool:
    """Whether the trained tokenizer's files, and no others, lie in the target."""
    if not folder.is_dir() or not target.is_dir():
        return False
    here, there = ({p.name: p.read_bytes() for p in f.iterdir() if p.is_file()} for f in (folder, target))
    return here == there and len(here) == len(list(target.iterdir()))


def ensure_tokenizer(recipe: Recipe, files: Sequence[Unit], *, console: Console) -> PreTrainedTokenizerFast:
    """The recipe's tokenizer, checked for what its objective needs; trained first where it must be.

    Raises InputError for a tokenizer that lost its vocabulary or lacks a token.
    """
    from pipelines.tokenizers import check_tokenizer, load_tokenizer
    from trainers.objectives.columns import OBJECTIVE_COLUMNS

    if recipe.tokenizer.train is None:
        tokenizer = load_tokenizer(str(recipe.tokenizer.located()))
    else:
        folder = trained_folder(recipe, files)
        if not (folder / _COMPLETE).exists():
            _train(recipe, files, folder, console)
        else:
            console.say(f"reusing the tokenizer {shown(folder)}")
        tokenizer = load_tokenizer(str(folder))
    check_tokenizer(tokenizer, OBJECTIVE_COLUMNS[recipe.objective.kind].needs_tokens, recipe.objective.kind, None)
    return tokenizer


def is_trained(recipe: Recipe, files: Sequence[Unit]) -> bool:
    """Whether the recipe's tokenizer is there without training it."""
    return recipe.tokenizer.train is None or (trained_folder(recipe, files) / _COMPLETE).exists()


def files_fingerprint(files: Sequence[Unit]) -> str:
    """16 hex characters of what would be read: names, sizes, first and last bytes, and how it is read.

    Moving the sources' root changes nothing; nor does a source's weight, which acts when batches are planned.
    """
    seen = [[u.source, u.name, u.relative, u.format, u.codec, u.size, u.fingerprint, _how(u)] for u in files]
    return hashlib.blake2b(json_bytes(seen), digest_size=8).hexdigest()


def _how(unit: Unit) -> dict[str, object]:
    return unit.spec.model_dump(mode="json", exclude={"source", "weight"})


def trained_folder(recipe: Recipe, files: Sequence[Unit]) -> Path:
    """Where the recipe's trained tokenizer lies, trained or not: named by the text and the settings it comes from."""
    spec = recipe.tokenizer.train
    assert spec is not None
    text = json_bytes({"files": files_fingerprint(files), "train": spec.model_dump(mode="json")})
    return (TOKENIZERS / hashlib.blake2b(text, digest_size=4).hexdigest()).absolute()


def sample_texts(files: Sequence[Unit], megabytes: int, tally: Tally | None = None) -> Iterator[str]:
    """The first texts of the corpus in order, up to so many megabytes; `tally` counts what was read.

    Text without white space is broken every thousand characters: learning takes more than linear time in a word's
    length, and there is nothing to learn from a longer one.
    """
    from pipelines.sources import read_unit

    left = megabytes << 20
    for file in files:
        for item in read_unit(file):
            if tally is not None:
                tally.add(item)
            if isinstance(item, Document):
                yield _LONG_RUN.sub("\\g<0>\n", item.text)
                left -= len(item.text.encode("utf-8", "surrogatepass"))
                if left <= 0:
                    return


def _train(recipe: Recipe, files: Sequence[Unit], folder: Path, console: Console) -> None:
    from pipelines.tokenizers import train_tokenizer

    spec = recipe.tokenizer.train
    assert spec is not None
    console.say(f"training a {spec.kind} tokenizer of {spec.vocab_size:,} tokens")
    tally = Tally()
    texts = sample_texts(files, spec.sample_mb, tally)
    first = next(texts, None)
    if first is None:
        raise nothing_usable(tally)
    tokenizer = train_tokenizer(chain([first], texts), spec.kind, spec.vocab_size, **spec.options())
    partial = beside(folder)
    tokenizer.save_pretrained(partial)
    put(partial, folder)
    console.say(f"tokenizer {shown(folder)}: {len(tokenizer):,} tokens")
