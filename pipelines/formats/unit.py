"""A source as a recipe names it, and a unit: the piece of it that one task reads on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, field_validator

Text = Annotated[str, StringConstraints(min_length=1)]
Format = Literal["text", "jsonl", "parquet", "dataset", "wikipedia", "unknown"]
Codec = Literal["", "gz", "bz2", "zst"]


class Source(BaseModel, extra="forbid", frozen=True):
    """Where documents come from, and how files become documents."""

    source: Text | tuple[Text, ...]
    """A path, folder, glob or list of them; a folder that `datasets` saved; `hub:<name>` for a data set of
    the hub.
    """
    format: Literal["auto", "text", "jsonl", "parquet", "dataset", "wikipedia"] = "auto"
    """`auto` goes by the suffix (before .gz, .bz2, .zst); first bytes decide only for files whose suffix says
    nothing.
    """
    documents: Literal["file", "line", "block"] = "file"
    """For plain text: a document is a file, a line, or a block of lines between blank ones."""
    text: Text = "text"
    """Column with the text, for JSONL, Parquet and data sets; so are the next four."""
    id: Text | None = None
    """Column with the document's key (text or whole numbers); without one the key is the file and row number.
    """
    title: Text | None = None
    label: Text | None = None
    words: Text | None = None
    """Column with the text's words as a list of strings: your own segmentation, used instead of ours."""
    split: Text = "train"
    """Split of a data set."""
    config: Text | None = None
    """Configuration of a data set of the hub."""
    revision: Text | None = None
    """Branch, tag or commit of a data set of the hub."""
    name: Text | None = None
    """Goes before the keys of this source's documents, so that they cannot be confused with another source's.
    """
    weight: float = Field(1.0, gt=0, allow_inf_nan=False)
    """How often each passage appears in an epoch."""
    invalid_utf8: Literal["skip", "replace"] = "skip"
    """A row that is not UTF-8 is skipped and counted, or used with U+FFFD in place of the bad bytes and
    counted.
    """
    max_document_bytes: int = Field(64 << 20, ge=1)
    """A longer document (in UTF-8) is skipped and counted."""

    @field_validator("source")
    @classmethod
    def _some(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value:
            raise ValueError("names no file")
        return value

    def column_names(self) -> list[str]:
        """The columns to read, the text's first, each once."""
        named = (self.text, self.id, self.title, self.label, self.words)
        return list(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class Unit:
    """One independently readable piece of a source: a file, or a part of one.

    `name` goes before every key ("" or "<source name>/"). `relative` is the path below the source's root, as
    Unicode; `path` the absolute one. `part` is None for a whole file, else for JSONL and lines of text (first
    byte, end byte, first row), for Wikipedia dumps (first byte, end byte) of the file as stored, for Parquet
    (first row group, end row group, first row), for data sets (first row, end row). `fingerprint` is of the
    whole file. `fault` is a (reason, detail) found when the file was listed: such a unit yields one Reject
    and nothing else.
    """

    source: int
    name: str
    relative: str
    path: str
    format: Format
    codec: Codec
    size: int
    fingerprint: str
    spec: Source
    part: tuple[int, ...] | None = None
    fault: tuple[str, str] | None = None

    def row_key(self, row: int) -> str:
        """The key of a document that brings none of its own: its file and the number of its row, from 0."""
        return f"{self.name}{self.relative}:{row}"
