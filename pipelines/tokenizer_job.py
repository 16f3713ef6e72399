"""The recipe's tokenizer: loaded from its folder, or trained on the corpus once and found again."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from corruption.errors import InputError
from pipelines.documents import Document
from pipelines.formats.unit import Unit
from pipelines.store import json_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from pipelines.console import Console
    from pipelines.recipe import Recipe

TOKENIZERS = Path("stores") / "tokenizers"


def train(recipe: Recipe, *, out: Path | None = None, console: Console) -> Path:
    """Train the recipe's tokenizer, or find it trained; returns its folder.

    Raises InputError when the recipe names an existing tokenizer, or the corpus holds no usable text.
    """
    from pipelines.sources import list_files

    if recipe.tokenizer.train is None:
        raise InputError(
            "tokenizer.path",
            f"the recipe uses the tokenizer {recipe.tokenizer.path}",
            "give tokenizer.train to train one",
        )
    files = list_files(recipe.corpus.located(), Path.cwd())
    folder = trained_folder(recipe, files) if out is None else out.expanduser().absolute()
    if (folder / "tokenizer.json").exists():
        console.say(f"reusing the tokenizer {folder}")
        return folder
    _train(recipe, files, folder, console)
    return folder


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
        if not (folder / "tokenizer.json").exists():
            _train(recipe, files, folder, console)
        else:
            console.say(f"reusing the tokenizer {folder.parent.name}/{folder.name}")
        tokenizer = load_tokenizer(str(folder))
    check_tokenizer(tokenizer, OBJECTIVE_COLUMNS[recipe.objective.kind].needs_tokens, recipe.objective.kind, None)
    return tokenizer


def is_trained(recipe: Recipe, files: Sequence[Unit]) -> bool:
    """Whether the recipe's tokenizer is there without training it."""
    return recipe.tokenizer.train is None or (trained_folder(recipe, files) / "tokenizer.json").exists()


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


def sample_texts(files: Sequence[Unit], megabytes: int) -> Iterator[str]:
    """The first texts of the corpus in order, up to so many megabytes."""
    from pipelines.sources import read_unit

    left = megabytes << 20
    for file in files:
        for item in read_unit(file):
            if isinstance(item, Document):
                yield item.text
                left -= len(item.text.encode("utf-8", "surrogatepass"))
                if left <= 0:
                    return


def _train(recipe: Recipe, files: Sequence[Unit], folder: Path, console: Console) -> None:
    from pipelines.tokenizers import train_tokenizer

    spec = recipe.tokenizer.train
    assert spec is not None
    console.say(f"training a {spec.kind} tokenizer of {spec.vocab_size:,} tokens")
    tokenizer = train_tokenizer(
        sample_texts(files, spec.sample_mb), spec.kind, spec.vocab_size, lowercase=spec.lowercase
    )
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    tokenizer.save_pretrained(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    console.say(f"tokenizer {folder}: {len(tokenizer):,} tokens")
