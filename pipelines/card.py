"""The model card: what the model is, what it saw, and whose text that was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.identity import identity
from pipelines.job import Job


def model_card(job: Job, step: int) -> str:
    """README.md of a model exported after `step` steps, with the metadata block that model hubs read."""
    recipe, manifest = job.recipe, job.opened_store().manifest
    steps = "\n".join(f"- `{step['name']}`: {settings_of(step)}" for step in recipe.corruption)
    passages, tokens = manifest["passages"], manifest["tokens"]
    train = recipe.train
    rate = f"{train.learning_rate:g}, {train.warmup_steps:,} warmup steps, {train.schedule} decay"
    return f"""---
library_name: transformers
license: other
license_name: see-the-text-it-was-trained-on
tags:
- papermoth
- {recipe.objective.kind}
- {recipe.model.kind}
---

# {recipe.name}

A {recipe.model.kind} model pretrained by papermoth with the objective `{recipe.objective.kind}`.

## How it was made

| | |
|---|---|
| recipe identity | `{identity(job.identity)}` |
| corpus identity | `{manifest['identity']}` |
| tokenizer | `{manifest['tokenizer']}` ({manifest['tokenizer_name']}) |
| steps | {step:,} of at most {recipe.train.tokens_per_step:,} positions |
| learning rate | {rate} |
| longest example | {recipe.corpus.max_tokens} tokens |
| seed | {recipe.seed} |

Corruption of the input, in order:

{steps}

## Text

{passages['train']:,} passages with {tokens['train']:,} tokens; {passages['held_out']:,} passages were held out.
{wikipedia_notice(manifest)}"""


def wikipedia_notice(store: Mapping[str, Any]) -> str:
    """Whose text it is and under which licence, for a store's manifest with a Wikipedia source; else nothing."""
    if not any("wikipedia" in source.get("formats", []) for source in store.get("sources", [])):
        return ""
    return """
The text comes from Wikipedia. It was written by its contributors and is available under the Creative Commons
Attribution-ShareAlike licence (older revisions: CC BY-SA 3.0, newer ones: 4.0); each article's history names its
authors. Markup was removed; nothing else was changed before tokenisation.
"""


def settings_of(step: Mapping[str, object]) -> str:
    """A step's fields for a person, its name left out."""
    return ", ".join(f"{key} {value}" for key, value in step.items() if key != "name" and value is not None)
