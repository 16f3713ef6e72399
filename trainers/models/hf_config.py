"""From a ModelSpec to a Hugging Face configuration, for a new model and against a checkpoint's."""

from __future__ import annotations

from typing import Any

from transformers import BertConfig, ModernBertConfig, PretrainedConfig, RobertaConfig

from corruption.errors import InputError
from corruption.registry import nearest
from corruption.vocabulary import Vocabulary
from trainers.models.spec import ModelSpec

CONFIGS: dict[str, type[PretrainedConfig]] = {
    "bert": BertConfig,
    "roberta": RobertaConfig,
    "modernbert": ModernBertConfig,
}

DROPOUTS = {
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "roberta": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "modernbert": ("embedding_dropout", "attention_dropout", "mlp_dropout"),
}
PUBLISHED_DROPOUT = {"bert": 0.1, "roberta": 0.1, "modernbert": 0.0}

OWNED = {
    "num_hidden_layers": "model.layers",
    "hidden_size": "model.width",
    "num_attention_heads": "model.heads",
    "intermediate_size": "model.intermediate",
    "max_position_embeddings": "model.max_positions",
    "vocab_size": "the tokenizer",
    "pad_token_id": "the tokenizer",
    "bos_token_id": "the tokenizer",
    "eos_token_id": "the tokenizer",
    "cls_token_id": "the tokenizer",
    "sep_token_id": "the tokenizer",
}
"""Configuration fields that follow from another part of the recipe, and which."""


WITHOUT_EFFECT = ("use_cache", "is_decoder", "add_cross_attention", "deterministic_flash_attn")
"""Fields an encoder trained here would ignore or break on; so are those named classifier_* and sparse_*."""


def check_fields(spec: ModelSpec) -> None:
    """Raise InputError for a field of `spec.config` that the class lacks, or that is set elsewhere."""
    cls = CONFIGS[spec.kind]
    ignored = {
        name
        for name in cls.__annotations__
        if name in WITHOUT_EFFECT or name.startswith(("classifier", "sparse"))
    }
    known = set(cls.__annotations__) - ignored - set(OWNED)
    for name in spec.config:
        where = f"model.config.{name}"
        if name in OWNED:
            raise InputError(where, f"this follows from {OWNED[name]}", f"remove it and set {OWNED[name]}")
        if name in ignored:
            raise InputError(where, "it has no effect on a masked language model trained here", "remove it")
        if name not in known:
            raise InputError(where, f"{cls.__name__} has no such field", nearest(name, known))


def position_offset(kind: str, pad_id: int) -> int:
    """Positions the class spends before the first token: RoBERTa counts from its pad id + 1."""
    return pad_id + 1 if kind == "roberta" else 0


def new_config(spec: ModelSpec, vocabulary: Vocabulary, max_tokens: int) -> PretrainedConfig:
    """The configuration of a model from scratch for examples of up to `max_tokens` framed tokens.

    Raises InputError when `spec.max_positions` is below `max_tokens`, or the configuration class refuses a
    value.
    """
    pad_id = vocabulary.need("pad", "the model")
    positions = spec.max_positions or max_tokens
    _check_positions(positions, max_tokens)
    dropout = PUBLISHED_DROPOUT[spec.kind] if spec.dropout is None else spec.dropout
    values: dict[str, Any] = {
        "vocab_size": vocabulary.size,
        "num_hidden_layers": spec.layers,
        "hidden_size": spec.width,
        "num_attention_heads": spec.heads,
        "intermediate_size": spec.intermediate_size(),
        "max_position_embeddings": positions + position_offset(spec.kind, pad_id),
        "pad_token_id": pad_id,
        "bos_token_id": vocabulary.bos,
        "eos_token_id": vocabulary.eos,
        **dict.fromkeys(DROPOUTS[spec.kind], dropout),
    }
    if spec.kind == "modernbert":
        values |= {"cls_token_id": vocabulary.cls, "sep_token_id": vocabulary.sep}
    try:
        return CONFIGS[spec.kind](**values | spec.config)
    except Exception as error:  # the configuration classes validate with errors of several libraries
        raise InputError(
            "model", f"{CONFIGS[spec.kind].__name__} refuses it: {error}", "change the value"
        ) from error


def fit_checkpoint(
    config: PretrainedConfig, spec: ModelSpec, vocabulary: Vocabulary, max_tokens: int
) -> None:
    """Check a checkpoint's configuration against the recipe, and set its dropout to the recipe's.

    Raises InputError for another kind, size, pad id or fewer positions or embeddings than needed: nothing is
    ever resized silently.
    """
    where = f"model.init {spec.init}"
    if config.model_type != spec.kind:
        raise InputError(
            where, f"it is of kind {config.model_type!r}, the recipe says {spec.kind!r}", "change either"
        )
    pad_id = vocabulary.need("pad", "the model")
    if config.pad_token_id != pad_id:
        # As padding_idx it gets no gradient as input, and RoBERTa counts its positions by it.
        raise InputError(
            where,
            f"its pad_token_id is {config.pad_token_id}, the tokenizer's is {pad_id}",
            "use the checkpoint's own tokenizer",
        )
    if vocabulary.size > config.vocab_size:
        raise InputError(
            where,
            f"the tokenizer has {vocabulary.size} ids, the checkpoint embeds {config.vocab_size}",
            "use the checkpoint's own tokenizer",
        )
    positions = config.max_position_embeddings - position_offset(spec.kind, pad_id)
    _check_positions(positions, max_tokens)
    given = {
        "layers": (spec.layers, config.num_hidden_layers),
        "width": (spec.width, config.hidden_size),
        "heads": (spec.heads, config.num_attention_heads),
        "intermediate": (spec.intermediate, config.intermediate_size),
        "max_positions": (spec.max_positions, positions),
    }
    given |= {
        f"config.{name}": (value, getattr(config, name, None))
        for name, value in spec.config.items()
        if "dropout" not in name
    }
    for name, (wanted, found) in given.items():
        if wanted is not None and wanted != found:
            raise InputError(
                f"model.{name}", f"{wanted!r}, but {spec.init} has {found!r}", "remove it or change init"
            )
    for name in DROPOUTS[spec.kind] if spec.dropout is not None else ():
        setattr(config, name, spec.dropout)
    for name in spec.config:
        if "dropout" in name:
            setattr(config, name, spec.config[name])


def _check_positions(positions: int, max_tokens: int) -> None:
    if positions < max_tokens:
        raise InputError(
            "corpus.max_tokens",
            f"{max_tokens} framed tokens, but the model has {positions} positions",
            f"use at most {positions}, or a model with more positions",
        )
