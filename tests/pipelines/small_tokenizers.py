"""Two tokenizers of a few tokens, made on the spot: WordPiece on a dozen words, and bytes with two merges."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = ["the", "cat", "sat", "on", "mat", "dog", "ran", "far", "un", "##known", "##s", ",", "."]


def wordpiece(*more: str) -> PreTrainedTokenizerFast:
    """WORDS and `more` of them; added special tokens are those written <like this>."""
    named = [token for token in more if not token.startswith("<")]
    roles = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    backend = Tokenizer(models.WordPiece({t: i for i, t in enumerate([*roles, *WORDS, *named])}, unk_token="[UNK]"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    if special := [token for token in more if token.startswith("<")]:
        tokenizer.add_special_tokens({"extra_special_tokens": special})
    return tokenizer


def byte_level(**special: str) -> PreTrainedTokenizerFast:
    """The 256 bytes, and " c" and "at" as one token each."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate(["<pad>", "<mask>", "<s>", "</s>", *letters, "Ġc", "at"])}
    backend = Tokenizer(models.BPE(vocab, [("Ġ", "c"), ("a", "t")]))
    backend.pre_tokenizer, backend.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)
