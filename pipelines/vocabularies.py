"""The three kinds of vocabulary, learnt with `tokenizers` so that the same texts give the same bytes.

The library visits its hash maps in an order that changes from process to process. Byte-level BPE does not
depend on it. WordPiece numbers its continuing characters in that order, and breaks ties between merges by
number: here the characters are counted first and numbered by code point. Unigram gives the characters it
must keep their scores in that order: here those scores are dealt out again by code point, and the rest
rounded above the noise of summation.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.words import LETTER, MARK, classes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WORDPIECE_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SENTENCE_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
COVERAGE = 0.9999
"""WordPiece keeps the most frequent characters that make up this share of the text; the others become
[UNK]."""

_BLOCK = 1 << 20
_FLOOR_STEP = 1e-4


def wordpiece(texts: Iterator[str], size: int, lowercase: bool) -> Tokenizer:
    """BERT's tokenizer: NFC, control characters dropped, Han set apart; accents stripped only with
    `lowercase`.

    The texts pass once and are kept, normalised, in a temporary file. Source: Devlin et al. 2019, section
    3, and the tokenizer released with it; deviations: NFC first, and an alphabet by
    coverage (their limit of 1000 is too few for Chinese).
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=True, strip_accents=lowercase, lowercase=lowercase
            ),
        ]
    )
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as spool:
        alphabet, continuing = _characters(texts, normalizer, spool, size)
        spool.seek(0)
        learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            special_tokens=[*WORDPIECE_SPECIALS, *(f"##{char}" for char in continuing)],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        learner.train_from_iterator(spool, trainer)
    # A fresh one, since the trainer made the continuing characters special tokens.
    model = models.WordPiece(learner.get_vocab(), unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(list(WORDPIECE_SPECIALS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, model.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _characters(texts: Iterator[str], normalizer: Any, spool: Any, size: int) -> tuple[list[str], list[str]]:
    """The alphabet, and which of it continues words, each by code point; the normalised texts go to the
    spool."""
    counts = np.zeros(0x110000, np.int64)
    continues = np.zeros(0x110000, np.bool_)

    def take(block: list[str]) -> None:
        text = "\n".join(block) + "\n"
        spool.write(text)
        kinds = classes(text)
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        np.add(counts, np.bincount(points, minlength=len(counts)), out=counts)
        inside = (kinds >= LETTER) & ~_isolated(points, kinds)
        continues[points[1:][inside[1:] & inside[:-1]]] = True

    block, held = [], 0
    for text in texts:
        block.append(normalizer.normalize_str(text))
        held += len(text)
        if held >= _BLOCK:
            take(block)
            block, held = [], 0
    if block:
        take(block)
    counts[[point for point in np.flatnonzero(counts) if chr(point).isspace()]] = 0
    found = np.flatnonzero(counts)
    ranked = found[np.argsort(-counts[found], kind="stable")]
    before = np.cumsum(counts[ranked]) - counts[ranked]
    # Half of the vocabulary at most: a letter that continues words stands in it twice.
    room = np.cumsum(1 + continues[ranked]) <= size // 2
    kept = np.sort(ranked[room & (before < COVERAGE * counts.sum())])
    return [chr(point) for point in kept], [chr(point) for point in kept if continues[point]]


def _isolated(points: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """bool: what BERT's rules make a token of its own: punctuation and Han."""
    blocks = ((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x10FFFF))
    found: np.ndarray = kinds == MARK
    for low, high in blocks:
        found |= (points >= low) & (points <= high)
    return found


def byte_level_bpe(texts: Iterator[str], size: int, lowercase: bool) -> Tokenizer:
    """GPT-2's tokenizer with RoBERTa's special tokens and template: every text comes back byte for byte.

    Source: Radford et al. 2019, section 2.2; Liu et al. 2019, section 4.4.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SENTENCE_SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = {token: number for number, token in enumerate(SENTENCE_SPECIALS)}
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    return tokenizer


def unigram(texts: Iterator[str], size: int, lowercase: bool) -> Tokenizer:
    """SentencePiece's unigram model: NFKC, runs of spaces as one, words marked by a leading "▁".

    Source: Kudo 2018, section 3.2; Kudo and Richardson 2018, section 3.
    """
    from tokenizers import Regex as Pattern
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    steps = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Pattern(" {2,}"), " ")]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([*steps, *([normalizers.Lowercase()] if lowercase else [])])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=list(SENTENCE_SPECIALS), unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    spec = json.loads(tokenizer.to_str())
    spec["model"]["vocab"] = canonical_scores(spec["model"]["vocab"], SENTENCE_SPECIALS)
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    ids = {token: number for number, token in enumerate(SENTENCE_SPECIALS)}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(token, ids[token]) for token in ("<s>", "</s>")],
    )
    return tokenizer


def canonical_scores(vocabulary: Sequence[tuple[str, float]], specials: Sequence[str]) -> list[list[str | float]]:
    """A trained Unigram vocabulary in canonical form: the special tokens, then by score and by piece.

    Characters that training had dropped come back with the lowest score plus 0, 1, 2, ... steps, in a
    random order: those scores are dealt out by code point.
    """
    out: list[list[str | float]] = [[token, 0.0] for token in specials]
    scores = {piece: score for piece, score in vocabulary if piece not in set(specials)}
    if not scores:
        return out
    lowest = min(scores.values())
    steps = {piece: (score - lowest) / _FLOOR_STEP for piece, score in scores.items() if len(piece) == 1}
    floor = sorted(piece for piece, step in steps.items() if abs(step - round(step)) < 1e-5)
    scores.update(zip(floor, sorted(scores[piece] for piece in floor)))
    for score, piece in sorted((-round(score, 6), piece) for piece, score in scores.items()):
        out.append([piece, -score])
    return out
