"""A run's identity: the hash of everything that changes its data or its weights, and of nothing else.

Checkpoints, manifests and tracked runs carry it. A run is only ever resumed under the identity it began with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipelines.recipe import Recipe, flattened

FREE_SECTIONS = ("cluster", "tracking", "evaluation")
"""Sections that may change on resume: who works, where it is recorded, how it is watched."""

FREE_TRAIN = ("steps", "log_every", "evaluate_every", "checkpoint_every", "keep_checkpoints")
"""Keys of `train` that may change on resume: the length of the run and how often it is looked at."""

_GIVEN = object()


def identity_parts(recipe: Recipe, *, corpus: str, tokenizer: str) -> dict[str, Any]:
    """Dotted keys to scalars of all that makes the run what it is.

    `corpus` is the identity in the store's manifest: it stands for the sources, which may move or be renamed.
    `tokenizer` is the vocabulary's fingerprint: it stands for the path or the training.
    """
    plain = recipe.plain()
    for section in FREE_SECTIONS:
        del plain[section]
    for key in FREE_TRAIN:
        del plain["train"][key]
    geometry = {key: plain["corpus"][key] for key in ("max_tokens", "held_out", "row_group_tokens")}
    plain["corpus"] = {"manifest": corpus, **geometry}
    plain["tokenizer"] = {"fingerprint": tokenizer}
    steps = [{key: value for key, value in step.items() if key != "name"} for step in plain.pop("corruption")]
    # Order is part of a chain, and the flat names of steps do not show it.
    order = [step["name"] for step in recipe.corruption]
    return {
        **flattened(plain),
        "corruption": ", ".join(order),
        **{
            key: value
            for name, step in zip(order, steps)
            for key, value in flattened(step, f"corruption.{name}").items()
        },
    }


def identity(parts: Mapping[str, Any]) -> str:
    """32 hex characters of BLAKE2b over the parts in key order; folders are named by the first 8."""
    text = json.dumps(dict(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The keys, sorted, whose values differ or which only one of the two has."""
    return sorted(key for key in {*a, *b} if a.get(key, _GIVEN) != b.get(key, _GIVEN))
