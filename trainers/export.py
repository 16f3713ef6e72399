"""A trained model as an ordinary Hugging Face folder."""

from __future__ import annotations

import inspect
from pathlib import Path

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trainers.folders import beside, flush, put


def export(module: nn.Module, folder: Path, tokenizer: PreTrainedTokenizerBase, card: str) -> Path:
    """Write config.json, model.safetensors, tokenizer files and README.md (the card) to `folder`.

    `from_pretrained` loads it with no missing and no unexpected weight. The folder is there whole or not at
    all; one of that name is replaced. `module.model` is the Hugging Face model. The tokenizer then gives what that
    model takes: ModernBERT, for one, knows no token types.
    """
    model = module.model
    assert isinstance(model, PreTrainedModel)
    takes = inspect.signature(model.forward).parameters
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name in takes]
    partial = beside(folder)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / "README.md").write_text(card, encoding="utf-8")
    flush(partial)
    put(partial, folder)
    return folder
