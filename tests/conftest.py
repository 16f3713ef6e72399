"""How hypothesis works here: the same hundred examples on every run, five hundred new ones in `make soak`."""

import os

from hypothesis import HealthCheck, settings

# No deadline: the first example pays for compiling a kernel.
_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("default", max_examples=100, derandomize=True, **_QUIET)
settings.register_profile("soak", max_examples=500, print_blob=True, **_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
