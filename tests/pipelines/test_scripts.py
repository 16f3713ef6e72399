"""Chinese, Arabic, Thai and emoji text through every corruption, under the three kinds of vocabulary: the laws hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from corruption.audit import chain_laws, judged
from corruption.chain import Chain
from corruption.ragged import Batch
from corruption.vocabulary import Vocabulary
from pipelines.documents import Document
from pipelines.foreign import STORED
from pipelines.passages import PassageBuilder, PassageSettings
from pipelines.tokenizers import train_tokenizer
from tests.corruption import block

TEXTS = {
    "Chinese": "我喜欢弹琵琶。用BERT模型预测2024年的天气！今天下雨了吗？没有，天气很好。他说：“我们走吧。”",
    "Arabic": "كان الكتاب على الطاولة. هل قرأته؟ نعم، قرأتُه أمس! وَلَكِنَّ القصةَ طويلة. السلام عليكم.",
    "Thai": "ฉันชอบเล่นดนตรี วันนี้ฝนตกหรือเปล่า ไม่ตก อากาศดีมาก\nเราไปกันเถอะ เขาพูดว่าอย่างนั้น",
    "emoji": "Great 👍🏽 news 🎉! The 👩‍👩‍👧‍👦 family went to 🇩🇪. Was it fun? Yes 😀😀😀. Zalgo: ẗ̷e̷x̶t̴ ok.",
    "mixed": "用 Python 写的 👍 كتاب and ไทย words. Then more. 再见！ The end…",
}


@pytest.fixture(scope="module", params=["wordpiece", "bpe", "unigram"])
def passages(request):
    """(vocabulary, passages with foreign columns) of the texts, under one kind of vocabulary."""
    texts = [text * times for text in TEXTS.values() for times in (1, 2, 5)]
    tokenizer = train_tokenizer(iter(texts * 3), request.param, 900, sentinels=200, modes=("[R]", "[S]", "[X]"))
    documents = [Document(key=str(i), text=text) for i, text in enumerate(texts)]
    table, counts = PassageBuilder(tokenizer.backend_tokenizer.to_str(), PassageSettings(budget=60)).build(documents)
    assert counts["unsegmented_characters"] > 100 and len(table) >= len(texts)
    other = np.roll(np.arange(len(table)), 7)
    for name, stored in STORED.items():
        table = table.append_column(name, table[stored].take(other))
    return Vocabulary.from_tokenizer(tokenizer), table


@pytest.mark.parametrize("name", sorted(block.cases()))
def test_the_laws_hold(passages, name):
    vocabulary, table = passages
    step = block.cases()[name]
    chain = Chain((step,))
    before = Batch.from_arrow(table, chain.columns())
    after = chain.apply(before, seed=1, epoch=2, vocabulary=vocabulary)
    usable = np.flatnonzero(after.usable)
    assert len(usable) > 5
    before, after = before.take(usable), after.take(usable)
    evidence = chain_laws(chain, after, vocabulary, stages=[before], seed=1, epoch=2)
    # Twenty passages say nothing of shares; what holds for each row and token is asked for.
    assert judged(replace(evidence, trials=())) == []
    assert evidence.checked, f"no law was looked at for {name}"
    bounds = [step.bounds(int(n)) for n in before.tokens.lengths]
    for column in bounds[0]:
        assert all(n <= most[column] for n, most in zip(after.columns[column].lengths, bounds))


def test_B05_unspaced_text_is_masked_by_its_characters(passages):
    """A line of Chinese is not one word: some of it is hidden, never all or nothing."""
    vocabulary, table = passages
    chain = Chain.parse([{"kind": "mask", "unit": "word"}])
    rows = Batch.from_arrow(table, chain.columns())
    labels = chain.apply(rows, seed=0, epoch=0, vocabulary=vocabulary).columns["labels"]
    for row in np.flatnonzero(rows.tokens.lengths >= 20):
        assert 0.05 < (labels.row(row) != -100).mean() < 0.3
