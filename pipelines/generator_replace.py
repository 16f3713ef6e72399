"""Replaced-token detection offline: a frozen masked language model fills every labelled position with a sample.

The chain masks a passage, the generator reads it and a token is drawn from its prediction at every labelled position,
those that the mask left as they were among them. What is written is the passage with the samples in it and, for each
token, whether it differs from the one that stood there; a sample that happens to be right counts as real.

The uniform number behind a sample is a pure function of seed, epoch, key, copy and place. The sample itself is not: it
follows from floating-point sums whose last bits depend on the machine, on versions and on the other rows of its row
group. So these data sets are outside the bit contract of the corruptions; what repeats is the same request on the same
kind of machine with the same versions, whatever the number of workers.

Source: Clark et al. 2020, "ELECTRA", section 2 (samples at temperature 1, selected positions only, right samples count
as real). Deviation: the generator does not learn beside the discriminator; section 3.3 reports what that costs.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from corruption.errors import InputError
from corruption.noise import draw, fold, stream, unit
from corruption.ragged import Batch, Int32, Int64, Ragged, UInt64
from corruption.schema import IGNORE
from corruption.vocabulary import ROLES
from pipelines.data_set import VALIDATION
from pipelines.generate_plan import Piece
from pipelines.generate_task import Work, attempt
from pipelines.store import digest_of
from trainers.objectives.columns import OBJECTIVE_COLUMNS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from pipelines.generator_model import GeneratorModel
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


@njit(cache=True, nogil=True)
def _units(
    prefix: np.uint64, keys: UInt64, copies: UInt64, offsets: Int64, labels: Int32, out: npt.NDArray[np.float64]
) -> None:
    done = 0
    for row in range(len(keys)):
        own = fold(fold(prefix, keys[row]), copies[row])
        for place in range(offsets[row], offsets[row + 1]):
            if labels[place] != IGNORE:
                out[done] = unit(draw(own, np.uint64(place - offsets[row])))
                done += 1


def units(batch: Batch, labels: Ragged, seed: int, epoch: int) -> npt.NDArray[np.float64]:
    """float64[N] in [0, 1): one for each labelled position, in order.

    A pure function of (seed, "generator_replace", epoch, key, copy, position in the framed example).
    """
    out = np.empty(int((labels.values != IGNORE).sum()), np.float64)
    prefix = np.uint64(stream(seed, "generator_replace", epoch))
    _units(prefix, batch.keys, batch.copies, labels.offsets, labels.values, out)
    return out


def replaced(framed: Mapping[str, Ragged], samples: npt.NDArray[np.integer]) -> dict[str, Ragged]:
    """`input_ids` with the samples at the labelled positions, in order, and `labels`: 1 where that changed the token.

    framed: `input_ids` and `labels` as the mask left them.
    """
    ids, labels = framed["input_ids"], framed["labels"].values
    at = labels != IGNORE
    original = np.where(at, labels, ids.values)
    shown = original.copy()
    shown[at] = samples
    return {"input_ids": ids.with_values(shown), "labels": ids.with_values((shown != original).astype(np.int32))}


def replaced_shares(realised: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """The share of the selected positions at which another token stands now, of each split."""
    return {split: own["replaced"] / own["selected"] for split, own in realised.items() if own.get("selected")}


class Replacing:
    """An actor of the Ray Data job: it loads the model with its first shard, and makes shards one after another."""

    def __init__(self, work: Work, device: str) -> None:
        self._work, self._device = work, device

    @cached_property
    def _model(self) -> GeneratorModel:
        from pipelines.generator_model import GeneratorModel

        assert self._work.generator is not None
        return GeneratorModel(self._work.generator, self._work.vocabulary, self._device)

    def rewrite(
        self, batch: Batch, framed: Mapping[str, Ragged], piece: Piece, counts: Counter[str]
    ) -> dict[str, Ragged]:
        """Framed masked examples become replaced ones."""
        seed = self._work.evaluation_seed if piece.split == VALIDATION else self._work.seed
        drawn = units(batch, framed["labels"], seed, piece.epoch)
        made = replaced(framed, self._model.samples(framed["input_ids"], framed["labels"], drawn))
        counts.update(selected=len(drawn), replaced=int(made["labels"].values.sum()))
        return made

    def attempt(self, piece: Piece) -> dict[str, Any]:
        """`generate_task.attempt` of a shard with replaced tokens."""
        return attempt(piece, self._work, self.rewrite)

    def __call__(self, rows: pa.Table) -> Iterator[pa.Table]:
        import cloudpickle

        for piece in rows["piece"].to_pylist():
            yield pa.Table.from_pylist([self.attempt(cloudpickle.loads(piece))])


def actors(work: Work, pieces: int, workers: int | None) -> dict[str, Any]:
    """Options of `map_batches` for `Replacing`: on GPUs, one each, where there are any and the recipe does not say no.

    workers: most actors at a time (None: one a GPU, or one a core). Needs a running Ray.
    """
    import ray

    assert work.generator is not None
    found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpus = found.get("GPU", 0) >= 1 if work.generator.gpus == "auto" else bool(work.generator.gpus)
    there = int(found.get("GPU" if gpus else "CPU", 1))
    return {
        "fn_constructor_kwargs": {"work": work, "device": "cuda" if gpus else "cpu"},
        "concurrency": max(1, min(pieces, workers or there)),
        "num_cpus": 1,
        **({"num_gpus": 1} if gpus else {}),
    }
