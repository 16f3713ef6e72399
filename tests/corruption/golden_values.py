"""What the golden files hold. `python -m tests.corruption.golden_values` writes them anew; read their `when`
first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from corruption.chain import Chain
from corruption.noise import below, draw, example_key, hash64, stream, unit
from corruption.noise_kinds import Mask
from tests.corruption.rows import VOCABULARY, batch, lists

FOLDER = Path(__file__).parent / "golden"
WHEN = (
    "These numbers are a promise: the same seed gives the same noise in every release. They may be written "
    "anew only in a release whose changelog says that older runs can no longer be reproduced or resumed; "
    "never to make a failing test pass."
)
KEYS = (1, 0x0123456789ABCDEF, 2**64 - 1)
EPOCHS = (0, 7)
TOKENS = [5 + (i * 37) % 55 for i in range(40)]
STARTS = [1 if i % 5 in (0, 2, 3) else 0 for i in range(40)]


def noise() -> dict[str, Any]:
    """Streams, draws and hashes as plain integers."""
    streams = {
        f"{seed}/{name}/{epoch}/{key}/{copy}": stream(seed, name, epoch, key, copy)
        for seed, name, epoch, key, copy in (
            (0, "mask", 0, 1, 0),
            (7, "mask", 3, 2**64 - 1, 1),
            (-1, "x", 0, 0, 0),
        )
    }
    draws = {}
    for name, start in streams.items():
        bits = [np.uint64(draw(np.uint64(start), np.uint64(i))) for i in range(4)]
        draws[name] = {
            "bits": [int(b) for b in bits],
            "unit": [float(unit(b)).hex() for b in bits],
            "below 1000": [int(below(b, np.uint64(1000))) for b in bits],
        }
    return {
        "streams": streams,
        "draws": draws,
        "hash64": {text: hash64(text) for text in ("", "mask", "琵琶")},
        "example_key": {f"{text}/{n}": example_key(text, n) for text in ("a", "琵琶") for n in (0, 1)},
    }


def mask() -> dict[str, Any]:
    """One passage masked under three keys and two epochs, by token and by word: `[input, labels]`."""
    found: dict[str, Any] = {"tokens": TOKENS, "word_start": STARTS}
    for unit_of in ("token", "word"):
        chain = Chain((Mask(rate=0.3, unit=unit_of),))
        for epoch in EPOCHS:
            rows = batch([TOKENS] * len(KEYS), [STARTS] * len(KEYS), KEYS)
            out = chain.apply(rows, seed=11, epoch=epoch, vocabulary=VOCABULARY)
            for key, tokens, labels in zip(KEYS, lists(out.tokens), lists(out.columns["labels"])):
                found[f"{unit_of}/epoch {epoch}/key {key}"] = [tokens, labels]
    return found


def main() -> None:
    """Write both files."""
    FOLDER.mkdir(exist_ok=True)
    for name, values in (("noise", noise()), ("mask", mask())):
        lines = [f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}" for key, value in values.items()]
        text = "{\n" + ",\n".join([f'  "when": {json.dumps(WHEN)}', *lines]) + "\n}\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
