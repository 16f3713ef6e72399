"""How many threads torch may use on this machine."""

from __future__ import annotations

import os


def share_cores(processes: int = 1) -> None:
    """Divide the cores but one among so many processes; each gets one thread at the least.

    The one that is left is for the data tasks and for Ray. When torch's threads are as many as the cores and anything
    else runs, they wait for each other in every small operation: ten times slower was measured, where two free cores
    gain less than a factor of two.
    """
    import torch

    torch.set_num_threads(max(1, ((os.cpu_count() or 1) - 1) // processes))
