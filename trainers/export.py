"""A trained model as an ordinary Hugging Face folder."""

from __future__ import annotations

from pathlib import Path

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from trainers.folders import beside, flush, put


def export(module: nn.Module, folder: Path, tokenizer: PreTrainedTokenizerBase, card: str) -> Path:
    """Write config.json, model.safetensors, tokenizer files and README.md (the card) to `folder`.

    `from_pretrained` loads it with no missing and no unexpected weight. The folder is there whole or not at
    all; one of that name is replaced. `module.model` is the Hugging Face model.
    """
    model = module.model
    assert isinstance(model, PreTrainedModel)
    partial = beside(folder)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / "README.md").write_text(card, encoding="utf-8")
    flush(partial)
    put(partial, folder)
    return folder
