"""Sections of a recipe: corpus, tokenizer, sampler, evaluation, cluster, tracking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from corruption.vocabulary import ROLES, Vocabulary
from pipelines.formats.unit import Source
from pipelines.packaged import packaged_path


class Section(BaseModel):
    """A part of a recipe: unknown keys are errors and nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusSpec(Section):
    """Where the text comes from and how it is cut.

    Either one source's keys inline (`source`, `text`, `format`, ...), or `sources`, a list of such mappings
    with weights, or `store`, the folder of a prepared store. Relative paths start at the working directory.
    """

    sources: tuple[Source, ...] = ()
    store: str | None = None
    max_tokens: int = Field(default=512, ge=8, le=1_048_576)
    """Framed length of the longest example: content and the objective's special tokens."""
    held_out: float = Field(default=0.01, gt=0.0, le=0.5)
    """Share of the documents that is kept for evaluation, by hash of the document's key."""
    row_group_tokens: int = Field(default=131_072, ge=1024, le=268_435_456)
    """Tokens in a row group of the store, the smallest piece that is read at once."""

    @model_validator(mode="before")
    @classmethod
    def _inline(cls, given: Any) -> Any:
        """Move one source's inline keys into `sources`."""
        given = _tuples(
            given
        )  # what leaves here counts as Python values, and strict typing takes no list for a tuple
        if not isinstance(given, dict):
            return given
        inline = {key: value for key, value in given.items() if key not in cls.model_fields}
        if not inline:
            return given
        if "source" in inline and (given.get("sources") or given.get("store")):
            raise ValueError("gives more than one of source, sources and store; keep one")
        own = {key: value for key, value in given.items() if key in cls.model_fields}
        return given if "sources" in own or own.get("store") else {**own, "sources": (inline,)}

    @model_validator(mode="after")
    def _one(self) -> CorpusSpec:
        if bool(self.sources) == (self.store is not None):
            raise ValueError("names no text; give one of source, sources and store")
        names = [source.name for source in self.sources]
        for name in names:
            if len(names) > 1 and names.count(name) > 1:
                raise ValueError(
                    "has a source without a name; give each of several a name"
                    if name is None
                    else f"has two sources called {name!r}; keys of their documents would collide"
                )
        return self

    def located(self) -> tuple[Source, ...]:
        """The sources with `package:module/path` replaced by the file inside the installed package.

        Raises:
            InputError: the package or the file is not there.
        """
        return tuple(source.model_copy(update={"source": _located(source.source)}) for source in self.sources)


def _tuples(given: Any) -> Any:
    if isinstance(given, dict):
        return {key: _tuples(value) for key, value in given.items()}
    return tuple(map(_tuples, given)) if isinstance(given, list) else given


def _located(given: str | list[str] | tuple[str, ...]) -> Any:
    return packaged_path(given) if isinstance(given, str) else tuple(packaged_path(item) for item in given)


class TrainTokenizer(Section):
    """How to train a tokenizer on the corpus."""

    kind: Literal["wordpiece", "bpe", "unigram"]
    vocab_size: int = Field(ge=128, le=2_000_000)
    lowercase: bool = False
    sample_mb: int = Field(default=1024, ge=1)
    """Train on the first this many megabytes of text."""
    sentinels: int = Field(default=0, ge=0, le=10_000)
    """How many sentinels <extra_id_0>, <extra_id_1>, ... it gets, for span corruption."""
    modes: tuple[str, ...] = ()
    """Mode tokens it gets, such as [R], [S] and [X]."""

    def options(self) -> dict[str, Any]:
        """How `train_tokenizer` takes them."""
        return {"lowercase": self.lowercase, "sentinels": self.sentinels, "modes": self.modes}

    def promised(self) -> Vocabulary:
        """A vocabulary with the special tokens that the trained tokenizer will have, to check a chain against."""
        roles = {role: place for place, role in enumerate(ROLES)}
        marks = range(len(ROLES), len(ROLES) + self.sentinels)
        modes = {mode: marks.stop + place for place, mode in enumerate(self.modes)}
        special = range(marks.stop + len(modes))
        return Vocabulary.from_ids(
            special.stop + 1,
            ids=dict(roles),
            special=special,
            sentinels=tuple(marks),
            named=modes,
            name="tokenizer.train",
        )


class TokenizerSpec(Section):
    """A tokenizer that exists (`path`: a folder or a hub name), or one to `train`; neither with a store."""

    path: str | None = None
    train: TrainTokenizer | None = None

    @model_validator(mode="after")
    def _one(self) -> TokenizerSpec:
        if self.path is not None and self.train is not None:
            raise ValueError("has both path and train; give path (a folder or hub name) or train, not both")
        return self

    @property
    def given(self) -> bool:
        """Whether it names a tokenizer at all."""
        return self.path is not None or self.train is not None

    def located(self) -> str | None:
        """The path with a leading ~ expanded; a hub name as it is; None for a tokenizer to train."""
        return None if self.path is None else str(Path(self.path).expanduser())


class SamplerSpec(Section):
    """How passages are mixed into microbatches."""

    kind: Literal["shuffled"] = "shuffled"
    window_row_groups: int = Field(default=8, ge=1, le=4096)
    """Row groups that are read, shuffled and cut into microbatches together."""


class EvaluationSpec(Section):
    """How the held-out documents are scored: always with the same masks."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    held_out_microbatches: int | None = Field(default=None, ge=1)
    """Score only this many microbatches; all when null."""


class ClusterSpec(Section):
    """Who does the work; free to change on resume."""

    trainers: int = Field(default=1, ge=1, le=4096)
    corruptors: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """CPU tasks that read and corrupt at once; auto leaves it to Ray."""
    max_failures: int = Field(default=3, ge=-1)
    """Restarts after a failed trainer before the job gives up; -1 is without end."""
    gpus: Literal["auto"] | bool = "auto"
    """Whether each trainer has a GPU; auto asks the cluster."""
    chunk_steps: int = Field(default=16, ge=1, le=1024)
    """Steps whose microbatches travel to the trainers in one block."""


class TrackingSpec(Section):
    """Where MLflow keeps the run; free to change on resume."""

    uri: str | None = None
    """Any MLflow tracking URI; null is the file mlflow.db in the folder of the runs."""
    experiment: str = Field(default="papermoth", min_length=1)
    digests: bool = False
    """Also record a hash of every tensor that a step eats."""
