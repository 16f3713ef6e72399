"""A recipe's YAML as plain data, and the place (file and line, or the --set) that each key came from.

The YAML read here is the small, unsurprising part: one document, no aliases or merge keys, no tags, no key
twice. Numbers follow YAML 1.2 with underscores allowed (`1_048_576`, `4e-4`, `1e5`); only true and false are
booleans, so `no` and `on` are words, dates stay text and `010` is ten.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from corruption.errors import InputError

KeyPath = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9][0-9_]{0,40}|0x[0-9a-fA-F][0-9a-fA-F_]{0,40}")
_WHOLE = re.compile(r"[-+]?[0-9][0-9_]{0,40}[eE]\+?[0-9]{1,2}")
_FLOAT = re.compile(r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}
_ONE_LINE = "a recipe is one YAML mapping of sections (seed, corpus, tokenizer, ...)"


@dataclass
class Tree:
    """Plain data (dicts with string keys, lists, scalars) and where each key path was given."""

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """The place of the longest part of `path` that was given anywhere."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return "the recipe"


def dotted(path: Iterable[str | int]) -> str:
    """The path as a user writes it: corruption.0.rate."""
    return ".".join(str(part) for part in path)


def read_tree(text: str, name: str) -> Tree:
    """The tree of one YAML document; `name` is what errors call it.

    Raises:
        InputError: not one plain mapping; names the line.
    """
    tree = Tree()
    node = _compose(text, name)
    if not isinstance(node, yaml.MappingNode):
        raise InputError(name, "holds no mapping" if node else "is empty", _ONE_LINE)
    tree.places[()] = name
    tree.data = _build(node, (), name, tree.places)
    return tree


def read_file(path: Path) -> Tree:
    """The tree of a recipe file (UTF-8).

    Raises:
        InputError: the file cannot be read or is not one plain YAML mapping.
    """
    try:
        return read_tree(path.read_bytes().decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as fault:
        raise InputError(str(path), f"is not UTF-8 at byte {fault.start}", "save it as UTF-8") from None
    except OSError as fault:
        raise InputError(str(path), f"cannot be read ({fault.strerror})", "give a recipe file") from None


def override(tree: Tree, setting: str) -> None:
    """Apply one `a.b=value` to the tree in place; the value is YAML, list items are named by number.

    Raises:
        InputError: no `=`, a path through a value, an item that is not there, or a value that is no YAML.
    """
    where = f"--set {setting}"
    if any("\ud800" <= char <= "\udfff" for char in setting):
        raise InputError("--set", f"{setting!r} is not UTF-8", "give the value in UTF-8")
    key, equals, text = setting.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise InputError(where, "is not KEY=VALUE", "write it like --set train.steps=1000")
    node = _compose(text, where)
    places: dict[KeyPath, str] = {}
    here: Any = tree.data
    path: KeyPath = ()
    for last, part in ((i == len(parts) - 1, part) for i, part in enumerate(parts)):
        step = _step(here, part, path, where)
        path = (*path, step)
        if last:
            for old in [p for p in tree.places if p[: len(path)] == path]:
                del tree.places[old]
            here[step] = None if node is None else _build(node, path, where, places, line=False)
        elif isinstance(here, dict) and here.get(step) is None:
            here[step] = {}
            tree.places[path] = where
        here = here[step]
    tree.places.update({**places, path: where})


def _step(here: Any, part: str, path: KeyPath, where: str) -> str | int:
    if isinstance(here, dict):
        return part
    if isinstance(here, list):
        names = [item.get("name", item.get("kind")) if isinstance(item, dict) else None for item in here]
        if names.count(part) == 1:
            return names.index(part)
        if part.isdecimal() and int(part) < len(here):
            return int(part)
        raise InputError(
            where,
            f"{dotted(path)} has no item {part!r}",
            f"name one by its number, 0 to {len(here) - 1}" if here else "set the whole list",
        )
    raise InputError(
        where, f"{dotted(path)} is a value ({here!r}), not a section", f"set {dotted(path)} itself"
    )


def _compose(text: str, where: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        at = f"{where}:{mark.line + 1}" if mark and not where.startswith("--set") else where
        what = fault.problem or fault.context or "cannot be read"
        if fault.context and "single document" in fault.context:
            raise InputError(at, "starts a second YAML document", "keep one document in a recipe") from None
        raise InputError(at, f"is not valid YAML ({what})", "mend the line") from None
    except yaml.YAMLError as fault:
        raise InputError(where, f"is not valid YAML ({fault})", "mend the file") from None
    except RecursionError:
        raise InputError(where, "is nested too deeply", _ONE_LINE) from None
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Composes nodes only; what a plain scalar means is decided by `_scalar`."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not read in recipes", event.start_mark)
        return super().compose_node(parent, index)


def _build(node: yaml.Node, path: KeyPath, name: str, places: dict[KeyPath, str], line: bool = True) -> Any:
    at = f"{name}:{node.start_mark.line + 1}" if line else name
    places.setdefault(path, at)
    if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.split(":")[-1] not in ("map", "seq", "str"):
        raise InputError(at, f"{dotted(path)} has the tag {node.tag}", "leave YAML tags out")
    if isinstance(node, yaml.MappingNode):
        built: dict[str, Any] = {}
        for key_node, value in node.value:
            key_at = f"{name}:{key_node.start_mark.line + 1}" if line else name
            if not isinstance(key_node, yaml.ScalarNode):
                raise InputError(key_at, "a key is a list or a mapping", "keys are plain words")
            key = (*path, key_node.value)
            if key_node.value in built:
                raise InputError(key_at, f"{dotted(key)} is given twice ({places[key]} has it)", "keep one")
            places[key] = key_at
            built[key_node.value] = _build(value, key, name, places, line)
        return built
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, i), name, places, line) for i, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node.value, plain=node.style is None)


def _scalar(text: str, plain: bool) -> Any:
    if not plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "")
    if _INT.fullmatch(text):
        return int(digits, 16 if digits.startswith("0x") else 10)
    if _WHOLE.fullmatch(text):  # 1e5 is a whole number, so that it may be written where one is asked for
        mantissa, exponent = re.split("[eE]", digits)
        return int(mantissa) * 10 ** int(exponent)
    if _FLOAT.fullmatch(text) and math.isfinite(float(digits)):
        return float(digits)
    return text
