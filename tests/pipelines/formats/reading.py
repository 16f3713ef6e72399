"""What the tests of every format share: read sources and sort what came."""

import bz2
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from pipelines.documents import Document, Note, Reject, Tally
from pipelines.sources import Source, list_units, read_unit

PACK = {
    "": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@dataclass
class Read:
    documents: list[Document]
    rejects: list[Reject]
    notes: list[Note]
    tally: Tally

    @property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]

    @property
    def keys(self) -> list[str]:
        return [document.key for document in self.documents]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        return [(reject.reason, reject.position) for reject in self.rejects]


def read(base: Path, *sources: str | dict[str, Any], unit_bytes: int = 64 << 20, **options: Any) -> Read:
    """Everything that sources give; a string is a path with the options given."""
    specs = [
        Source(source=source, **options) if isinstance(source, str) else Source(**source)
        for source in sources
    ]
    out = Read([], [], [], Tally())
    for unit in list_units(specs, base, unit_bytes):
        for item in read_unit(unit):
            out.tally.add(item)
            place: list[Any] = out.documents if isinstance(item, Document) else out.rejects
            (out.notes if isinstance(item, Note) else place).append(item)
    assert out.tally.adds_up()
    return out


def write(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path
