"""From one row's values to a document, or to the reason why there is none. Types are never guessed or
changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.documents import Document, Note, Reject
from pipelines.formats.unit import Source, Unit

_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


class _Unusable(Exception):
    """Why this row gives no document: (reason, detail)."""


def rows_to_documents(
    values: Mapping[str, Any], unit: Unit, row: int, position: str
) -> Iterator[Document | Reject | Note]:
    """Notes of what was repaired and then the row's document, or one Reject.

    `values` are the row's columns by name; text may be str or, not yet validated, UTF-8 bytes. Reasons:
    missing, null, empty, not_text, invalid_utf8, too_large, bad_id, bad_title, bad_label, bad_words.
    """
    notes: list[tuple[str, str]] = []
    try:
        document = _document(values, unit, row, notes)
    except _Unusable as why:
        reason, detail = why.args
        yield Reject(unit.relative, position, reason, detail)
        return
    for reason, detail in notes:
        yield Note(unit.relative, position, reason, detail)
    yield document


def decode(raw: bytes, spec: Source, notes: list[tuple[str, str]]) -> str | None:
    """The bytes as text; None if they are not UTF-8 and the source says to skip such rows. A repair goes into
    `notes`.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        if spec.invalid_utf8 == "skip":
            return None
        notes.append(
            ("invalid_utf8", f"byte {error.start} of the row is not UTF-8; U+FFFD stands in for bad bytes")
        )
        return raw.decode("utf-8", "replace")


def too_large(text: str, limit: int) -> bool:
    """Whether the text takes more than `limit` bytes of UTF-8."""
    return 4 * len(text) > limit and len(text.encode("utf-8", "surrogatepass")) > limit


def _document(values: Mapping[str, Any], unit: Unit, row: int, notes: list[tuple[str, str]]) -> Document:
    spec = unit.spec
    if spec.text not in values:
        raise _Unusable("missing", f"it has no {spec.text!r}")
    if values[spec.text] is None:
        raise _Unusable("null", f"{spec.text!r} is null")
    text = _string(values[spec.text], spec.text, "not_text", spec, notes)
    if not text or text.isspace():
        raise _Unusable("empty", f"{spec.text!r} is empty or blank")
    if too_large(text, spec.max_document_bytes):
        raise _Unusable("too_large", f"it is longer than {spec.max_document_bytes} bytes")
    key = unit.row_key(row)
    if spec.id is not None:
        own = values.get(spec.id)
        if own is None or own == "":
            raise _Unusable("bad_id", f"it has no {spec.id!r}")
        key = unit.name + _scalar(own, spec.id, "bad_id", (int,), spec, notes)
    document = Document(key, text)
    if spec.title is not None and (title := values.get(spec.title)) is not None:
        document.title = _scalar(title, spec.title, "bad_title", (int,), spec, notes)
    if spec.label is not None and (label := values.get(spec.label)) is not None:
        document.label = _scalar(label, spec.label, "bad_label", (int, bool, float), spec, notes)
    if spec.words is not None and (words := values.get(spec.words)) is not None:
        document.words = _words(words, text, spec, notes)
    return document


def _words(words: Any, text: str, spec: Source, notes: list[tuple[str, str]]) -> list[str]:
    name = str(spec.words)
    if not isinstance(words, list):
        raise _Unusable("bad_words", f"{name!r} is {_kind(words)}, not a list of strings")
    own = [_string(word, name, "bad_words", spec, notes) for word in words]
    if "".join("".join(own).split()) != "".join(text.split()):
        raise _Unusable("bad_words", f"{name!r} put together is not {spec.text!r}")
    return own


def _scalar(
    value: Any, name: str, reason: str, kinds: tuple[type, ...], spec: Source, notes: list[tuple[str, str]]
) -> str:
    if type(value) in kinds:
        return str(value).lower() if isinstance(value, bool) else str(value)
    return _string(value, name, reason, spec, notes)


def _string(value: object, name: str, reason: str, spec: Source, notes: list[tuple[str, str]]) -> str:
    if isinstance(value, bytes):
        decoded = decode(value, spec, notes)
        if decoded is None:
            raise _Unusable("invalid_utf8", f"{name!r} is not UTF-8")
        return decoded
    if not isinstance(value, str):
        raise _Unusable(reason, f"{name!r} is {_kind(value)}, not text")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        value, count = _SURROGATE.subn("\ufffd", value)
        notes.append(("lone_surrogate", f"{count} in {name!r}, U+FFFD stands in for each"))
    return value


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), f"of type {type(value).__name__}")
