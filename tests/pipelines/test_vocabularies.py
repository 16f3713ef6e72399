from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pipelines.vocabularies import canonical_scores, wordpiece

TRAIN = """
import hashlib, sys
from pipelines.tokenizers import train_tokenizer
from tests.pipelines.trained import news
for kind in ("wordpiece", "bpe", "unigram"):
    text = train_tokenizer(iter([*news()[:60], *news()[-5:]]), kind, 900).backend_tokenizer.to_str()
    print(hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
"""


def test_same_texts_same_bytes_in_every_process() -> None:
    seen = set()
    for threads in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", TRAIN],
            capture_output=True,
            text=True,
            check=True,
            env={"RAYON_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1", "PATH": "", "PYTHONPATH": "."},
            cwd=Path(__file__).parents[2],
        )
        seen.add(done.stdout)
    assert len(seen) == 1
    assert len(set(seen.pop().split())) == 3


def test_canonical_scores_deal_out_the_floor() -> None:
    one = [("<s>", 0.0), ("the", -2.0), ("q", -9.0), ("x", -8.9999), ("z", -8.9998), ("m", -5.5)]
    other = [("<s>", 0.0), ("the", -2.0), ("m", -5.5), ("z", -9.0), ("q", -8.9999), ("x", -8.9998)]
    assert canonical_scores(one, ["<s>"]) == canonical_scores(other, ["<s>"])
    assert canonical_scores(one, ["<s>"])[:2] == [["<s>", 0.0], ["the", -2.0]]
    assert canonical_scores([], ["<s>"]) == [["<s>", 0.0]]


def test_wordpiece_alphabet_leaves_half_of_the_vocabulary_to_words() -> None:
    rare = "".join(map(chr, range(0x3B1, 0x3C9)))
    tokenizer = wordpiece(iter(["the cat sat on the mat, the cat ran"] * 9 + [rare]), 60, False)
    single = [token for token in tokenizer.get_vocab() if len(token.removeprefix("##")) == 1]
    assert len(single) <= 30
    assert {"the", "cat"} <= set(tokenizer.get_vocab())


def test_wordpiece_keeps_no_continuing_punctuation_or_han() -> None:
    vocabulary = wordpiece(iter(["abc, 我喜 (def) x-y"] * 9), 80, False).get_vocab()
    assert {"我", "喜", ",", "(", "##b", "##e"} <= set(vocabulary)
    assert not {"##我", "##,", "##(", "##x"} & set(vocabulary)
