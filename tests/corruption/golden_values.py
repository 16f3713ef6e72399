"""What the golden files hold. `python -m tests.corruption.golden_values` writes them anew; read their `when`
first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from corruption.chain import Chain
from corruption.lengths import Ngram, Shares
from corruption.noise import below, draw, example_key, hash64, stream, unit
from corruption.noise_kinds import Mask, Mixture, PrefixSplit, SpanSentinel
from corruption.ragged import Ragged
from corruption.registry import parse_step
from tests.corruption.rows import RICH, VOCABULARY, batch, lists

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
    """One passage masked under three keys and two epochs, by token, word and span: `[input, labels]`."""
    found: dict[str, Any] = {"tokens": TOKENS, "word_start": STARTS}
    steps = {
        "token": Mask(rate=0.3),
        "word": Mask(rate=0.3, unit="word"),
        "span": Mask(rate=0.3, unit="span"),
        "span ngram by word": Mask(rate=0.3, unit="span", lengths=Ngram(), decide="word"),
        "span shares by coins": Mask(rate=0.3, unit="span", lengths=Shares(), count="bernoulli"),
    }
    for name, step in steps.items():
        for epoch in EPOCHS:
            rows = batch([TOKENS] * len(KEYS), [STARTS] * len(KEYS), KEYS)
            out = Chain((step,)).apply(rows, seed=11, epoch=epoch, vocabulary=VOCABULARY)
            for key, tokens, labels in zip(KEYS, lists(out.tokens), lists(out.columns["labels"])):
                found[f"{name}/epoch {epoch}/key {key}"] = [tokens, labels]
    return found


def _with_targets(chains: dict[str, Chain]) -> dict[str, Any]:
    """The passage under each chain, three keys and two epochs: `[input, targets]`."""
    found: dict[str, Any] = {"tokens": TOKENS}
    for name, chain in chains.items():
        for epoch in EPOCHS:
            rows = batch([TOKENS] * len(KEYS), [STARTS] * len(KEYS), KEYS)
            out = chain.apply(rows, seed=11, epoch=epoch, vocabulary=RICH)
            for key, tokens, targets in zip(KEYS, lists(out.tokens), lists(out.columns["targets"])):
                found[f"{name}/epoch {epoch}/key {key}"] = [tokens, targets]
    return found


def span_sentinel() -> dict[str, Any]:
    """Spans in both placements."""
    return _with_targets(
        {
            "uniform": Chain((SpanSentinel(rate=0.3),)),
            "anchored": Chain((SpanSentinel(rate=0.5, mean_length=4.0, placement="anchored", mode="[X]"),)),
        }
    )


def prefix_split() -> dict[str, Any]:
    """Cuts below, at and beyond a half."""
    return _with_targets({f"rate {rate}": Chain((PrefixSplit(rate, "[S]"),)) for rate in (0.25, 0.5, 0.8)})


def mixture() -> dict[str, Any]:
    """Two chains, equally often and not."""
    chains = (Chain((SpanSentinel(rate=0.3, mode="[R]"),)), Chain((PrefixSplit(mode="[S]"),)))
    return _with_targets({f"weights {w}": Chain((Mixture(chains, w),)) for w in (None, (1.0, 3.0))})


def _columns(kind: str, *configurations: dict[str, Any]) -> dict[str, Any]:
    """The passage, with sentences and another's passage, under each configuration: tokens and what it provides."""
    sentences = [1 if i % 9 == 0 else 0 for i in range(len(TOKENS))]
    other = [5 + (i * 11) % 55 for i in range(25)]
    found: dict[str, Any] = {"tokens": TOKENS, "word_start": STARTS, "sentence_start": sentences, "other": other}
    for fields in configurations:
        step = parse_step({"kind": kind, **fields})
        for epoch in EPOCHS:
            rows = batch([TOKENS] * len(KEYS), [STARTS] * len(KEYS), KEYS)
            foreign = Ragged.from_rows([other] * len(KEYS))
            rows = rows.put(
                sentence_start=rows.tokens.with_values(np.array(sentences * len(KEYS), np.int32)),
                foreign_tokens=foreign,
                foreign_word_start=foreign.with_values(np.ones(25 * len(KEYS), np.int32)),
                foreign_sentence_start=foreign.with_values(np.array(([1] + [0] * 4) * 5 * len(KEYS), np.int32)),
            )
            out = Chain((step,)).apply(rows, seed=11, epoch=epoch, vocabulary=VOCABULARY)
            columns = [lists(out.columns[name]) for name in ("tokens", *step.provides)]
            for key, *values in zip(KEYS, *columns):
                found[f"{json.dumps(fields)}/epoch {epoch}/key {key}"] = values
    return found


def sentence_pair() -> dict[str, Any]:
    """Both tasks, and both ways to cut."""
    return _columns("sentence_pair", {}, {"cut": "foreign"}, {"task": "sop"})


def permutation_order() -> dict[str, Any]:
    """A sixth of the tokens, and a half."""
    return _columns("permutation_order", {}, {"rate": 0.5, "longest": 3})


def attention_pattern() -> dict[str, Any]:
    """The published shares, and two segments always."""
    return _columns("attention_pattern", {}, {"shares": [1, 0, 0, 1]})


def views() -> dict[str, Any]:
    """Two steps of one kind, one in each view, and two in one view."""
    crop, mask = {"kind": "crop", "rate": 0.5}, {"kind": "mask", "rate": 0.3}
    return _columns("views", {"first": [crop], "second": [crop]}, {"second": [mask, crop]})


def crop() -> dict[str, Any]:
    """A little and a half."""
    return _columns("crop", {}, {"rate": 0.5})


def infill() -> dict[str, Any]:
    """Both placements, by token and by word, with insertions and random tokens."""
    law = {"kind": "poisson", "mean": 1.2}
    return _columns(
        "infill",
        {},
        {"rate": 0.5, "lengths": law, "random_share": 0.3},
        {"rate": 0.4, "unit": "word"},
        {"rate": 0.5, "lengths": law, "placement": "overlapping", "random_share": 0.3},
    )


def shuffle_sentences() -> dict[str, Any]:
    """All sentences, and half of them."""
    return _columns("shuffle_sentences", {}, {"share": 0.5})


def rotate() -> dict[str, Any]:
    """The one configuration there is."""
    return _columns("rotate", {})


def shuffle_tokens() -> dict[str, Any]:
    """Both scopes, by token and by word, and a window that is sorted in another way."""
    local = {"scope": "local"}
    return _columns("shuffle_tokens", {}, {"unit": "word"}, local, {**local, "unit": "word"}, {**local, "window": 20.0})


def delete() -> dict[str, Any]:
    """By token and by word, and where all would go."""
    return _columns("delete", {"rate": 0.3}, {"rate": 0.3, "unit": "word"}, {"rate": 1.0})


def replace_random() -> dict[str, Any]:
    """By token and by word."""
    return _columns("replace_random", {"rate": 0.3}, {"rate": 0.3, "unit": "word"})


def insert_random() -> dict[str, Any]:
    """Ordinary tokens, and masks among them, by number and by coins."""
    return _columns("insert_random", {}, {"rate": 0.3, "mask_share": 0.5, "count": "bernoulli"})


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for made in (
        noise,
        mask,
        span_sentinel,
        prefix_split,
        mixture,
        sentence_pair,
        permutation_order,
        attention_pattern,
        views,
        crop,
        infill,
        shuffle_sentences,
        rotate,
        shuffle_tokens,
        delete,
        replace_random,
        insert_random,
    ):
        name, values = made.__name__, made()
        lines = [f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}" for key, value in values.items()]
        text = "{\n" + ",\n".join([f'  "when": {json.dumps(WHEN)}', *lines]) + "\n}\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
