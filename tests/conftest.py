"""What holds for every test: how hypothesis searches, and compiled kernels that are never older than their source."""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: the first example pays for compiling a kernel.
_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# The same hundred examples on every run; five hundred new ones under `make soak`.
settings.register_profile("default", max_examples=100, derandomize=True, **_QUIET)
settings.register_profile("soak", max_examples=500, print_blob=True, **_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def _source_digest() -> str:
    """A hash of every module that holds or is inlined into a compiled kernel."""
    root = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*root.glob("corruption/**/*.py"), root / "pipelines" / "plan.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


# Numba's disk cache looks at the file of a kernel only, not at the files whose functions it inlines: after an edit of
# spans.py the old machine code of mask_rows would be tested. So each state of the sources has a cache of its own.
os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"papermoth-kernels-{_source_digest()}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that the processes of a test run end together."""
    items.sort(key=lambda item: "end_to_end" not in item.path.parts)
