"""A masked language model that projects to the vocabulary only where a label is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    BertForMaskedLM,
    ModernBertForMaskedLM,
    PreTrainedModel,
    RobertaForMaskedLM,
)

from corruption.errors import InputError
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from trainers.models.hf_config import fit_checkpoint, new_config
from trainers.models.spec import ModelSpec
from trainers.seeding import seeded

logger = logging.getLogger(__name__)

CLASSES: dict[str, Any] = {
    "bert": BertForMaskedLM,
    "roberta": RobertaForMaskedLM,
    "modernbert": ModernBertForMaskedLM,
}

HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "bert": lambda model, hidden: model.cls(hidden),
    "roberta": lambda model, hidden: model.lm_head(hidden),
    "modernbert": lambda model, hidden: model.decoder(model.head(hidden)),
}
"""From hidden states float[..., width] to logits float[..., V], as each class does at every position."""


class MaskedLM(nn.Module):
    """A Hugging Face masked language model, whole as `.model`, with its head at labelled positions only."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.head = HEADS[model.config.model_type]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(logits float[N, V], targets int64[N]) at the N positions whose label is not IGNORE, in row order.

        All three inputs are int64[B, T].
        """
        hidden = self.model.base_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        at = (labels != IGNORE).flatten().nonzero().squeeze(1)
        return self.head(self.model, hidden.flatten(0, 1)[at]), labels.flatten()[at]


def build_masked_lm(spec: ModelSpec, vocabulary: Vocabulary, *, max_tokens: int, seed: int) -> MaskedLM:
    """The module on the CPU in float32; new weights are drawn from the seed, so all trainers draw the same.

    Raises InputError when `spec.init` cannot be loaded or does not fit the recipe.
    """
    with seeded(seed, "model"):
        if spec.init is not None:
            return MaskedLM(_from_checkpoint(spec, vocabulary, max_tokens))
        config = new_config(spec, vocabulary, max_tokens)
        return MaskedLM(
            CLASSES[spec.kind]._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
        )


def _from_checkpoint(spec: ModelSpec, vocabulary: Vocabulary, max_tokens: int) -> PreTrainedModel:
    assert spec.init is not None
    where = f"model.init {spec.init}"
    path = Path(spec.init).expanduser()
    looks_local = spec.init.startswith(("/", ".", "~")) or spec.init.count("/") > 1
    if looks_local and not path.exists():
        raise InputError(where, "no such folder", "give a folder with config.json and model.safetensors")
    name = str(path) if path.exists() else spec.init
    try:
        config = AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(
            where, f"its configuration cannot be read: {_first_line(error)}", "check the name"
        ) from error
    fit_checkpoint(config, spec, vocabulary, max_tokens)
    try:
        model, found = CLASSES[spec.kind].from_pretrained(
            name, config=config, attn_implementation="sdpa", dtype=torch.float32, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(
            where, f"its weights cannot be loaded: {_first_line(error)}", "check the folder"
        ) from error
    missing = sorted(found["missing_keys"])
    if encoder := [key for key in missing if key.startswith(model.base_model_prefix + ".")]:
        raise InputError(
            where, f"{len(encoder)} encoder weights are missing, first {encoder[0]}", "use a whole one"
        )
    if missing:
        logger.warning(
            "%s: it has no prediction head; %d head weights are new, drawn from the seed", where, len(missing)
        )
    return cast(PreTrainedModel, model)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
