"""A frozen masked language model that is asked for tokens at labelled positions; only its workers import this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from corruption.errors import InputError
from corruption.ragged import Int64, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines.generator import Generator
from pipelines.quiet import quiet_transformers

TOKENS = 8192
"""Most tokens of a batch, padding included."""

LOGITS = 1 << 26
"""Most logits of a batch: 256 MB of float32."""

BLOCK = 256
"""Tokens of the vocabulary whose probabilities are added up together; see `choose`."""


class GeneratorModel:
    """The model on one device in float32, in evaluation mode, on one thread, its head at labelled positions only."""

    def __init__(self, generator: Generator, vocabulary: Vocabulary, device: str) -> None:
        """Raises InputError when it cannot be loaded whole, or has fewer embeddings than the vocabulary has ids."""
        torch.set_num_threads(1)
        quiet_transformers()
        self._generator, self._device = generator, torch.device(device)
        self._pad = vocabulary.need("pad", "padding")
        self._model = _load(generator)
        if (rows := self._model.get_input_embeddings().num_embeddings) < vocabulary.size:
            given = f"its vocabulary has {rows:,} ids, the recipe's tokenizer {vocabulary.size:,}"
            raise InputError(generator.where, given, "use a generator and a recipe with one tokenizer")
        self._model.eval().requires_grad_(False).to(self._device)
        self._model.base_model.register_forward_hook(self._only_labelled)
        self._pool = torch.from_numpy(vocabulary.pool.astype(np.int64)).to(self._device)
        self._at = torch.empty(0, dtype=torch.int64)

    def _only_labelled(self, _module: Any, _given: Any, output: Any) -> Any:
        """Hand only the labelled positions' hidden states on to the head, as one row, whatever the class calls it."""
        output.last_hidden_state = output.last_hidden_state.flatten(0, 1)[self._at].unsqueeze(0)
        return output

    @torch.inference_mode()
    def logits(self, input_ids: Ragged, labels: Ragged, rows: Int64) -> Tensor:
        """float32[N, pool]: of the ordinary tokens, at the labelled positions of these rows in order."""
        lengths = input_ids.lengths[rows]
        shape = (len(rows), int(lengths.max()))
        inside = np.arange(shape[1]) < lengths[:, None]
        ids, wanted = np.full(shape, self._pad, np.int64), np.full(shape, IGNORE, np.int64)
        ids[inside], wanted[inside] = input_ids.take(rows).values, labels.take(rows).values
        self._at = torch.from_numpy(np.flatnonzero(wanted != IGNORE)).to(self._device)
        mask = torch.from_numpy(inside.astype(np.int64)).to(self._device)
        found = self._model(input_ids=torch.from_numpy(ids).to(self._device), attention_mask=mask).logits
        if found.dim() != 3 or found.shape[:2] != (1, len(self._at)):
            given = f"its head does not predict position by position ({type(self._model).__name__})"
            raise InputError(self._generator.where, given, "use another model")
        picked: Tensor = found[0].float().index_select(1, self._pool)
        if not bool(picked.isfinite().all()):
            raise InputError(self._generator.where, "its predictions are not finite", "use another model")
        return picked

    def samples(self, input_ids: Ragged, labels: Ragged, units: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """int64[N]: a token for each labelled position in order, of the ordinary ones; units: float64[N] in [0, 1)."""
        asked = labels.values != IGNORE
        number = np.cumsum(asked) - 1  # which of the N a position is
        per_row = np.diff(np.concatenate(([0], np.cumsum(asked)))[labels.offsets])
        pool = self._pool.cpu().numpy()
        out = np.empty(len(units), np.int64)
        for rows in batches(input_ids.lengths, per_row, len(self._pool)):
            at = np.concatenate(
                [number[a:b][asked[a:b]] for a, b in zip(labels.offsets[rows], labels.offsets[rows + 1])]
            )
            logits = self.logits(input_ids, labels, rows)
            out[at] = pool[choose(logits, units[at], self._generator.temperature)]
        return out


def _load(generator: Generator) -> Any:
    do = "give a masked language model as save_pretrained writes it"
    source, revision = generator.source, generator.revision
    try:
        model, found = AutoModelForMaskedLM.from_pretrained(
            source, revision=revision, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # a damaged file, an unknown kind: each library has errors of its own
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        raise InputError(generator.where, f"it cannot be loaded ({reason})", do) from error
    if missing := sorted(found["missing_keys"]):
        raise InputError(generator.where, f"{len(missing)} of its weights are missing, first {missing[0]}", do)
    return model


def batches(lengths: Int64, labelled: Int64, vocabulary: int) -> Iterator[Int64]:
    """Rows that have labels, shortest first, in batches of at most TOKENS and LOGITS, or of one row."""
    order = np.argsort(lengths, kind="stable")
    batch: list[int] = []
    positions = 0
    for row in order[labelled[order] > 0].tolist():
        tokens = (len(batch) + 1) * int(lengths[row])
        if batch and (tokens > TOKENS or (positions + int(labelled[row])) * vocabulary > LOGITS):
            yield np.array(batch, np.int64)
            batch, positions = [], 0
        batch.append(row)
        positions += int(labelled[row])
    if batch:
        yield np.array(batch, np.int64)


@torch.inference_mode()
def choose(logits: Tensor, units: npt.NDArray[np.float64], temperature: float) -> npt.NDArray[np.int64]:
    """int64[N]: for each row of float32[N, V] a column, drawn from softmax(logits / temperature) by inverse CDF.

    units: float64[N] in [0, 1), one a row. Temperature 0 takes the largest. A column whose
    probability is 0 is never drawn.

    The sums run over blocks of columns, then inside one block, both on the CPU: running sums of floats on a GPU can
    differ from one call to the next.
    """
    if temperature == 0 or not len(logits):
        return logits.argmax(1).cpu().numpy() if len(logits) else np.empty(0, np.int64)
    weights = ((logits - logits.amax(1, keepdim=True)) / temperature).exp()
    blocks = torch.nn.functional.pad(weights, (0, -weights.shape[1] % BLOCK)).view(len(weights), -1, BLOCK)
    sums = blocks.sum(2, dtype=torch.float64).cpu().numpy()
    chosen, rest = _draw(sums, units * sums.sum(1))
    inside = blocks[torch.arange(len(blocks), device=blocks.device), torch.from_numpy(chosen).to(blocks.device)]
    place, _ = _draw(inside.double().cpu().numpy(), rest)
    return chosen * BLOCK + place


def _draw(
    weights: npt.NDArray[np.float64], target: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The column of each row in whose weight the target falls when they are laid end to end, and how far into it."""
    ends = np.cumsum(weights, axis=1)
    found = (ends <= target[:, None]).sum(1)
    # A target that rounding has put behind the end falls into the last column that has any weight.
    last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(1)
    found = np.minimum(found, last).astype(np.int64)
    before = np.where(found > 0, ends[np.arange(len(found)), found - 1], 0.0)
    return found, target - before
