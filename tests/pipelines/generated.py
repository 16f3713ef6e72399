"""Data sets made in this process, without Ray, for tests of generate and of what reads its folders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from unittest import mock

from corruption.chain import Chain
from corruption.frames import Single
from corruption.noise_kinds import Mask
from pipelines import generate as generate_module
from pipelines import prepare as prepare_module
from pipelines.data_set import DataSet
from pipelines.generate import follow, generate
from pipelines.generate_plan import Piece
from pipelines.generate_task import Work, attempt
from pipelines.recipe import Recipe, load_recipe
from tests.pipelines.small_run import Heard, NoRay, one_after_another, prepare_here, small_recipe, write_corpus
from tests.pipelines.synthetic import VOCABULARY, write_store


class NoSession(NoRay):
    """Stands in for the class RaySession."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> NoSession:
        return self

    def __exit__(self, *_: object) -> None: ...


def make_here(pieces: Sequence[Piece], work: Work, folder: Path, total: int, workers, console) -> None:
    """What generate's Ray job does, in a loop."""
    follow((attempt(piece, work) for piece in pieces), folder, len(pieces), total, console)


def generate_here(recipe: Recipe, out: Path, *, heard: Heard | None = None, run=make_here, **options) -> DataSet:
    """`generate` without Ray; small shards unless told otherwise."""
    with ExitStack() as stack:
        for module, name, other in (
            (prepare_module, "_run", one_after_another),
            (generate_module, "_run", run),
            (generate_module, "RaySession", NoSession),
        ):
            stack.enter_context(mock.patch.object(module, name, other))
        console = (heard or Heard()).console
        return generate(recipe, out=out, console=console, **{"tokens": 4096, **options})


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its path below it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored_recipe(folder: Path) -> Recipe:
    """A small recipe whose store is named in it, so that nothing is prepared again."""
    recipe = small_recipe(folder, write_corpus(folder / "corpus.txt"))
    store = prepare_here(recipe, folder / "store").store.folder
    text = (folder / "small.yaml").read_text().splitlines()
    text[2] = f'corpus:     {{store: "{store}", max_tokens: 48, held_out: 0.2, row_group_tokens: 2048}}'
    (folder / "stored.yaml").write_text("\n".join(line for line in text if not line.startswith("tokenizer:")))
    return load_recipe(folder / "stored.yaml")


def changed(recipe: Recipe, *settings: str) -> Recipe:
    """The stored recipe with settings."""
    return load_recipe(Path(recipe.corpus.store).parent / "stored.yaml", settings)  # type: ignore[arg-type]


def never(*_: object) -> None:
    """Stands in for the Ray job where it must not run."""
    raise AssertionError("nothing is to be made")


@dataclass(frozen=True)
class Fussy:
    """A mask that cannot use passages of fewer than `least` tokens."""

    least: int
    kind: ClassVar[str] = "fussy"
    provides: ClassVar[tuple[str, ...]] = ("labels",)
    moves: ClassVar[bool] = False
    breaks: ClassVar[tuple[str, ...]] = ()

    def needs(self):
        return ("tokens",)

    def bounds(self, length):
        return {"tokens": length}

    def check(self, vocabulary, longest=None):
        pass

    def apply(self, batch, noise, vocabulary):
        return Mask().apply(batch, noise, vocabulary).mark(batch.tokens.lengths < self.least, "too_short")


def made_up_work(folder: Path, chain: Chain, **changes) -> Work:
    """What the tasks of a synthetic store must know."""
    store = write_store(folder / "store")
    work = Work("id", str(store), str(folder / ".x.partial"), 3, 5, 1, chain, Single(), VOCABULARY)
    return replace(work, **changes)
