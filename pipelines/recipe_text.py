"""A recipe's plain data as YAML that reads back as the same data, however YAML's other readers take bare words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_/]*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


class _Dumper(yaml.SafeDumper):
    """Quotes every text that is not plainly a word."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def recipe_text(plain: dict[str, Any]) -> str:
    """The YAML of nested plain data, keys in the order given."""
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)


def name_only(path: Any) -> Any:
    """A whole path, or each of a list of them, cut to its last part; anything else as it is."""
    if isinstance(path, (list, tuple)):
        return [name_only(item) for item in path]
    return Path(path).name if isinstance(path, str) and path.startswith(("/", "~")) else path
