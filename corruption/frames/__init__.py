"""Frames: how corrupted passages become a model's examples. The only place that adds special tokens.

To add one: a file here and a line in `FRAMES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from corruption.frames.encoder_decoder import EncoderDecoder
from corruption.frames.pair import Pair
from corruption.frames.permutation import Permutation
from corruption.frames.protocol import Frame
from corruption.frames.single import Single
from corruption.frames.views import ViewPair

__all__ = ["FRAMES", "Frame", "missing", "suited"]

FRAMES: dict[str, type[Frame]] = {
    "single": Single,
    "pair": Pair,
    "permutation": Permutation,
    "encoder_decoder": EncoderDecoder,
    "views": ViewPair,
}
"""Frames by the name that an objective asks for."""

_BY_COLUMN = {
    "positive": "views",
    "targets": "encoder_decoder",
    "permutation_order": "permutation",
    "segment": "pair",
    "labels": "single",
}


def suited(provides: Collection[str]) -> Frame:
    """The frame that suits a chain by the columns it provides, where no objective says.

    A chain that provides none, such as deletion alone, is there for an encoder-decoder to undo.
    """
    name = next((frame for column, frame in _BY_COLUMN.items() if column in provides), "encoder_decoder")
    frame = FRAMES[name]()
    return FRAMES[name](tuple(c for c in frame.columns if not missing(frame, (c,), provides)))


def missing(frame: Frame, columns: Iterable[str], provides: Collection[str]) -> list[str]:
    """The columns that a chain would have to provide for the frame to make `columns`, and does not."""
    needed = [frame.sources.get(column, column) for column in columns]
    return [source for source in needed if source is not None and source not in provides and source != "origin"]
