"""What pydantic found wrong with a recipe, in one line: the place, the key, the value and what is allowed."""

from __future__ import annotations

import re
import typing
from typing import Any

from pydantic import BaseModel, ValidationError

from corruption.errors import InputError
from corruption.registry import nearest
from pipelines.recipe_yaml import KeyPath, Tree, dotted

_WORDS = (
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid string", "text"),
    ("a valid boolean", "true or false"),
    ("a valid array", "a list"),
    ("an object", "a mapping of keys"),
    ("a valid dictionary", "a mapping of keys"),
)
_IN_STEPS = "give the run in train.steps; pretrain --dry-run prints the epochs that makes"
_ELSEWHERE = {"epochs": _IN_STEPS, "num_epochs": _IN_STEPS, "max_epochs": _IN_STEPS, "max_steps": _IN_STEPS}


def first_fault(error: ValidationError, tree: Tree, model: type[BaseModel]) -> InputError:
    """The error to raise for `error`: the first fault, unknown keys before all others, and how many more."""
    faults: dict[KeyPath, InputError] = {}
    details = error.errors(include_url=False)
    for detail in sorted(details, key=lambda detail: detail["type"] != "extra_forbidden"):
        path = _path_in(tree.data, detail)
        if path in faults and detail["type"] not in ("extra_forbidden", "missing"):
            seen = faults[path]  # the other branch of a union: what it would have allowed
            faults[path] = InputError(
                seen.where, seen.given, f"{seen.do} or {_allowed(detail).removeprefix('must be ')}"
            )
        else:
            faults.setdefault(path, _fault(dict(detail), path, tree, model))
    first, *others = faults.values()
    more = f" (+{len(others)} more)" if others else ""
    return InputError(first.where, first.given, first.do + more)


def valid_names(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys the model knows at `path`; parts that name no field (list items, branches) are passed over."""
    kinds: list[type[BaseModel]] = [model]
    for part in path:
        inner = [
            found
            for kind in kinds
            if part in kind.model_fields
            for found in _models_in(kind.model_fields[str(part)].annotation)
        ]
        if any(part in kind.model_fields for kind in kinds):
            kinds = inner
    return list(dict.fromkeys(name for kind in kinds for name in kind.model_fields))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models_in(part)]


def _path_in(data: Any, detail: Any) -> KeyPath:
    """The location as a path into what the user wrote, without union branches and moved keys."""
    path: KeyPath = ()
    here = data
    for part in detail["loc"]:
        known = here if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        if part in known:
            path, here = (*path, part), here[part]
    if detail["type"] == "missing":
        path = (*path, detail["loc"][-1])
    return path


def _fault(detail: dict[str, Any], path: KeyPath, tree: Tree, model: type[BaseModel]) -> InputError:
    place, key = tree.place(path), dotted(path) or "the recipe"
    if detail["type"] == "extra_forbidden":
        names = {*valid_names(model, path[:-1]), *valid_names(model, detail["loc"][:-1])}
        do = _ELSEWHERE.get(str(path[-1])) or nearest(str(path[-1]), names)
        return InputError(place, f"{key} is no key of a recipe", do)
    if detail["type"] == "missing":
        return InputError(place, f"{key} is missing", "add it")
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        exact = _named_in(cause.where, path, tree.data)
        named = cause.where if exact == path and cause.where.startswith(f"{key}.") else dotted(exact)
        return InputError(tree.place(exact), f"{named or cause.where}: {cause.given}", cause.do)
    if detail["type"] == "value_error" and isinstance(detail["input"], (dict, list)):
        what, _, do = str(cause).partition("; ")
        return InputError(place, f"{key} {what}", do)
    return InputError(place, f"{key} = {_shown(detail['input'])}", _allowed(detail))


def _named_in(where: str, path: KeyPath, data: Any) -> KeyPath:
    """The path of the key that an inner check named as `section.key` or `kind.key`; else `path` itself."""
    word = where.split()[-1] if where else ""
    for start, parts in (((), word.split(".")), (path, word.split(".")[1:])):
        here = data
        for part in start:
            here = here[part]
        found = start
        for part in parts:
            if not isinstance(here, dict) or part not in here:
                break
            found, here = (*found, part), here[part]
        else:
            if found != start and len(found) >= len(path):
                return found
    return path


def _allowed(detail: Any) -> str:
    message = re.sub(r"^(Input should be|Value error,)\s*", "", detail["msg"])
    message = re.sub(r",? unable to parse.*|, got .*| with a fractional part$", "", message)
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    if detail["type"] in ("value_error", "assertion_error"):
        return message
    return message if message.startswith("must") else f"must be {message}"


def _shown(value: Any) -> str:
    text = (
        "true" if value is True else "false" if value is False else "null" if value is None else repr(value)
    )
    return text if len(text) <= 60 else text[:57] + "..."
