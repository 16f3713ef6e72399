"""A frozen masked language model that proposes tokens: where it lies, what it is, and whether it fits a recipe."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from corruption.errors import InputError
from corruption.vocabulary import ROLES
from pipelines.store import digest_of
from trainers.objectives.columns import OBJECTIVE_COLUMNS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from pipelines.recipe import Recipe

CONFIG = "config.json"
WEIGHTS = (
    ("*.safetensors", "*.safetensors.index.json"),
    ("pytorch_model*.bin", "pytorch_model*.bin.index.json"),
)
"""Files of a model's weights, those that are loaded when there are both first."""

TOKENIZER_FILES = ("tokenizer*.json", "special_tokens_map.json", "vocab.*", "merges.txt", "*.model")

SKIPS_POSITIONS = (
    *("roberta", "roberta-prelayernorm", "camembert", "xlm-roberta", "xlm-roberta-xl", "xmod", "ibert"),
    *("data2vec-text", "longformer", "mpnet", "luke"),
)
"""Kinds of models that count positions from their pad id + 1 on, so that so many of them are never used."""


COLDEST = 1e-6
"""The lowest temperature above 0: logits divided by less leave the range of float32."""


@dataclass(frozen=True)
class Generator:
    """A frozen masked language model, and how it is sampled.

    source: its folder, or its hub name with `revision`, the commit there. folder: where its files lie on this machine.
    fingerprint: 32 hex characters of its configuration and weights. temperature: divides its logits; 0 takes the most
    likely token. gpus: as `cluster.gpus` of a recipe.
    """

    source: str
    revision: str | None
    folder: str
    fingerprint: str
    temperature: float
    gpus: Literal["auto"] | bool = "auto"

    def __post_init__(self) -> None:
        if self.temperature != 0 and not (math.isfinite(self.temperature) and self.temperature >= COLDEST):
            raise InputError("--temperature", f"{self.temperature} is none", f"give 0, or {COLDEST} or more")

    def identity(self) -> dict[str, Any]:
        """What a data set's bytes follow from."""
        return {"fingerprint": self.fingerprint, "temperature": float(self.temperature)}

    @property
    def where(self) -> str:
        """How messages call it."""
        return f"--generator {self.source}"

    def check(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Raise InputError when its ids are not those of the recipe's tokenizer."""
        from pipelines.tokenizers import load_tokenizer

        vocabulary: dict[str, int] = tokenizer.get_vocab()
        size, rows = max(vocabulary.values()) + 1, _config(Path(self.folder), self.where).get("vocab_size")
        do = "use a generator and a recipe with one tokenizer"
        told = any((Path(self.folder) / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))
        # With a tokenizer beside it, rows that no token uses are but padding of its embedding.
        if isinstance(rows, int) and (rows < size if told else rows != size):
            raise InputError(self.where, f"its vocabulary has {rows:,} ids, the recipe's tokenizer {size:,}", do)
        if not told:
            return
        own = load_tokenizer(self.folder)
        other: dict[str, int] = own.get_vocab()
        if other != vocabulary:
            token = min(t for t, i in {**vocabulary, **other}.items() if vocabulary.get(t) != i or other.get(t) != i)
            ids = f"token {token!r} has id {other.get(token)} there and {vocabulary.get(token)} in the recipe's"
            raise InputError(self.where, f"its tokenizer is another: {ids}", do)
        for role in ROLES:
            there, here = (getattr(one, f"{role}_token_id", None) for one in (own, tokenizer))
            if there != here:
                given = f"its tokenizer is another: {role}_token has id {there} there and {here} in the recipe's"
                raise InputError(self.where, given, do)


def open_generator(name: str, temperature: float, recipe: Recipe, files: str) -> Generator:
    """The generator in a folder or of a hub name, checked against all of the recipe that can be known without data.

    Raises InputError for a recipe that has no labels to fill or another frame than single, for texts instead of ids,
    and for a model that is not there, reads too few tokens, or has another vocabulary.
    """
    kind = recipe.objective.kind
    data = OBJECTIVE_COLUMNS[kind]
    if data.frame != "single":
        given = f"{kind} frames its examples as {data.frame!r}, a generator reads them as 'single'"
        raise InputError("objective.kind", given, "use mlm, or leave --generator out")
    if "labels" not in data.columns:
        given = f"{kind} has no labels, which say where a generator is to put samples"
        raise InputError("objective.kind", given, "use mlm, or leave --generator out")
    if files != "parquet":
        given = f"a generator's samples are token ids, which --format {files} does not hold"
        raise InputError("--format", given, "use parquet, or leave --generator out")
    folder, revision = _located(name)
    source = name if revision else str(folder)
    where = f"--generator {source}"
    _check_positions(_config(folder, where), recipe.corpus.max_tokens, where)
    # Checked before weights of many gigabytes are read.
    Generator(source, revision, str(folder), "", temperature)
    made = Generator(source, revision, str(folder), _fingerprint(folder, where), temperature, recipe.cluster.gpus)
    if (known := _tokenizer_of(recipe)) is not None:
        made.check(known)
    return made


def _located(name: str) -> tuple[Path, str | None]:
    """Where the model's files are, and the commit of a hub name."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve(), None
    where = f"--generator {name}"
    if path.exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        given = "it is a file" if path.exists() else "there is no such folder"
        raise InputError(where, given, f"give a folder with {CONFIG} and weights, as save_pretrained writes it")
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(name, allow_patterns=[CONFIG, *WEIGHTS[0], *TOKENIZER_FILES])
        if not _weights(Path(found)):
            found = snapshot_download(name, allow_patterns=[CONFIG, *WEIGHTS[1], *TOKENIZER_FILES])
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        given = f"no such folder, and no such name on the hub can be loaded ({reason})"
        raise InputError(where, given, "check the name") from error
    return Path(found), Path(found).name


def _config(folder: Path, where: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
    except FileNotFoundError:
        do = "give a folder as save_pretrained writes it; of a run, its folder model"
        raise InputError(where, f"the folder holds no {CONFIG}", do) from None
    except (OSError, ValueError) as error:
        raise InputError(where, f"its {CONFIG} cannot be read ({error})", "write the model again") from None
    if not isinstance(config, dict) or config.get("is_encoder_decoder"):
        raise InputError(where, "it is no masked language model of one encoder", "give one that is")
    return config


def _check_positions(config: Mapping[str, Any], max_tokens: int, where: str) -> None:
    positions, pad = config.get("max_position_embeddings"), config.get("pad_token_id")
    if not isinstance(positions, int):
        return
    if config.get("model_type") in SKIPS_POSITIONS:
        positions -= (pad if isinstance(pad, int) else 1) + 1
    if positions < max_tokens:
        given = f"it reads {positions:,} tokens at most, the recipe's examples have up to {max_tokens:,}"
        raise InputError(where, given, "lower corpus.max_tokens, or use a generator with more positions")


def _weights(folder: Path) -> list[Path]:
    """The files of the weights that are loaded, by name."""
    for patterns in WEIGHTS:
        if found := sorted({path for pattern in patterns for path in folder.glob(pattern)}):
            return found
    return []


def _fingerprint(folder: Path, where: str) -> str:
    weights = _weights(folder)
    if not weights:
        do = "give a folder with model.safetensors, as save_pretrained writes it"
        raise InputError(where, "the folder holds no weights", do)
    lines = "".join(f"{path.name} {digest_of(path)}\n" for path in (folder / CONFIG, *weights))
    return hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()


def _tokenizer_of(recipe: Recipe) -> PreTrainedTokenizerFast | None:
    """The recipe's tokenizer where it is there already."""
    from pipelines.tokenizers import load_tokenizer

    if recipe.tokenizer.path is not None:
        return load_tokenizer(recipe.tokenizer.path)
    if recipe.corpus.store is not None:
        folder = Path(recipe.corpus.store).expanduser().absolute() / "tokenizer"
        return load_tokenizer(str(folder)) if folder.is_dir() else None
    return None
