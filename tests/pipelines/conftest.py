"""What tests of this folder share: one Ray, which takes seconds to start, one small run, one store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.job import Job
from pipelines.recipe import Recipe


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A local Ray with more CPUs than this machine has, so that data tasks and their plumbing all find room."""
    from pipelines.ray_session import RaySession

    with RaySession(cpus=8) as session:
        session.start()
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A BERT run of a small corpus: its store, and a model that has learnt nothing. Share it, alter nothing."""
    from tests.pipelines.small_run import finish, small_job, small_recipe, write_corpus

    folder = tmp_path_factory.mktemp("small")
    job = small_job(folder, small_recipe(folder, write_corpus(folder / "corpus.txt")))
    finish(job)
    return job


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe over a small store that is made. Share it, alter nothing."""
    from tests.pipelines.generated import stored_recipe

    return stored_recipe(tmp_path_factory.mktemp("prepared"))
