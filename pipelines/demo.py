"""The demo: the whole line on a real corpus, and at its end what a person wants to see."""

from __future__ import annotations

import math
import time
from pathlib import Path

from pipelines.console import Console
from pipelines.curves import loss_curve
from pipelines.evaluate import scored, table
from pipelines.fill import Filled, fill_masks
from pipelines.job import MODEL
from pipelines.pretrain import pretrain
from pipelines.readable import shown
from pipelines.recipe import load_recipe
from pipelines.run_folder import reopen


def demo(*, out: Path | None = None, fresh: bool = False, console: Console) -> Path:
    """Pretrain the shipped `demo` recipe, show its curve, scores and three filled-in masks; returns the run's folder.

    Whatever is there already, from the tokenizer to the finished model, is used again.
    """
    from pipelines.tracking import RunHandle, how_to_open, metric_history

    began = time.monotonic()
    recipe = load_recipe("demo")
    console.say("papermoth demo: a small ModernBERT on 106 articles of the English Wikipedia")
    folder = pretrain(recipe, out=out, fresh=fresh, console=console)
    job, run = reopen(folder)
    found, _ = scored(folder)
    handle = RunHandle(run["tracking"]["uri"], run["tracking"]["run_id"], recipe.tracking.experiment)
    try:
        trained, held_out = metric_history(handle, "train/loss"), metric_history(handle, "held_out/loss")
    except Exception as error:
        # The run is finished and its scores are fresh; only the curve lives in the tracker.
        console.warn(f"no curve: {handle.uri} cannot be read ({type(error).__name__})")
        trained, held_out = [], []
    console.say("")
    console.say("loss by step")
    console.say(loss_curve(trained, held_out, marks={"unigram": found.unigram_loss}))
    console.say("")
    if held_out and held_out[0][0] == 0:
        console.say(f"held-out perplexity before training: {math.exp(held_out[0][1]):.1f}")
    for line in table(found):
        console.say(line)
    console.say("")
    console.say("three masks in held-out text, filled in:")
    for filled in fill_masks(job):
        for line in lines_of(filled):
            console.say(line)
    console.say("")
    console.say(f"the model: {shown(folder / MODEL)}")
    console.say(f"the run in MLflow: {how_to_open(handle.uri)}")
    console.say(f"done in {time.monotonic() - began:.0f} s")
    return folder


def lines_of(filled: Filled) -> list[str]:
    """A filled mask as two lines."""
    answers = ", ".join(f"{word} {100 * p:.0f}%" for word, p in filled.answers)
    return [f"  ... {filled.text} ...", f"      model: {answers}   (the text has: {filled.word})"]
