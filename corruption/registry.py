"""The corruptions by name: `register` adds one, entry points bring more, `parse_step` builds one."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from corruption.chain import Chain, Corruption
from corruption.errors import InputError

ENTRY_POINTS = "papermoth.corruptions"
"""Group of entry points; loading one must `register` its corruptions."""

_KINDS: dict[str, type[Any]] = {}
_C = TypeVar("_C")


def register(cls: type[_C]) -> type[_C]:
    """Class decorator: make a corruption known under its `kind`. Raises ValueError when the name is taken."""
    kind = cls.kind  # type: ignore[attr-defined]
    if kind in _KINDS and _KINDS[kind] is not cls:
        raise ValueError(f"two corruptions are called {kind!r}: {_KINDS[kind]} and {cls}")
    _KINDS[kind] = cls
    return cls


def kinds() -> dict[str, type[Any]]:
    """All corruptions by name, third parties' included."""
    import corruption.noise_kinds  # noqa: F401  registers ours

    _load_entry_points()
    return dict(sorted(_KINDS.items()))


@cache
def _load_entry_points() -> None:
    """Once a process: looking them up reads the metadata of every installed package."""
    for point in entry_points(group=ENTRY_POINTS):
        point.load()


def nearest(name: str, names: Any) -> str:
    """', did you mean "x"?' or a list of what there is: the tail of a message about an unknown name."""
    names = sorted(names)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names)}"


def parse_step(step: Mapping[str, Any], where: str = "corruption") -> Corruption:
    """A corruption from `{kind: ..., field: value, ...}`.

    Raises InputError for an unknown kind or field (with the nearest name), or a value of wrong type or range.
    """
    known = kinds()
    kind = step.get("kind")
    if not isinstance(kind, str) or kind not in known:
        raise InputError(where, f"unknown kind {kind!r}", nearest(str(kind), known))
    made: Corruption = _built(known[kind], {key: step[key] for key in step if key not in ("kind", "name")}, where)
    return made


def _built(cls: type[Any], given: Mapping[str, Any], where: str) -> Any:
    """A dataclass with a `kind` from its fields' plain values."""
    hints = get_type_hints(cls)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    values = {}
    for name, value in given.items():
        place = f"{where} {cls.kind}.{name}"
        if name not in fields:
            raise InputError(place, "unknown field", nearest(name, fields) if fields else "it has no fields")
        values[name] = _typed(value, fields[name], place)
    return cls(**values)


def _typed(value: Any, hint: Any, where: str) -> Any:
    """The value as its field has it.

    int may stand for float, bool is no number, a Literal must match; a list of steps makes a Chain, and a
    mapping with a kind makes the configuration of that kind.
    """
    if type(None) in get_args(hint) and get_origin(hint) is not Literal:
        if value is None:
            return None
        rest = tuple(part for part in get_args(hint) if part is not type(None))
        hint = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise InputError(
                where, f"unknown value {value!r}", nearest(str(value), [str(c) for c in choices])
            )
        return value
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        return tuple(_typed(item, get_args(hint)[0], f"{where}[{i}]") for i, item in enumerate(value))
    if hint is Chain and isinstance(value, (list, tuple)):
        return Chain.parse(value, where)
    if options := {part.kind: part for part in (get_args(hint) or (hint,)) if hasattr(part, "kind")}:
        return _configured(value, options, where)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    name = getattr(get_origin(hint) or hint, "__name__", str(hint))
    wanted = {"Chain": "list of steps", "tuple": "list"}.get(name, name)
    raise InputError(where, f"{value!r} is not of type {wanted}", f"give a value of type {wanted}")


def _configured(value: Any, options: Mapping[str, type[Any]], where: str) -> Any:
    """One of several small configurations, from `{kind: ..., field: value}` or as it is."""
    if isinstance(value, tuple(options.values())):
        return value
    if not isinstance(value, Mapping):
        kinds = " or ".join(options)
        raise InputError(where, f"{value!r} is not what it takes", f"give {{kind: {kinds}, ...}}")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in options:
        raise InputError(where, f"unknown kind {kind!r}", nearest(str(kind), options))
    return _built(options[kind], {key: value[key] for key in value if key != "kind"}, where)
