"""The `model` section of a recipe: which class, how large, and from which weights."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from corruption.errors import InputError

Kind = Literal["bert", "roberta", "modernbert"]

SHAPE = ("layers", "width", "heads")
"""Fields a model from scratch must be given."""


class ModelSpec(BaseModel, extra="forbid", frozen=True):
    """What to build; raises InputError for fields that do not fit together.

    kind: the Hugging Face model type. layers, width, heads, intermediate: its size; `intermediate` defaults
    to 4 * width, for ModernBERT's gated layers to 1.5 * width as in its base model. dropout: everywhere the
    class has one; defaults to 0.1 (BERT, RoBERTa) or 0 (ModernBERT), as published. max_positions: longest
    framed example, default corpus.max_tokens. init: a folder (an export of an earlier run, or any Hugging
    Face folder) or a hub name to start from; the size is then the checkpoint's and may be left out. config:
    further fields of the class's configuration, by their Hugging Face names.
    """

    kind: Kind
    layers: int | None = Field(default=None, gt=0)
    width: int | None = Field(default=None, gt=0)
    heads: int | None = Field(default=None, gt=0)
    intermediate: int | None = Field(default=None, gt=0)
    dropout: float | None = Field(default=None, ge=0, lt=1)
    max_positions: int | None = Field(default=None, gt=0)
    init: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fit(self) -> ModelSpec:
        missing = [f"model.{name}" for name in SHAPE if getattr(self, name) is None]
        if self.init is None and missing:
            raise InputError(
                ", ".join(missing), "not given, and there is no model.init", "give the size of the model"
            )
        if self.width and self.heads and self.width % self.heads:
            raise InputError(
                "model.width",
                f"{self.width} is no multiple of model.heads {self.heads}",
                f"use {max(self.width // self.heads, 1) * self.heads} or another number of heads",
            )
        if self.width and self.heads and self.kind == "modernbert" and (self.width // self.heads) % 2:
            raise InputError(
                "model.heads",
                f"{self.width // self.heads} dimensions a head, which rotary positions cannot halve",
                "use an even number of dimensions a head",
            )
        if self.config:
            from trainers.models.hf_config import (
                check_fields,
            )  # imports transformers, so only when there is need

            check_fields(self)
        return self

    def intermediate_size(self) -> int:
        """The inner width of the feed-forward layers of a model from scratch."""
        if self.intermediate is not None:
            return self.intermediate
        assert self.width is not None
        return self.width * 3 // 2 if self.kind == "modernbert" else 4 * self.width
