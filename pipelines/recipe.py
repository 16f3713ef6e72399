"""A run as one YAML file: read, checked against all that can be known before any work starts, and frozen."""

from __future__ import annotations

import dataclasses
import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PrivateAttr, ValidationError, field_validator, model_validator

from corruption.chain import Chain
from corruption.errors import InputError
from corruption.frames import FRAMES, Frame, missing
from corruption.registry import nearest, parse_step
from pipelines.recipe_faults import first_fault
from pipelines.recipe_sections import (
    ClusterSpec,
    CorpusSpec,
    EvaluationSpec,
    SamplerSpec,
    Section,
    TokenizerSpec,
    TrackingSpec,
)
from pipelines.recipe_yaml import override, read_file
from pipelines.shipped import FOLDER, shipped_recipes
from trainers.models.spec import ModelSpec
from trainers.objectives import check_kind, check_trainable
from trainers.objectives.columns import OBJECTIVE_COLUMNS
from trainers.settings import TrainSettings


def _step(given: dict[str, Any]) -> dict[str, Any]:
    """One corruption with every default written out, so that equal noise is equal text."""
    made = parse_step(given)
    name = given.get("name", made.kind)
    if not isinstance(name, str) or not re.fullmatch(r"[^\s.\d][^\s.]*", name):
        raise InputError("step.name", f"{name!r} is no name of a step", "give a word without spaces or dots")
    return {
        "kind": made.kind,
        "name": name,
        **{key: value for key, value in _described(made).items() if key != "kind"},
    }


def _described(value: Any) -> Any:
    """A corruption's configuration as plain data; a configuration inside it keeps its kind."""
    if isinstance(value, Chain):
        return [{**_described(step), "name": name} for name, step in zip(value.names, value.steps)]
    if isinstance(value, tuple):
        return [_described(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    kind = {"kind": value.kind} if hasattr(value, "kind") else {}
    return kind | {item.name: _described(getattr(value, item.name)) for item in dataclasses.fields(value)}


_OPTIONAL: Any = Field(default=None)
"""A section that a recipe which only makes data leaves out; `Recipe.for_training` refuses that."""

_PROVIDERS = {
    "labels": "mask",
    "segment": "sentence_pair",
    "next_sentence_label": "sentence_pair",
    "permutation_order": "permutation_order",
    "attention_pattern": "attention_pattern",
    "positive": "views",
}
"""A kind of corruption that provides the column, for messages."""


class ObjectiveSpec(Section):
    """What the model learns from a corrupted example."""

    kind: str

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return check_kind(kind)


class Recipe(Section):
    """Everything that a run needs to be told; `load_recipe` makes one.

    `corruption` holds the steps as plain mappings with all defaults; `chain()` builds them. `model` and `train`
    may be left out (None) of a recipe that only makes data.
    """

    seed: int = Field(default=0, ge=0, lt=2**64)
    corpus: CorpusSpec
    tokenizer: TokenizerSpec = TokenizerSpec()
    corruption: tuple[Annotated[dict[str, Any], AfterValidator(_step)], ...]
    objective: ObjectiveSpec
    model: ModelSpec = _OPTIONAL
    train: TrainSettings = _OPTIONAL
    sampler: SamplerSpec = SamplerSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    cluster: ClusterSpec = ClusterSpec()
    tracking: TrackingSpec = TrackingSpec()
    _name: str = PrivateAttr("recipe")

    @property
    def name(self) -> str:
        """The file's name without its ending, fit for a folder's name."""
        return self._name

    @field_validator("corruption")
    @classmethod
    def _chain(cls, steps: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        Chain.parse(steps)
        return steps

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        frame = self.frame()
        for column in missing(frame, frame.columns, self.chain().provides()):
            raise InputError(
                "objective.kind",
                f"{self.objective.kind} reads the column {column!r}, which no corruption here provides",
                f"add one that does, such as {{kind: {_PROVIDERS[column]}}}",
            )
        if (most := self.content_tokens()) < 1:
            raise InputError(
                "corpus.max_tokens",
                f"{self.corpus.max_tokens} leaves no room for text beside what this chain and frame add",
                "raise it",
            )
        if self.tokenizer.train is not None:
            self.chain().check(self.tokenizer.train.promised(), most)
        if self.tokenizer.given == (self.corpus.store is not None):
            if self.tokenizer.given:
                raise InputError("tokenizer", "is given, but a store brings its own", "leave tokenizer out")
            raise InputError(
                "tokenizer", "is missing", "give path (a folder or hub name) or train (kind, vocab_size)"
            )
        if self.train is None:
            return self
        lanes = self.train.lanes
        if self.cluster.trainers > lanes:
            raise InputError(
                "cluster.trainers",
                f"{self.cluster.trainers} trainers share {lanes} microbatches a step "
                f"(train.tokens_per_step {self.train.tokens_per_step} / train.microbatch_tokens "
                f"{self.train.microbatch_tokens})",
                "use fewer trainers or smaller microbatches",
            )
        if self.corpus.max_tokens > self.train.microbatch_tokens:
            raise InputError(
                "train.microbatch_tokens",
                f"{self.train.microbatch_tokens} is below corpus.max_tokens {self.corpus.max_tokens}",
                "raise it or lower corpus.max_tokens",
            )
        return self

    def chain(self) -> Chain:
        """The corruptions in order."""
        return Chain.parse(self.corruption)

    def frame(self) -> Frame:
        """How the objective's examples are framed."""
        data = OBJECTIVE_COLUMNS[self.objective.kind]
        return FRAMES[data.frame](data.columns)

    def content_tokens(self) -> int:
        """The longest passage whose example stays within `corpus.max_tokens`, whatever the chain draws."""
        chain, frame = self.chain(), self.frame()

        def framed(content: int) -> int:
            return max(frame.lengths(chain.bounds(content)).values())

        most = self.corpus.max_tokens
        # A chain that shortens, as span corruption does, takes longer passages.
        return bisect_right(range(4 * most + 1), most, key=framed) - 1

    def for_training(self) -> Recipe:
        """The recipe itself, or InputError when it says too little to train on, or its objective cannot be."""
        for section in ("model", "train"):
            if getattr(self, section) is None:
                what = "it has no such section, so nothing can be trained"
                raise InputError(f"recipe {self.name}: {section}", what, "add it")
        check_trainable(self.objective.kind)
        return self

    def plain(self) -> dict[str, Any]:
        """The whole recipe as nested plain data, defaults written out."""
        return self.model_dump(mode="json")

    def canonical(self) -> str:
        """The whole recipe as one line of JSON, keys sorted: equal for equal recipes however written."""
        return json.dumps(self.plain(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def flat(self) -> dict[str, Any]:
        """Dotted keys to scalars, for trackers; corruptions and sources go by name where they have one."""
        return flattened(self.plain())


def flattened(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested plain data as dotted keys to scalars; an empty list or mapping becomes None."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = [(_label(item, i), item) for i, item in enumerate(value)]
    else:
        return {prefix: value}
    if not items:
        return {prefix: None}
    return {
        key: scalar
        for label, item in items
        for key, scalar in flattened(item, f"{prefix}.{label}" if prefix else str(label)).items()
    }


def _label(item: Any, place: int) -> str:
    return str((item.get("name") if isinstance(item, dict) else None) or place)


def recipe_path(name: str | Path) -> Path:
    """The file of a shipped recipe's name, or of a path (a leading ~ expanded).

    Raises:
        InputError: there is no such file; names the nearest shipped recipe.
    """
    shipped = shipped_recipes()
    if str(name) in shipped:
        return FOLDER / f"{name}.yaml"
    path = Path(name).expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is neither a file nor a shipped recipe"
        raise InputError(f"recipe {str(name)!r}", what, nearest(path.stem, shipped))
    return path


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a file or of a shipped name, with `a.b=value` settings applied.

    Raises:
        InputError: anything wrong with it: file and line (or the setting), key, value, what is allowed.
    """
    path = recipe_path(name)
    tree = read_file(path)
    for setting in overrides:
        override(tree, setting)
    try:
        # Through JSON: only there does strict typing take a list for a tuple and yet refuse "5" for 5.
        recipe = Recipe.model_validate_json(json.dumps(tree.data), strict=True)
    except ValidationError as error:
        raise first_fault(error, tree, Recipe) from None
    recipe._name = re.sub(r"[^\w.-]+", "-", path.stem).strip("-.") or "recipe"
    return recipe
