"""Tokenizers: trained on the corpus or loaded from a folder, and checked before anything depends on them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from corruption.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Kind = Literal["wordpiece", "bpe", "unigram"]

_WORDPIECE_ROLES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_SENTENCE_ROLES = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
    "cls_token": "<s>",
    "sep_token": "</s>",
}
_FEWEST = {"wordpiece": 50, "bpe": 256 + 5, "unigram": 50}


def train_tokenizer(
    texts: Iterator[str],
    kind: Kind,
    vocab_size: int,
    *,
    sentinels: int = 0,
    modes: Sequence[str] = (),
    lowercase: bool = False,
    model_max_length: int = 512,
) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `vocab_size` ids, the same for the same texts; complete after `save_pretrained`.

    The last ids are the sentinels <extra_id_0>, <extra_id_1>, ... and the mode tokens, such as [R]. Nothing
    is random.

    Raises InputError for a kind, size or token that cannot be, and for texts in which there is nothing to
    learn.
    """
    from transformers import PreTrainedTokenizerFast

    from pipelines import vocabularies

    learners = {
        "wordpiece": vocabularies.wordpiece,
        "bpe": vocabularies.byte_level_bpe,
        "unigram": vocabularies.unigram,
    }
    if kind not in learners:
        choices = ", ".join(learners)
        raise InputError("tokenizer.train.kind", f"there is no kind {kind!r}", f"choose one of {choices}")
    roles = _WORDPIECE_ROLES if kind == "wordpiece" else _SENTENCE_ROLES
    extra = [*(f"<extra_id_{number}>" for number in range(sentinels)), *modes]
    if len({*extra, *roles.values()}) < len(extra) + len(set(roles.values())) or not all(extra):
        do = "name each once, and none that is there already"
        raise InputError("tokenizer.train", f"the added tokens are {extra}", do)
    size = vocab_size - len(extra)
    if size < _FEWEST[kind]:
        raise InputError(
            "tokenizer.train.vocab_size",
            f"{vocab_size} leaves {size} ids beside {len(extra)} added tokens",
            f"a {kind} vocabulary needs at least {_FEWEST[kind] + len(extra)}",
        )
    counter = _Counting(texts)
    backend = _learn(learners[kind], counter, size, lowercase, kind)
    backend.add_special_tokens(extra)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        model_max_length=model_max_length,
        extra_special_tokens=extra,
        clean_up_tokenization_spaces=False,
        model_input_names=inputs if kind == "wordpiece" else [inputs[0], inputs[2]],
        **roles,
    )


class _Counting:
    """Passes texts on and remembers whether there was anything in them; white space alone is skipped."""

    def __init__(self, texts: Iterator[str]) -> None:
        self.texts, self.seen = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            if text and not text.isspace():
                self.seen += 1
                yield text


def _learn(learner: Any, counter: _Counting, size: int, lowercase: bool, kind: str) -> Any:
    given = f"the corpus gave no text to learn a {kind} vocabulary from"
    nothing = InputError("tokenizer.train", given, "check corpus.source")
    try:
        backend = learner(iter(counter), size, lowercase)
    except Exception as error:
        # With nothing to learn the trainers fail in their own ways.
        if counter.seen:
            raise
        raise nothing from error
    if not counter.seen or _ordinary_ids(backend) < 2:
        raise nothing
    return backend


def load_tokenizer(path: str) -> PreTrainedTokenizerFast:
    """The fast tokenizer in a folder, or of a hub name, exactly as its tokenizer.json has it.

    Raises InputError when there is none, when it has no fast form, and when its vocabulary was lost: most
    classes of transformers 5 come up with their special tokens alone when they are handed a vocabulary
    file, and say nothing.
    """
    from transformers import PreTrainedTokenizerFast

    where = f"tokenizer {path}"
    source = os.path.expanduser(path)
    folder = Path(source)
    if folder.is_file():
        raise InputError(where, "it is a file", f"give the folder that holds it: {folder.parent}")
    looks_local = folder.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1
    if not folder.exists() and looks_local:
        raise InputError(where, "there is no such folder", "check tokenizer.path")
    if folder.is_dir() and not any(folder.iterdir()):
        raise InputError(where, "the folder is empty", "give one written by save_pretrained")
    try:
        tokenizer = _load(source)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        if folder.is_dir():
            given, do = f"transformers cannot load it ({reason})", "give a folder that save_pretrained wrote"
        else:
            given = f"no such folder, and no such name on the hub can be loaded ({reason})"
            do = "check tokenizer.path"
        raise InputError(where, given, do) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(
            where,
            f"{type(tokenizer).__name__} has no fast form, so where its words start is unknown",
            "convert it to a fast tokenizer (tokenizer.json) or train one",
        )
    ordinary = _ordinary_ids(tokenizer.backend_tokenizer)
    if ordinary < 2:
        raise InputError(
            where,
            f"it lost its vocabulary: {len(tokenizer)} tokens, {ordinary} of them not special",
            "save it again from a tokenizer that was loaded with from_pretrained(folder)",
        )
    return tokenizer


def _load(source: str) -> Any:
    """What AutoTokenizer loads, unless its class overrides the tokenizer.json beside it: then that file.

    The classes named by a config.json rebuild the tokenizer from its vocabulary with their own defaults: a
    cased BERT folder without a tokenizer_config.json comes up lower-casing, a GPT-2 or T5 one with tokens
    added.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        loaded = AutoTokenizer.from_pretrained(source)
    except Exception:
        try:
            return PreTrainedTokenizerFast.from_pretrained(source)
        except Exception:
            pass
        raise
    if type(loaded) is PreTrainedTokenizerFast:
        return loaded
    try:
        written = PreTrainedTokenizerFast.from_pretrained(source)
    except Exception:
        return loaded  # no tokenizer.json: built from a vocabulary file
    if not isinstance(loaded, PreTrainedTokenizerFast) or _treatment(loaded) == _treatment(written):
        return loaded
    vocabulary = written.get_vocab()
    roles = {
        role: token
        for role, token in loaded.special_tokens_map.items()
        if isinstance(token, str) and getattr(written, role) is None and token in vocabulary
    }
    written.add_special_tokens(roles)
    return written


def _treatment(tokenizer: PreTrainedTokenizerFast) -> tuple[Any, ...]:
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    return spec["normalizer"], spec["pre_tokenizer"], tokenizer.get_vocab()


def _ordinary_ids(backend: Any) -> int:
    """How many ids are no special tokens. Real vocabularies are as small as 25 amino acids; lost ones hold
    0 or 1."""
    special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    return sum(token not in special for token in backend.get_vocab(with_added_tokens=True))


def check_tokenizer(
    tokenizer: PreTrainedTokenizerFast,
    needs: Sequence[str],
    objective: str,
    embedding_size: int | None = None,
) -> None:
    """Whether the tokenizer has the tokens an objective needs (`needs`: "mask_token", "pad_token", ...),
    and fits.

    `embedding_size` is the number of rows of the model's embedding, or None where the model is built to
    measure.

    Raises InputError naming the tokenizer, the token, the objective and the sizes.
    """
    where = f"tokenizer {tokenizer.name_or_path}" if tokenizer.name_or_path else "tokenizer"
    for need in needs:
        token, number = getattr(tokenizer, need, None), getattr(tokenizer, f"{need}_id", None)
        remedy = (
            f"choose a tokenizer with a {need}, or add one with add_special_tokens({{'{need}': "
            f"'<{need.removesuffix('_token')}>'}}), save it, and resize the embedding of its model"
        )
        if token is None or number is None:
            raise InputError(where, f"it has no {need}, which the objective {objective} needs", remedy)
        if need == "mask_token" and number == tokenizer.unk_token_id:
            given = f"its {need} {token} is its unknown token too, which the objective {objective} cannot use"
            raise InputError(where, given, remedy)
    if embedding_size is None:
        return
    token, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if largest >= embedding_size:
        raise InputError(
            where,
            f"its ids go to {largest} ({token!r}), but the embedding of the model for the objective "
            f"{objective} has {embedding_size} rows",
            f"use the tokenizer that belongs to the model, or give it {largest + 1} rows with resize_token_embeddings",
        )


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerFast) -> str:
    """16 hex characters of what the tokenizer does to text: its backend, and which token has which role.

    Truncation and padding are state of whoever used it last and do not count; nor do names and lengths.
    """
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    spec.pop("truncation", None)
    spec.pop("padding", None)
    roles = {role: token for role, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    text = json.dumps(
        {"backend": spec, "roles": roles, "special": sorted(map(str, tokenizer.all_special_tokens))},
        sort_keys=True,
        ensure_ascii=True,
        separators=(",", ":"),
    )
    return hashlib.blake2b(text.encode("ascii"), digest_size=8).hexdigest()
