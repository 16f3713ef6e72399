"""Objectives by name. To add one: a row in `columns.py`, a file here, a line in `PLACES`."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TYPE_CHECKING, Any

from corruption.errors import InputError
from corruption.registry import nearest
from trainers.objectives.columns import OBJECTIVE_COLUMNS

if TYPE_CHECKING:
    from trainers.objectives.protocol import Objective

PLACES = {"mlm": "trainers.objectives.mlm:MaskedLanguageModel"}
"""Where each kind's class is; imported only when asked for, since it brings torch."""


def check_kind(kind: str) -> str:
    """The kind itself, without importing torch. Raises InputError with the nearest name if it is unknown."""
    if kind not in OBJECTIVE_COLUMNS:
        raise InputError("objective.kind", f"unknown kind {kind!r}", nearest(str(kind), OBJECTIVE_COLUMNS))
    return kind


def check_trainable(kind: str) -> str:
    """The kind itself, without importing torch. Raises InputError when there is no trainer for it yet."""
    if check_kind(kind) not in PLACES:
        do = f"choose one of {', '.join(PLACES)}, or use the recipe with preview and generate"
        raise InputError("objective.kind", f"{kind!r} cannot be trained yet", do)
    return kind


def objective(kind: str, **fields: Any) -> Objective:
    """The objective of that name with those fields. Raises InputError for an unknown kind or field."""
    module, name = PLACES[check_trainable(kind)].split(":")
    cls = getattr(import_module(module), name)
    known = [field.name for field in dataclasses.fields(cls)]
    for field in fields:
        if field not in known:
            do = nearest(field, known) if known else f"{kind} has no fields, remove it"
            raise InputError(f"objective.{field}", f"unknown field of {kind}", do)
    made: Objective = cls(**fields)
    return made
