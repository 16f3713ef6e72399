"""One Ray for all tests of this folder that need one: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A local Ray with more CPUs than this machine has, so that data tasks and their plumbing all find room."""
    from pipelines.ray_session import RaySession

    with RaySession(cpus=8) as session:
        session.start()
        yield
