"""Who sees whom: the square masks that small columns stand for, for previews and tests.

A trainer builds the same masks on its device; these are what they must equal. Row i, column j is true where
position i sees position j.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corruption.errors import InputError
from corruption.schema import PATTERNS

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.integer]


def permutation_visibility(order: Ints, real: Bools | None = None) -> tuple[Bools, Bools]:
    """The masks bool[L, L] of the content stream and of the query stream, from a framed `permutation_order`.

    order: int[L], -1 at context, 0, 1, ... in the order of prediction elsewhere, [SEP] and [CLS] last. Both
    streams see all context and what comes earlier in the order; the content stream sees itself too. So context
    sees neither targets nor [SEP] nor [CLS], and a query never the token it asks for. real: bool[L], false on
    padding, which nobody sees and which sees nobody; all true unless given.

    Source: Yang et al. 2019 (XLNet), section 2.3.
    """
    query = (order[None, :] == -1) | (order[None, :] < order[:, None])
    return _real(query | np.eye(len(order), dtype=bool), real), _real(query, real)


def pattern_visibility(pattern: str, second: Bools, real: Bools | None = None) -> Bools:
    """The mask bool[L, L] of an attention pattern by its name in `schema.PATTERNS`.

    second: bool[L], true in the second segment, which in a framed row begins behind the first [SEP]; only
    "sequence_to_sequence" looks at it: everyone sees the first segment, the second sees itself up to its own
    place. real: as in `permutation_visibility`.

    Raises InputError for a name that is no pattern.
    Source: Dong et al. 2019 (UniLM), section 2.2 and figure 1.
    """
    n = len(second)
    everyone = np.ones((n, n), bool)
    if pattern == "bidirectional":
        seen = everyone
    elif pattern == "left_to_right":
        seen = np.tril(everyone)
    elif pattern == "right_to_left":
        seen = np.triu(everyone)
    elif pattern == "sequence_to_sequence":
        seen = ~second[None, :] | (second[:, None] & np.tril(everyone))
    else:
        raise InputError("attention pattern", f"unknown name {pattern!r}", f"choose one of {', '.join(PATTERNS)}")
    return _real(seen, real)


def _real(seen: Bools, real: Bools | None) -> Bools:
    return seen if real is None else seen & real[None, :] & real[:, None]
