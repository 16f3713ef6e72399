"""Small tokenizers of the three kinds, trained once a process on packaged news text."""

from __future__ import annotations

import functools
import importlib.resources

from transformers import PreTrainedTokenizerFast

from pipelines.tokenizers import Kind, train_tokenizer

KINDS: tuple[Kind, ...] = ("wordpiece", "bpe", "unigram")
# Letters apart, so that no test's phrase is one token.
FOREIGN = (
    "琶 琵 弹 欢 喜 我 用 型 模 测 预 年 。 日 本 テ キ ス ト ภ า ษ ไ ท ย ส ว ั ด ี हिन्दी Zürich (été)! BERT 2024 [x] <m>"
)


def news() -> list[str]:
    """300 short news texts in English, and a line of other scripts often enough to be learnt."""
    folder = importlib.resources.files("gensim") / "test" / "test_data"
    return [*(folder / "lee_background.cor").read_text("utf-8").splitlines(), *[FOREIGN] * 30]


@functools.cache
def trained(kind: Kind) -> PreTrainedTokenizerFast:
    """A tokenizer of 3000 ids; share it, but do not alter it."""
    return train_tokenizer(iter(news()), kind, 3000, sentinels=2, modes=("[R]",))


@functools.cache
def trained_json(kind: Kind) -> str:
    """The same, as the JSON of its backend."""
    return str(trained(kind).backend_tokenizer.to_str())
