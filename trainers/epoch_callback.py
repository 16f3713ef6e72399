"""Each epoch of a Hugging Face `Trainer` its own noise."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from trainers.collator import Collator


class EpochCallback(TrainerCallback):
    """Calls the collator's `set_epoch` as the Trainer begins an epoch, also after a resume in the middle of one.

    A Trainer has one collator for training and evaluation: give another to its `get_eval_dataloader` where evaluation
    is to stay under the same noise.
    """

    def __init__(self, collator: Collator) -> None:
        self.collator = collator
        self.next = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start from the epoch that the Trainer starts from."""
        self.next = int(state.epoch or 0)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counted here, since the Trainer's own number stays below a whole one where it left an epoch early."""
        self.collator.set_epoch(self.next)
        self.next += 1
