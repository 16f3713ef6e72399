"""Data sets made in this process, without Ray, for tests of generate and of what reads its folders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from pipelines import generate as generate_module
from pipelines import prepare as prepare_module
from pipelines.data_set import DataSet
from pipelines.generate import follow, generate
from pipelines.generate_plan import Piece
from pipelines.generate_task import Work, attempt
from pipelines.recipe import Recipe
from tests.pipelines.small_run import Heard, NoRay, one_after_another


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
