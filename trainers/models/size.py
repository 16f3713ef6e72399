"""How large a model is and what a step of it costs, without allocating it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from corruption.vocabulary import Vocabulary
from trainers.models.hf_config import new_config
from trainers.models.masked_lm import CLASSES, build_masked_lm
from trainers.models.spec import ModelSpec


@dataclass(frozen=True)
class ModelSize:
    """Numbers of a model; `parameters` counts shared weights once, `matrices` those of the layers.

    attention_span: tokens each position attends to, summed over the layers, for examples of `tokens`
    positions.
    """

    parameters: int
    matrices: int
    layers: int
    width: int
    vocabulary: int
    tokens: int
    attention_span: int

    def flops_per_token(self, label_rate: float = 0.15) -> float:
        """Floating-point operations to train on one position, forward and backward.

        6 per weight of the encoder's matrices, plus 12 * width for each (layer, attended token): queries by
        keys and weights by values, 2 * width each, three times over; plus 6 * (width^2 + width * V) at
        labelled positions. Source: Kaplan et al. 2020, section 2.1; Chowdhery et al. 2022, appendix B.
        """
        head = 6 * (self.width**2 + self.width * self.vocabulary)
        return 6 * self.matrices + 12 * self.width * self.attention_span + label_rate * head

    @property
    def state_bytes(self) -> int:
        """Weights, gradients and AdamW's two moments in float32: 16 bytes a parameter, on every trainer."""
        return 16 * self.parameters

    def activation_bytes(self, microbatch_tokens: int, label_rate: float = 0.15, bf16: bool = False) -> int:
        """An estimate of what one microbatch keeps for its backward.

        34 * width bytes a layer and position in 16 bits, twice that in 32, attention itself recomputed; and
        three float32 copies of the logits at labelled positions. Source: Korthikanti et al. 2022, equation
        2, first term.
        """
        encoder = (34 if bf16 else 68) * self.width * self.layers * microbatch_tokens
        return int(encoder + 12 * self.vocabulary * label_rate * microbatch_tokens)


def model_size(spec: ModelSpec, vocabulary: Vocabulary, max_tokens: int) -> ModelSize:
    """The size of what `build_masked_lm` would build, for examples of `max_tokens`; fails as that does.

    A new model is made on the meta device, which holds no numbers; one from `spec.init` is loaded.
    """
    if spec.init is None:
        with torch.device("meta"):
            model = CLASSES[spec.kind]._from_config(new_config(spec, vocabulary, max_tokens))
    else:
        model = build_masked_lm(spec, vocabulary, max_tokens=max_tokens, seed=0).model
    config = model.config
    layers = [
        module for name, module in model.base_model.named_modules() if name in ("layers", "encoder.layer")
    ]
    matrices = sum(p.numel() for stack in layers for p in stack.parameters() if p.ndim > 1)
    windows = [
        min(max_tokens, config.local_attention + 1) if kind == "sliding_attention" else max_tokens
        for kind in getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    ]
    return ModelSize(
        parameters=sum(p.numel() for p in model.parameters()),
        matrices=matrices,
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        tokens=max_tokens,
        attention_span=sum(windows),
    )
