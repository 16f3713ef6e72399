"""Laws of permutation orders: which tokens are predicted, and each of them once, in an order of its own."""

from __future__ import annotations

import numpy as np

from corruption.audit.chance import Trial
from corruption.audit.finding import Evidence, at_positions, at_rows
from corruption.audit.masking import LABELS, RATE, UNTOUCHED, budget, per_row_sum
from corruption.noise_kinds.permutation_order import PermutationOrder
from corruption.ragged import Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

ORDER = "permutation order"


def order_laws(
    tokens: Ragged,
    order: Ragged,
    labels: Ragged,
    vocabulary: Vocabulary,
    step: PermutationOrder,
    original: Ragged | None = None,
) -> Evidence:
    """The targets of a row are numbered 0, 1, ..., each once; they and only they have labels, which are the tokens
    themselves; there are as many as the rate asks for, none special; of two targets either comes first as often.
    """
    shown, asked, place = tokens.values, labels.values, order.values
    target, chosen = place >= 0, asked != IGNORE
    fixed = vocabulary.fixed[shown] == 1
    n, k = per_row_sum(tokens, ~fixed), per_row_sum(order, target)
    row = np.repeat(np.arange(len(tokens)), tokens.lengths)
    # Numbers of a row sorted must be 0, 1, ...: the first that is not tells which is lost or stands twice.
    where = np.flatnonzero(target)
    where = where[np.lexsort((place[where], row[where]))]
    number = np.arange(len(where)) - np.append(0, np.cumsum(k))[:-1][row[where]]
    lost = np.zeros(len(shown), np.bool_)
    lost[where[place[where] != number]] = True
    wanted = np.where(tokens.lengths < 2, 0, budget(n, step.rate))
    findings = (
        *at_positions(ORDER, place < -1, order, lambda i: f"{place[i]} is no place in an order"),
        *at_positions(
            ORDER,
            lost,
            order,
            lambda i: (
                f"place {place[i]} stands where the order of the row's targets has another: one is lost or stands twice"
            ),
        ),
        *at_positions(
            ORDER,
            target != chosen,
            order,
            lambda i: "a target without a label" if target[i] else "a label where there is no target",
        ),
        *at_positions(
            LABELS, target & chosen & (shown != asked), labels, lambda i: f"label {asked[i]}, the token is {shown[i]}"
        ),
        *at_positions(ORDER, target & fixed, order, lambda i: f"the special token {shown[i]} is a target"),
        *at_rows(
            RATE,
            k != wanted,
            lambda i: f"{k[i]} of {n[i]} tokens are targets, rate {step.rate:.4f} asks for {wanted[i]}",
        ),
    )
    laws = {ORDER, LABELS, RATE}
    if original is not None:
        findings += at_positions(
            UNTOUCHED, shown != original.values, tokens, lambda i: f"{original.values[i]} became {shown[i]}"
        )
        laws.add(UNTOUCHED)
    # Neighbouring targets two by two: which of them is predicted first is a coin for each pair.
    held = np.flatnonzero(target)
    turn = np.arange(len(held)) - np.append(0, np.cumsum(k))[:-1][row[held]]
    left = np.flatnonzero((turn % 2 == 0) & (turn + 1 < k[row[held]]))
    hits, of = int((place[held[left]] < place[held[left + 1]]).sum()) if len(left) else 0, len(left)
    trial = Trial(ORDER, "pairs of targets predicted from left to right", hits, of, of / 2, of / 2)
    return Evidence(findings, (trial,), frozenset(laws))
