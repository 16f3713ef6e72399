"""WHAT comes to stand at one position in place of its token: the mask, another ordinary token, or the token itself.

Compiled, for one position, with the randomness handed in, so that every corruption that replaces tokens follows the
same two rules: an invented token is ordinary, and it differs from the one it replaces.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from corruption.noise import below
from corruption.ragged import Int32


@njit(inline="always")
def other_token(token: int, bits: np.uint64, pool: Int32, rank: Int32) -> int:
    """An ordinary token, each one but `token` equally likely; `token` itself if the pool holds no other."""
    place = rank[token]
    others = len(pool) - (1 if place >= 0 else 0)
    if others == 0:
        return token
    j = np.int64(below(bits, np.uint64(others)))
    if place >= 0 and j >= place:
        j += 1
    return int(pool[j])


@njit(inline="always")
def masked_token(
    token: int,
    decision: float,
    bits: np.uint64,
    mask_id: int,
    mask_share: float,
    changed_share: float,
    pool: Int32,
    rank: Int32,
) -> int:
    """The mask if `decision` (in [0, 1)) is below `mask_share`, another token below `changed_share`, else `token`."""
    if decision < mask_share:
        return mask_id
    if decision >= changed_share:
        return token
    return other_token(token, bits, pool, rank)
