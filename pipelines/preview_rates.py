"""The last lines of a preview: what each step was asked for, and what it came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from corruption.ragged import Batch
from corruption.realised import realised
from corruption.schema import IGNORE, PATTERNS, REASONS
from corruption.vocabulary import Vocabulary
from pipelines.readable import counted


def count(before: Batch, after: Batch, vocabulary: Vocabulary) -> Counter[str]:
    """`corruption.realised.realised` of the rows that can be used, and what only a preview tells.

    dropped_<reason>: rows that cannot be used. input_choosable: tokens of the input that a step might have labelled.
    unlabelled: tokens that were replaced without being asked for. put_masks: mask tokens that stand for none or for a
    stretch. Counts of several batches may be added.
    """
    places = np.flatnonzero(after.usable)
    found = Counter({f"dropped_{reason}": int((after.unusable == 1 + i).sum()) for i, reason in enumerate(REASONS)})
    before, after = before.take(places), after.take(places)
    found.update(realised(before, after, vocabulary))
    tokens, origin = after.tokens.values, after.origin()
    asked = np.zeros(len(tokens), np.bool_)
    if "labels" in after.columns and after.aligned("labels"):
        asked = after.columns["labels"].values != IGNORE
    found["input_choosable"] = int((asked | (vocabulary.fixed[tokens] == 0)).sum())
    kept = origin.values >= 0
    row = np.repeat(np.arange(len(origin)), origin.lengths)
    stood = before.tokens.values[(before.tokens.offsets[row] + origin.values)[kept]]
    now = tokens[kept]
    found["unlabelled"] = int(((now != stood) & (now != _mask(vocabulary)) & ~asked[kept]).sum())
    found["put_masks"] = int(((tokens == _mask(vocabulary)) & ~kept & ~asked).sum())
    return found


def _mask(vocabulary: Vocabulary) -> int:
    return -1 if vocabulary.mask is None else vocabulary.mask


def rates(steps: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Names and texts of the lines. counts: as `count` gives them."""
    for step in steps:
        name = step["kind"] if step["name"] == step["kind"] else f"{step['kind']} ({step['name']})"
        fields = _fields({key: value for key, value in step.items() if key != "name"})
        yield "asked", f"{name}: {fields}" if fields else name
    name = "came to"
    for text in _came_to(counts):
        yield name, text
        name = ""


def _fields(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_said(value)}" for key, value in given.items() if key != "kind" and value is not None)


def _said(value: Any) -> str:
    """A configuration inside a configuration, or a list of them, as people would say it."""
    if isinstance(value, Mapping):
        kind, fields = str(value.get("kind", "")), _fields({k: v for k, v in value.items() if k != "name"})
        return f"{kind}({fields})" if fields else kind
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_said, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _came_to(counts: Mapping[str, int]) -> Iterator[str]:
    get = counts.get
    rows, tokens = get("rows", 0), get("tokens", 0)
    if "labelled" in counts:
        labelled, of = counts["labelled"], get("input_choosable", 0)
        line = f"{labelled} of {of} tokens labelled, rate {_ratio(labelled, of):.4f}"
        hidden = labelled - get("random", 0) - get("kept", 0)
        if labelled:
            for name, part in (("hidden", hidden), ("random", get("random", 0)), ("kept", get("kept", 0))):
                line += f", {name} {part / labelled:.3f}"
        yield line
    if replaced := get("unlabelled", 0):
        yield f"{replaced} of {tokens} tokens replaced without a label, rate {_ratio(replaced, tokens):.4f}"
    if "removed" in counts:
        removed, invented, moved = counts["removed"], get("invented", 0), get("moved", 0)
        marks = "".join(
            f"{name} {part}, "
            for name, part in (("hidden", get("put_masks", 0)), ("sentinels", get("sentinels", 0)))
            if part
        )
        yield (
            f"{removed} of {tokens} tokens taken out, rate {_ratio(removed, tokens):.4f}; {invented} put in"
            f"{f' ({marks[:-2]})' if marks else ''}; {moved} stand elsewhere, rate {_ratio(moved, tokens):.4f}"
        )
    for name, what in (("target_tokens", "to write"), ("positive_tokens", "in the other view")):
        if name in counts:
            yield f"{counts[name]} tokens {what}, {_ratio(counts[name], tokens):.4f} of the original"
    if "not_next" in counts:
        yield f"{counts['not_next']} of {rows} pairs do not follow, {_ratio(counts['not_next'], rows):.3f}"
    if patterns := [(name, counts[f"pattern_{name}"]) for name in PATTERNS if get(f"pattern_{name}")]:
        yield "attention " + ", ".join(f"{name.replace('_', ' ')} {part} of {rows}" for name, part in patterns)
    if dropped := [(reason, counts[f"dropped_{reason}"]) for reason in REASONS if get(f"dropped_{reason}")]:
        total = sum(part for _, part in dropped)
        reasons = ", ".join(f"{part} {reason.replace('_', ' ')}" for reason, part in dropped)
        yield f"{total} of {rows + total} passages left out: {reasons}"
    if not counts.keys() & {"labelled", "removed", "target_tokens", "positive_tokens", "not_next"}:
        yield counted(tokens, "token")


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
