"""One corrupted passage as coloured text, and what the corruption came to; readable without colour."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from corruption.ragged import Batch
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PLAIN, MASKED, RANDOM, KEPT = "plain", "masked", "random", "kept"
STYLES = {PLAIN: "", MASKED: "bold white on red", RANDOM: "bold black on yellow", KEPT: "bold black on green"}
MARKS = {PLAIN: "", MASKED: "", RANDOM: "~", KEPT: "="}


def legend(mask: str | None) -> Text:
    """What the marks mean; `mask` is how the tokenizer writes a hidden token."""
    hidden = Text.assemble((mask, STYLES[MASKED]), " hidden   ") if mask else Text()
    return Text.assemble(
        hidden,
        ("~word~", STYLES[RANDOM]),
        " replaced at random   ",
        ("=word=", STYLES[KEPT]),
        " kept, but asked for",
    )


@dataclass
class Tally:
    """The tokens shown: how many there are, how many could be chosen, and what stands at the labels."""

    tokens: int = 0
    choosable: int = 0
    masked: int = 0
    random: int = 0
    kept: int = 0

    @property
    def labelled(self) -> int:
        """Positions whose original is asked for."""
        return self.masked + self.random + self.kept


def passage_lines(
    tokenizer: PreTrainedTokenizerFast,
    vocabulary: Vocabulary,
    before: Batch,
    after: Batch,
    row: int,
    tally: Tally,
) -> Iterator[tuple[str, Text]]:
    """Names and texts of a row's lines: original, corrupted, labels; adds what it sees to `tally`."""
    original, shown = before.tokens.row(row).tolist(), after.tokens.row(row).tolist()
    origin = after.origin().row(row).tolist()
    labels = after.columns["labels"].row(row).tolist() if "labels" in after.columns else [IGNORE] * len(shown)
    kinds = [_kind(token, label, vocabulary) for token, label in zip(shown, labels)]
    tally.tokens += len(original)
    tally.choosable += sum(1 for token in original if not vocabulary.fixed[token])
    tally.masked += kinds.count(MASKED)
    tally.random += kinds.count(RANDOM)
    tally.kept += kinds.count(KEPT)

    spaced = _spaces(tokenizer)
    yield "original", Text(_decode(tokenizer, original))
    corrupted = Text()
    for kind, run in groupby(range(len(shown)), kinds.__getitem__):
        places = list(run)
        first = original[origin[places[0]]] if origin[places[0]] >= 0 else shown[places[0]]
        if corrupted and spaced(first):
            corrupted.append(" ")
        text = _decode(tokenizer, [shown[i] for i in places])
        corrupted.append(f"{MARKS[kind]}{text}{MARKS[kind]}", STYLES[kind])
    yield "corrupted", corrupted
    asked = [
        _decode(tokenizer, [labels[i] for i in run])
        for wanted, run in groupby(range(len(labels)), lambda i: labels[i] != IGNORE)
        if wanted
    ]
    yield "labels", Text(" | ").join(Text(text, "cyan") for text in asked) if asked else Text("none", "dim")


def _kind(token: int, label: int, vocabulary: Vocabulary) -> str:
    if label == IGNORE:
        return PLAIN
    if token == vocabulary.mask:
        return MASKED
    return KEPT if token == label else RANDOM


def _decode(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", str(text)).strip()


def _spaces(tokenizer: PreTrainedTokenizerFast) -> Callable[[int], bool]:
    """A test for whether a space stands before a token of the passage."""
    decoder = json.loads(tokenizer.backend_tokenizer.to_str()).get("decoder") or {}
    prefix = decoder.get("prefix", "##") if decoder.get("type") == "WordPiece" else None

    def spaced(token: int) -> bool:
        written = str(tokenizer.convert_ids_to_tokens(token))
        return written.startswith(("Ġ", "▁", " ")) if prefix is None else not written.startswith(prefix)

    return spaced


def rates(steps: Sequence[dict[str, Any]], tally: Tally) -> Iterator[tuple[str, Text]]:
    """Names and texts of the last lines: what each step was asked for, and what it all came to."""
    for step in steps:
        shown = {key: value for key, value in step.items() if key not in ("kind", "name") and value is not None}
        fields = ", ".join(f"{key} {value}" for key, value in shown.items())
        name = step["kind"] if step["name"] == step["kind"] else f"{step['kind']} ({step['name']})"
        yield "asked", Text(f"{name}: {fields}" if fields else name)
    share = tally.labelled / tally.choosable if tally.choosable else 0.0
    line = f"{tally.labelled} of {tally.choosable} tokens labelled, rate {share:.4f}"
    if tally.labelled:
        line += "".join(
            f", {name} {count / tally.labelled:.3f}"
            for name, count in (("hidden", tally.masked), ("random", tally.random), ("kept", tally.kept))
        )
    yield "came to", Text(line)
