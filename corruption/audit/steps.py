"""The laws of a chain: of each of its steps, between the rows before it and the rows after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corruption.audit.align import equal
from corruption.audit.chance import Trial
from corruption.audit.edits import crop_laws, delete_laws, infill_laws, insert_laws, replace_laws
from corruption.audit.finding import Evidence, at_rows, saying
from corruption.audit.masking import (
    PLACES,
    RATE,
    Masking,
    label_laws,
    place_trials,
    rate_laws,
    recovered,
    replacement_laws,
)
from corruption.audit.order import order_laws
from corruption.audit.pairs import pair_laws, pattern_laws
from corruption.audit.reordered import rotation_laws, sentence_laws, shuffled_laws
from corruption.audit.sentinels import SPANS, merged, prefix_laws, sentinel_laws, without_mode
from corruption.audit.spans import run_laws
from corruption.audit.words import WORDS, word_laws
from corruption.chain import Chain, Corruption, Noise
from corruption.lengths import Shares
from corruption.noise import stream
from corruption.noise_kinds.mixture import Mixture, choose_chains
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

LENGTHS = "lengths"
"""Rows that a step must leave as long as they were."""

NO_SOURCE = "the passages are not at hand"

Law = Callable[[Any, Batch | None, Batch, Vocabulary], Evidence]


def step_laws(
    step: Corruption, before: Batch | None, after: Batch, vocabulary: Vocabulary, noise: Noise | None = None
) -> Evidence:
    """The laws of one corruption between a batch and what it made of it, row for row; usable rows only.

    before: None where it is not known; then what can be seen in the rows themselves. noise: the step's, which alone
    tells through which chain of a mixture a row went. Of a kind that has no laws nothing is checked, and said so.
    """
    if isinstance(step, Mixture):
        if noise is None:
            return Evidence(skipped=(("the laws of mixture", "which chain a row went through is not known"),))
        return mixture_laws(step, before, after, vocabulary, noise)
    law = LAWS.get(step.kind)
    if law is None:
        return Evidence(skipped=((f"the laws of {step.kind}", "there are none"),))
    if before is not None and step.kind in _KEEP:
        bad = before.tokens.lengths != after.tokens.lengths
        evidence = Evidence(
            at_rows(LENGTHS, bad, lambda i: f"{before.tokens.lengths[i]} tokens became {after.tokens.lengths[i]}"),
            laws=frozenset({LENGTHS}),
        )
        if bad.any():
            rows = np.flatnonzero(~bad)
            return evidence + law(step, before.take(rows), after.take(rows), vocabulary).within("", rows)
        return evidence + law(step, before, after, vocabulary)
    return law(step, before, after, vocabulary)


def chain_laws(
    chain: Chain,
    after: Batch,
    vocabulary: Vocabulary,
    *,
    stages: Sequence[Batch] | None = None,
    written: Ragged | None = None,
    seed: int | None = None,
    epoch: int = 0,
) -> Evidence:
    """The laws of all steps of a chain, from the last to the first.

    after: what the chain made, as it lies in a data set, of usable rows. stages: the passages and what each step but
    the last made of them, where the source is at hand. written: what a decoder must write, where that is the passage.
    seed and epoch: of the noise, where it is known.
    Without stages a step is undone where the rows say how, and the laws of steps before one that cannot be are skipped.
    """
    evidence, current = Evidence(), after
    for number in range(len(chain.steps) - 1, -1, -1):
        step = chain.steps[number]
        if stages is not None:
            before: Batch | None = stages[number]
        elif number == 0 and written is not None and "targets" not in after.columns:
            before = Batch(after.keys, {"tokens": written}, after.copies)
        else:
            before = None
        noise = None if seed is None else Noise.of(seed, chain.names[number], epoch)
        evidence += step_laws(step, before, current, vocabulary, noise)
        # What the rows tell of themselves is looked at rather than what they should be.
        undo = undone(step, current, vocabulary)
        known = before if undo is None else undo
        if known is None:
            skipped = tuple((f"the laws of {name}", NO_SOURCE) for name in chain.names[:number])
            return evidence + Evidence(skipped=skipped)
        current = known
    return evidence


def undone(step: Corruption, after: Batch, vocabulary: Vocabulary) -> Batch | None:
    """The batch before a step, where the rows after it tell it all; else None."""
    columns = {name: column for name, column in after.columns.items() if name not in step.provides}
    if step.kind == "mask":
        labels = after.columns["labels"]
        known = (labels.values >= 0) & (labels.values < vocabulary.size)
        labels = labels.with_values(np.where(known, labels.values, np.int32(IGNORE)))
        return replace(after, columns={**columns, "tokens": recovered(after.tokens, labels)})
    if step.kind in ("permutation_order", "attention_pattern"):
        return replace(after, columns=columns)
    if step.kind in ("span_sentinel", "prefix_split"):
        body, _ = without_mode(after.tokens, vocabulary, step.mode)  # type: ignore[attr-defined]
        kinds = np.full(vocabulary.size, -1, np.int32)
        kinds[list(vocabulary.sentinels)] = np.arange(len(vocabulary.sentinels))
        if step.kind == "span_sentinel":
            return Batch(after.keys, {"tokens": merged(body, after.columns["targets"], kinds)}, after.copies)
    return None


def _mask(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    tokens, labels, asked = after.tokens, after.columns["labels"], Masking.of(step)
    known = None if before is None else before.tokens
    was = recovered(tokens, labels) if known is None else known
    evidence = label_laws(tokens, labels, vocabulary, known) + replacement_laws(tokens, labels, vocabulary, asked)
    if step.unit == "token":
        evidence += rate_laws(was, labels, vocabulary, asked)
        return evidence + Evidence(trials=place_trials(was, labels, vocabulary), laws=frozenset({PLACES}))
    if before is None or "word_start" not in before.columns:
        why = "where words start is not known without the passages"
        return evidence + Evidence(skipped=((WORDS, why), (RATE, why)))
    evidence += word_laws(tokens, labels, was, before.columns["word_start"], vocabulary, asked)
    return evidence + (run_laws(before, labels, vocabulary, step) if step.unit == "span" else Evidence())


def _order(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    columns = after.columns
    evidence = order_laws(
        after.tokens,
        columns["permutation_order"],
        columns["labels"],
        vocabulary,
        step,
        None if before is None else before.tokens,
    )
    if before is None or "word_start" not in before.columns:
        return evidence + Evidence(skipped=((SPANS, "where words start is not known without the passages"),))
    return evidence + run_laws(before, columns["labels"], vocabulary, step)


def _sentinel(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    return sentinel_laws(
        after.tokens, after.columns["targets"], vocabulary, step, None if before is None else before.tokens
    )


def _prefix(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    return prefix_laws(
        after.tokens, after.columns["targets"], vocabulary, step, None if before is None else before.tokens
    )


def _pair(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    return pair_laws(before, after, step)


def _pattern(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    return pattern_laws(before, after, step)


def _needs(law: Callable[[Any, Batch, Batch, Vocabulary], Evidence]) -> Law:
    """A law that says nothing without the rows before it."""

    def held(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
        if before is None:
            return Evidence(skipped=((f"the laws of {step.kind}", NO_SOURCE),))
        return law(step, before, after, vocabulary)

    return held


def _views(step: Any, before: Batch | None, after: Batch, vocabulary: Vocabulary) -> Evidence:
    """Each view obeys the laws of its own chain; a view without steps is the passage."""
    evidence = Evidence(laws=frozenset({VIEWS}))
    for name, column, chain in (("first", "tokens", step.first), ("second", "positive", step.second)):
        view = after.columns[column]
        other = after.columns["positive" if column == "tokens" else "tokens"]
        known = before
        if before is None and not (step.second if name == "first" else step.first).steps:
            known = Batch(after.keys, {"tokens": other}, after.copies)
        empty, other_than = f"the {name} view is empty", f"the {name} view has no step, yet is not the passage"
        evidence += Evidence(at_rows(VIEWS, view.lengths == 0, saying(empty)))
        if known is None:
            evidence += Evidence(skipped=((f"the laws of the {name} view", NO_SOURCE),))
        elif not chain.steps:
            bad = ~equal(known.tokens, view)
            evidence += Evidence(at_rows(VIEWS, bad, saying(other_than)))
        elif len(chain.steps) == 1 and not chain.steps[0].provides:
            evidence += step_laws(chain.steps[0], known, Batch(after.keys, {"tokens": view}, after.copies), vocabulary)
        else:
            evidence += Evidence(
                skipped=((f"the laws of the {name} view", "it has several steps, or hides its answers"),)
            )
    return evidence


def mixture_laws(step: Mixture, before: Batch | None, after: Batch, vocabulary: Vocabulary, noise: Noise) -> Evidence:
    """Each row obeys the laws of the chain that was drawn for it, and each chain is drawn as often as its weight."""
    weights = np.array(step.weights or (1.0,) * len(step.chains))
    chosen = np.empty(len(after), np.int64)
    choose_chains(Shares(tuple(weights)).table()[1:], noise.prefix, after.keys, after.copies, chosen)
    evidence = Evidence(laws=frozenset({MIXTURE}))
    for number, chain in enumerate(step.chains):
        rows = np.flatnonzero(chosen == number)
        mean = float(len(after) * weights[number] / weights.sum())
        share = Trial(MIXTURE, f"rows of chain {number + 1}", len(rows), len(after), mean, mean)
        evidence += Evidence(trials=(share,))
        if len(chain.steps) != 1:
            evidence += Evidence(skipped=((f"the laws of chain {number + 1} of the mixture", "it has several steps"),))
        elif len(rows):
            known = None if before is None else before.take(rows)
            own = step_laws(chain.steps[0], known, after.take(rows), vocabulary, _inner(noise, chain.names[0]))
            evidence += own.within("", rows).named(f"chain {number + 1}")
    return evidence


def _inner(noise: Noise, name: str) -> Noise:
    return Noise(np.uint64(stream(int(noise.prefix), name)))


VIEWS, MIXTURE = "views", "mixture"

LAWS: Mapping[str, Law] = {
    "mask": _mask,
    "permutation_order": _order,
    "span_sentinel": _sentinel,
    "prefix_split": _prefix,
    "sentence_pair": _pair,
    "attention_pattern": _pattern,
    "infill": _needs(lambda step, before, after, v: infill_laws(before, after.tokens, v, step)),
    "delete": _needs(lambda step, before, after, v: delete_laws(before.tokens, after.tokens, v, step)),
    "insert_random": _needs(lambda step, before, after, v: insert_laws(before.tokens, after.tokens, v, step)),
    "replace_random": _needs(lambda step, before, after, v: replace_laws(before, after.tokens, v, step)),
    "crop": _needs(lambda step, before, after, v: crop_laws(before.tokens, after.tokens, step)),
    "rotate": _needs(lambda step, before, after, v: rotation_laws(before.tokens, after.tokens, step)),
    "shuffle_tokens": _needs(lambda step, before, after, v: shuffled_laws(before.tokens, after.tokens, step)),
    "shuffle_sentences": _needs(lambda step, before, after, v: sentence_laws(before, after.tokens, step)),
    "views": _views,
}
"""Kind -> its laws."""

_KEEP = frozenset({"mask", "permutation_order", "attention_pattern", "replace_random", "rotate", "shuffle_tokens"})
"""Kinds that leave a row as long as it was."""
