from __future__ import annotations

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from pipelines import content_encoder
from pipelines.content_encoder import ContentEncoder, pieces
from pipelines.tokenizers import Kind
from tests.pipelines.trained import KINDS, news, trained_json


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_give_the_tokens_of_the_whole(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_encoder, "PIECE", 300)
    text = "\n".join(news()[:20]) + "\n\n" + "我喜欢弹琵琶，" * 100
    parts = pieces(text)
    assert "".join(text[start:end] for start, end, _ in parts) == text
    assert len(parts) > 30 and max(end - start for start, end, _ in parts) <= 300
    assert not any(inside for _, _, inside in parts)
    encoded = ContentEncoder(trained_json(kind)).encode(text)
    whole = Tokenizer.from_str(trained_json(kind)).encode(text, add_special_tokens=False)
    english = text.index("我")
    cut = int(np.searchsorted(encoded.start, english))
    assert encoded.ids[:cut].tolist() == whole.ids[: len(encoded.ids[:cut])]
    if kind != "unigram":  # where no space is, each piece of a Metaspace tokenizer gets its own "▁"
        assert encoded.ids.tolist() == whole.ids
        assert encoded.end.tolist() == [end for _, end in whole.offsets]
    spec = json.loads(trained_json("unigram"))
    spec["normalizer"] = {"type": "Prepend", "prepend": "▁"}
    spec["pre_tokenizer"]["prepend_scheme"] = "never"
    llama = ContentEncoder(json.dumps(spec))
    plain = "the man said " * 200
    whole = Tokenizer.from_str(json.dumps(spec)).encode(plain, add_special_tokens=False)
    assert llama.encode(plain).ids.tolist() == whole.ids
