"""Vocabularies of models that frame content each in a way of its own, and rows as their tokenizers make them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corruption.chain import Chain
from corruption.noise_kinds import Mask
from corruption.registry import parse_step
from corruption.vocabulary import Vocabulary

SIZE = 60
FIRST = 8
"""The first ordinary id of every layout here."""


@dataclass(frozen=True)
class Layout:
    """before, behind: ids around content. left: padding is on the left. frame: what puts the ids back."""

    vocabulary: Vocabulary
    before: tuple[int, ...]
    behind: tuple[int, ...]
    left: bool
    frame: str
    chain: Chain

    def row(self, content: list[int], width: int) -> dict[str, list[int]]:
        """A framed and padded row with its masks, and word starts that are nonsense outside of content."""
        framed = [*self.before, *content, *self.behind]
        around = [1] * len(self.before) + [0] * len(content) + [1] * len(self.behind)
        n = width - len(framed)
        parts = {
            "word_start": ([9] * len(self.before) + starts(content) + [9] * len(self.behind), 9),
            "input_ids": (framed, self.vocabulary.pad),
            "attention_mask": ([1] * len(framed), 0),
            "special_tokens_mask": (around, 1),
        }
        return {
            name: [fill] * n + values if self.left else values + [fill] * n for name, (values, fill) in parts.items()
        }


def starts(content: list[int]) -> list[int]:
    """Words of two tokens."""
    return [1 - i % 2 for i in range(len(content))]


def vocabulary(name: str, **ids: int) -> Vocabulary:
    return Vocabulary.from_ids(SIZE, ids=ids, special=range(FIRST), name=name)


MASKING = Chain((Mask(rate=0.4),))
REPLACING = Chain((Mask(rate=0.4, mask_share=0.0, random_share=1.0),))
LAYOUTS = {
    "bert": Layout(vocabulary("bert", pad=0, unk=1, cls=2, sep=3, mask=4), (2,), (3,), False, "single", MASKING),
    "roberta": Layout(
        vocabulary("roberta", bos=0, pad=1, eos=2, unk=3, cls=0, sep=2, mask=4), (0,), (2,), False, "single", MASKING
    ),
    "bart": Layout(
        vocabulary("bart", bos=0, pad=1, eos=2, unk=3, cls=0, sep=2, mask=4),
        *((0,), (2,), False, "encoder_decoder", MASKING),
    ),
    "t5": Layout(vocabulary("t5", pad=0, eos=1, unk=2), (), (1,), False, "encoder_decoder", REPLACING),
    "gpt2": Layout(vocabulary("gpt2", bos=5, eos=5, unk=5, pad=5), (5,), (5,), True, "single", REPLACING),
    "xlnet": Layout(
        vocabulary("xlnet", unk=0, bos=1, eos=2, cls=3, sep=4, pad=5, mask=6),
        *((), (4, 3), True, "permutation", Chain((parse_step({"kind": "permutation_order"}),))),
    ),
}


def contents(n: int, longest: int, seed: int) -> list[list[int]]:
    """Rows of ordinary ids, an empty one among them."""
    random = np.random.default_rng(seed)
    return [random.integers(FIRST, SIZE, random.integers(0, longest + 1)).tolist() for _ in range(n)] + [[]]
