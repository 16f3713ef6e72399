"""What a reader gives: documents, rows it had to reject, notes of what it repaired, and their sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from corruption.errors import InputError

LINK = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("target", pa.string())])
"""A link: it covers code points start..end-1 of the text; target is the linked page's title."""

DOCUMENTS = pa.schema(
    [
        ("key", pa.string()),
        ("text", pa.large_string()),  # large: a batch may hold more than 2 GiB of text
        ("title", pa.string()),
        ("label", pa.string()),
        ("links", pa.list_(LINK)),
        ("words", pa.list_(pa.string())),
    ]
)
"""A row is one Document, on its way from one task to the next."""

QUARANTINE = pa.schema([(name, pa.string()) for name in ("file", "position", "reason", "detail")])
"""A row is one Reject that is a fault."""


@dataclass(slots=True)
class Document:
    """One text and what is known of it.

    `key` names it for ever: the noise of its passages and the held-out split follow from it. `text` is
    Unicode without lone surrogates and not blank. `links` are (start, end, target title) in code points of
    the text; `words` is the user's own segmentation.
    """

    key: str
    text: str
    title: str | None = None
    label: str | None = None
    links: list[tuple[int, int, str]] = field(default_factory=list)
    words: list[str] | None = None


@dataclass(slots=True)
class Reject:
    """A row, or the rest of a file, that could not be used.

    `expected` marks what is no fault (redirects, pages of other namespaces, blank lines): counted, but
    neither quarantined nor a breach under --strict. `rows` is how many rows it stands for: a broken row group
    knows its number; the rest of a broken file does not, and stands for one.
    """

    file: str
    position: str
    reason: str
    detail: str
    expected: bool = False
    rows: int = 1


@dataclass(slots=True)
class Note:
    """A row that was repaired: it is used, and the repair is counted."""

    file: str
    position: str
    reason: str
    detail: str


@dataclass
class Tally:
    """What became of the rows: every row read is a document or has a named reason for not being one."""

    rows: int = 0
    documents: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    """Rows by the reason of their rejection, faults only."""
    expected: Counter[str] = field(default_factory=Counter)
    """Rows by the reason of their rejection, where that is no fault."""
    notes: Counter[str] = field(default_factory=Counter)
    """Repairs by reason; their rows are documents."""

    def add(self, item: Document | Reject | Note) -> None:
        """Count one thing a reader gave."""
        if isinstance(item, Document):
            self.rows += 1
            self.documents += 1
        elif isinstance(item, Reject):
            self.rows += item.rows
            (self.expected if item.expected else self.rejects)[item.reason] += item.rows
        else:
            self.notes[item.reason] += 1

    def merge(self, other: Tally) -> None:
        """Add another reader's tally to this one."""
        self.rows += other.rows
        self.documents += other.documents
        self.rejects.update(other.rejects)
        self.expected.update(other.expected)
        self.notes.update(other.notes)

    def adds_up(self) -> bool:
        """Whether documents and rejected rows are together the rows read."""
        return self.rows == self.documents + self.rejects.total() + self.expected.total()

    def to_json(self) -> dict[str, object]:
        """A plain mapping with sorted reasons, for a report or a manifest."""
        reasons = {
            name: dict(sorted(getattr(self, name).items())) for name in ("rejects", "expected", "notes")
        }
        return {"rows": self.rows, "documents": self.documents, **reasons}


def nothing_usable(tally: Tally) -> InputError:
    """The error for a corpus of which no row can be used: how many were read, and why not."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in (tally.rejects + tally.expected).most_common(5))
    return InputError(
        "corpus",
        f"none of the {tally.rows} rows read can be used" + (f" ({reasons})" if reasons else ""),
        "correct the source's path, format or column names",
    )


def documents_to_table(documents: Sequence[Document]) -> pa.Table:
    """The documents as a table of schema DOCUMENTS, one row each, in the same order."""
    starts = np.zeros(len(documents) + 1, np.int32)
    np.cumsum([len(document.links) for document in documents], out=starts[1:])
    links = [link for document in documents for link in document.links]
    columns = zip(*links) if links else ((), (), ())
    parts = [pa.array(list(column), kind.type) for column, kind in zip(columns, LINK)]
    link_list = pa.ListArray.from_arrays(
        pa.array(starts), pa.StructArray.from_arrays(parts, fields=list(LINK))
    )
    plain = [
        pa.array([getattr(document, name) for document in documents], DOCUMENTS.field(name).type)
        for name in ("key", "text", "title", "label", "words")
    ]
    return pa.Table.from_arrays(
        [*plain[:4], link_list.cast(DOCUMENTS.field("links").type), plain[4]], schema=DOCUMENTS
    )


def table_to_documents(table: pa.Table) -> list[Document]:
    """The rows of a table of schema DOCUMENTS, slices of one included, as documents in the same order."""
    documents: list[Document] = []
    for batch in table.select(DOCUMENTS.names).to_batches():
        key, text, title, label, links, words = batch.columns
        offsets = (
            links.offsets.to_numpy() - links.offsets[0].as_py()
        )  # `flatten` starts at the slice, offsets do not
        flat = list(zip(*(part.to_pylist() for part in links.flatten().flatten())))
        rows = zip(key.to_pylist(), text.to_pylist(), title.to_pylist(), label.to_pylist(), words.to_pylist())
        for row, (k, content, t, lab, own_words) in enumerate(rows):
            spans = flat[offsets[row] : offsets[row + 1]]
            documents.append(Document(k, content, t, lab, spans, own_words))
    return documents


def quarantine_table(rejects: Iterable[Reject]) -> pa.Table:
    """The rejects that are faults as a table of schema QUARANTINE; expected ones are left out."""
    rows = [reject for reject in rejects if not reject.expected]
    arrays = [pa.array([getattr(row, name) for row in rows], pa.string()) for name in QUARANTINE.names]
    return pa.Table.from_arrays(arrays, schema=QUARANTINE)
