"""What a tracking store accepts: names, parameter texts, steps and values, as pure functions."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from hashlib import blake2b

LONGEST_NAME = 200  # stores take 250; the rest is room for our own prefixes ("nonfinite.", "resume_12/")
LONGEST_PARAMETER = 500  # what every server version takes, and still readable in a comparison table
LONGEST_TAG = 4000
_REFUSED = re.compile(r"[^\w\-. :/]")
_UNSTORABLE = re.compile("[\ud800-\udfff\0]")
_MAPPED = re.compile(r"\.x[0-9a-f]{16}$")


def store_name(name: str) -> str:
    """Map any text to a name that tracking stores accept, injectively; a legal name stays as it is.

    A name that has to change keeps its legal characters and gets ".x" and 16 hex digits of its own digest. A
    legal name that happens to end like that is mapped too, so that no two different names ever meet.
    """
    legal = (
        0 < len(name) <= LONGEST_NAME
        and _REFUSED.search(name) is None
        and posixpath.normpath(name) == name
        and name != "."
        and not name.startswith(("..", "/", " "))
        and not name.endswith(" ")
        and _MAPPED.search(name) is None
    )
    if legal:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    parts = [_REFUSED.sub("_", part).strip(". ") for part in name.split("/")]
    readable = "/".join(part for part in parts if part)[: LONGEST_NAME - 20].rstrip("/. ")
    return f"{readable or 'unnamed'}.x{digest}"


def clean_text(value: str) -> str:
    """Replace what a database cannot hold in a text (lone surrogates, NUL) by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", value)


def shorten(text: str, limit: int, rest: str) -> str:
    """Cut `text` to `limit` characters with a marker: how long it was, its digest, and where the rest is."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    marker = f" [shortened from {len(text)} characters, digest {digest}, {rest}]"
    return text[: limit - len(marker)] + marker


def parameter_text(value: object) -> str:
    """Write a recipe value as a parameter: text as it is, all else as JSON, and what is long shortened."""
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    return shorten(text, LONGEST_PARAMETER, "whole in the run's recipe.json")


def plain(value: object) -> object:
    """Turn a value into what strict JSON can hold: non-finite numbers and unknown objects become text."""
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    item = getattr(value, "item", None)  # numpy and torch scalars
    if callable(item):
        try:
            return plain(item())
        except (TypeError, ValueError, RuntimeError):
            pass
    return clean_text(str(value))


def step_number(step: object) -> int | None:
    """Read a step as an int in [0, 2**63), or None if it is not one (negative, fractional, text, ...)."""
    value = _scalar(step)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 0 <= value < 2**63 else None


def metric_number(value: object) -> float | None:
    """Read a metric as a float (it may be NaN or infinite), or None if it is not a number.

    Takes Python, numpy and Decimal numbers and one-element arrays and tensors of any precision and device.
    Text, lists and None are refused, not guessed.
    """
    value = _scalar(value)
    if not isinstance(value, int | float | Decimal | Fraction):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (ValueError, InvalidOperation):  # a signalling NaN
        return math.nan


def describe(value: object) -> str:
    """Name a value's type and show it shortly, for a warning."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    shown = " ".join(repr(value).split())
    return f"{name} ({shown if len(shown) <= 60 else shown[:57] + '...'})"


def _scalar(value: object) -> object:
    if isinstance(value, str | bytes | int | float | Decimal):
        return value
    item = getattr(value, "item", None)
    if not callable(item):
        return value
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):  # more than one element, or no data (meta device)
        return value
