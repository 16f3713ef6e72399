"""The card of a data set: how it was made, what came out, how to load it, and whose text it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.card import settings_of, wikipedia_notice
from pipelines.data_set import DATA, SPLITS, TRAIN
from pipelines.readable import counted
from pipelines.recipe_text import name_only

_RATES = (
    ("labelled", "labelled", "choosable", "of the tokens that may be chosen"),
    ("hidden", "hidden", "labelled", "of the labelled positions"),
    ("random", "random", "labelled", "of the labelled positions"),
    ("kept", "kept", "labelled", "of the labelled positions"),
    ("replaced", "replaced", "selected", "of the selected positions"),
    ("removed", "removed", "tokens", "of the passages' tokens"),
    ("moved", "moved", "tokens", "of the passages' tokens"),
    ("invented", "invented", "input_tokens", "of the input's tokens"),
    ("not next", "not_next", "rows", "of the rows"),
)
"""Name, count, what it is a share of, and how that is said."""


def data_set_card(manifest: Mapping[str, Any], store: Mapping[str, Any]) -> str:
    """README.md of a data set, with the metadata block that data set hubs and `load_dataset` read.

    manifest: the data set's; store: the manifest of the store it was made from.
    """
    recipe = manifest["recipe"]
    splits = [split for split in SPLITS if split in manifest["rows"]]
    paths = "\n".join(f"  - split: {split}\n    path: {DATA}/{split}-*.{manifest['files']}" for split in splits)
    steps = "\n".join(f"- `{step['name']}`: {settings_of(step)}" for step in recipe["corruption"]) or "- none"
    return f"""---
license: other
license_name: see-the-text-it-was-made-from
tags:
- papermoth
- {"replaced-token-detection" if "generator" in manifest else recipe["objective"]["kind"]}
configs:
- config_name: default
  data_files:
{paths}
---

# {manifest["name"]}

{_opening(manifest)}

```python
from datasets import load_dataset

data = load_dataset("path/to/this/folder")
```

{_columns(manifest)}

## How it was made

| | |
|---|---|
| data set identity | `{manifest["identity"]}` |
| corpus identity | `{manifest["store"]}` |
| tokenizer | `{manifest["tokenizer"]}` ({name_only(store.get("tokenizer_name", "of the store"))}), in `tokenizer/` |
| objective | `{recipe["objective"]["kind"]}` |{_generator(manifest)}
| longest example | {recipe["corpus"]["max_tokens"]} tokens |
| seed | {manifest["seed"]} for {TRAIN}, {manifest["evaluation_seed"]} for validation |
| copies, epochs | {manifest["copies"]}, {manifest["epochs"]} |

Corruption of the input, in order:

{steps}

{_again(manifest)}

## What came out

{_table(manifest, splits)}

{_dropped(manifest, splits)}

## Text

{_text(store)}"""


def _opening(manifest: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{n:,} {split} rows" for split, n in manifest["rows"].items())
    what = "corrupted passages as token ids" if manifest["files"] == "parquet" else "corrupted passages as texts"
    return (
        f"{what.capitalize()}, made by papermoth: {rows}. Training rows are every passage in "
        f"{counted(manifest['copies'], 'copy').replace('copys', 'copies')} and {counted(manifest['epochs'], 'epoch')}, "
        "each under noise of its own; validation rows are the held-out passages under the noise that evaluation uses. "
        "Rows stand in the corpus's order: shuffle before training."
    )


def _generator(manifest: Mapping[str, Any]) -> str:
    if "generator" not in manifest:
        return ""
    said = manifest["generator"]
    what = f"`{manifest['generator_name']}`, fingerprint `{said['fingerprint']}`, temperature {said['temperature']:g}"
    return f"\n| generator of the replaced tokens | {what} |"


def _again(manifest: Mapping[str, Any]) -> str:
    if "generator" not in manifest:
        what = "with the same corpus, copies and epochs, `papermoth generate` makes the same shards of it."
        return f"`recipe.yaml` is the recipe: {what}"
    what = "the corruption above is what the generator read. With the same corpus, copies, epochs and"
    tail = "generator, `papermoth generate` makes the same shards of it on the same kind of machine and versions."
    return f"`recipe.yaml` is the recipe: {what} {tail}"


def _columns(manifest: Mapping[str, Any]) -> str:
    columns = ", ".join(f"`{name}`" for name in manifest["columns"])
    frame = manifest["frame"]["name"]
    if "generator" in manifest:
        tail = f"{columns}, framed as `{frame}`: ids unpadded; a label is 1 where a sample replaced the token, else 0"
    elif manifest["files"] == "parquet":
        tail = f"{columns}, framed as `{frame}`: ids unpadded, -100 where nothing is asked for"
    else:
        tail = f"{columns}, decoded with the tokenizer; the key is text, since many JSON readers round 64-bit numbers"
    return f"Columns: `key` (of the passage), `epoch`, `copy`, then {tail}."


def _table(manifest: Mapping[str, Any], splits: Sequence[str]) -> str:
    def row(name: str, values: Sequence[str]) -> str:
        return f"| {name} | {' | '.join(values)} |"

    shards = [[shard for shard in manifest["shards"] if shard["split"] == split] for split in splits]
    lines = [
        row("", splits),
        "|---|" + "---|" * len(splits),
        row("shards", [f"{len(own):,}" for own in shards]),
        row("rows", [f"{manifest['rows'][split]:,}" for split in splits]),
        row("tokens of the passages", [f"{manifest['tokens'][split]:,}" for split in splits]),
    ]
    found = [manifest["realised"][split] for split in splits]
    for name, count, whole, said in _RATES:
        if (
            all(count in own for own in found)
            and any(own[count] for own in found)
            and any(own.get(whole) for own in found)
        ):
            lines.append(row(f"{name}, {said}", [_share(own.get(count, 0), own.get(whole, 0)) for own in found]))
    return "\n".join(lines)


def _share(count: int, whole: int) -> str:
    return f"{count:,} ({100 * count / whole:.2f}%)" if whole else f"{count:,}"


def _dropped(manifest: Mapping[str, Any], splits: Sequence[str]) -> str:
    told = [
        f"{n:,} {split} rows {reason}" for split in splits for reason, n in sorted(manifest["dropped"][split].items())
    ]
    return (
        f"Left out, since this corruption cannot use them: {', '.join(told)}." if told else "No passage was left out."
    )


def _text(store: Mapping[str, Any]) -> str:
    passages, tokens = store["passages"], store["tokens"]
    held_out = f"{passages['held_out']:,} held-out passages"
    corpus = f"The corpus holds {passages['train']:,} passages with {tokens['train']:,} tokens, and {held_out}."
    return f"{corpus}\n{wikipedia_notice(store)}"
