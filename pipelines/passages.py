"""Documents to passages: whole sentences of one document, greedily up to a budget of content tokens.

No token is lost and none is invented: the passages of a document are its tokens, cut. A passage ends at the
last sentence start within the budget; if there is none, at the last word start; if there is none, at the
budget. Its first token counts as a word start and a sentence start.

A link becomes a mention, the tokens that cover it. Where its borders fall inside tokens it is widened to
whole tokens (`mentions_widened`). It is dropped, with the reason counted, when a passage's border cuts it
(`mentions_dropped_border`), when no token covers it (`..._no_token`), when it shares a token with the mention
before it (`..._overlap`), and when its offsets do not lie in the text (`..._outside`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corruption.errors import InputError
from corruption.noise import example_key, hash64
from corruption.schema import MENTION, NUMBERS, PASSAGES
from pipelines.content_encoder import ContentEncoder
from pipelines.documents import Document
from pipelines.sentences import sentence_starts
from pipelines.words import Alignment, align, classes, given_starts, unspaced

_CHUNK_TOKENS = 1 << 30
"""Arrow's list offsets are int32: a table of more tokens is made of several chunks."""


@dataclass(frozen=True)
class PassageSettings:
    """How documents are cut: `budget` is the number of content tokens a passage may hold.

    Raises InputError for a budget below 1.
    """

    budget: int

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise InputError("corpus.max_tokens", f"it leaves {self.budget} tokens for text", "raise it")


@dataclass(frozen=True)
class _Cut:
    """One document's tokens with the borders of its passages (int64[passages + 1]) and its mentions by
    passage."""

    document: Document
    ids: npt.NDArray[np.int32]
    word_start: npt.NDArray[np.int32]
    sentence_start: npt.NDArray[np.int32]
    borders: npt.NDArray[np.int64]
    mentions: list[list[tuple[int, int, str]]]


class PassageBuilder:
    """Turns documents into passages, with its own copy of a tokenizer (the JSON of its backend); picklable.

    What becomes of a document depends on nothing but the document, the tokenizer and the settings.
    """

    def __init__(self, tokenizer_json: str, settings: PassageSettings) -> None:
        self.settings = settings
        self._encoder = ContentEncoder(tokenizer_json)

    def build(self, documents: Sequence[Document]) -> tuple[pa.Table, Counter[str]]:
        """Passages of schema PASSAGES in the order of the documents, and counts under named reasons.

        Counts: documents, documents_without_tokens, passages, tokens, characters, words, sentences,
        unknown_tokens; unsegmented_documents and unsegmented_characters (of scripts without spaces, no
        usable `words`); words_mismatched (documents whose `words` are not their text), words_crossed (words
        given up because a token reached over their border); sentences_cut, words_cut (longer than the
        budget), runs_cut (unbroken text cut before tokenisation); mentions, mentions_widened,
        mentions_dropped_*.
        """
        counts: Counter[str] = Counter(documents=len(documents))
        chunks: list[pa.Table] = []
        waiting: list[_Cut] = []
        tokens = 0
        for document in documents:
            cut = self._cut(document, counts)
            if cut is None:
                continue
            if waiting and tokens + len(cut.ids) > _CHUNK_TOKENS:
                chunks.append(_table(waiting))
                waiting, tokens = [], 0
            waiting.append(cut)
            tokens += len(cut.ids)
        chunks.append(_table(waiting))
        table = pa.concat_tables(chunks)
        counts["passages"] += table.num_rows
        return table, +counts

    def _cut(self, document: Document, counts: Counter[str]) -> _Cut | None:
        text = document.text
        encoded = self._encoder.encode(text)
        counts["characters"] += len(text)
        counts["runs_cut"] += encoded.cuts
        if not len(encoded.ids):
            counts["documents_without_tokens"] += 1
            counts["mentions_dropped_no_token"] += len(document.links)
            return None
        kinds = classes(text)
        given = None
        if document.words is not None:
            given = given_starts(text, kinds, document.words)
            counts["words_mismatched"] += given is None
        if given is None and (count := unspaced(kinds)):
            counts["unsegmented_documents"] += 1
            counts["unsegmented_characters"] += count
        alignment = align(kinds, given, encoded.start, encoded.end, encoded.piece)
        sentence_start = _sentences(text, alignment)
        borders = _borders(alignment.word_start, sentence_start, self.settings.budget, counts)
        counts["tokens"] += len(encoded.ids)
        counts["words"] += int(np.count_nonzero(alignment.word_start))
        counts["sentences"] += int(np.count_nonzero(sentence_start))
        counts["words_crossed"] += alignment.crossed
        if self._encoder.unknown is not None:
            counts["unknown_tokens"] += int(np.count_nonzero(encoded.ids == self._encoder.unknown))
        words, sentences = alignment.word_start.astype(np.int32), sentence_start.astype(np.int32)
        words[borders[:-1]] = sentences[borders[:-1]] = 1
        mentions = _mentions(document, alignment, borders, counts)
        return _Cut(document, encoded.ids, words, sentences, borders, mentions)


def _sentences(text: str, alignment: Alignment) -> npt.NDArray[np.bool_]:
    """bool[tokens]: where a sentence starts; always at a word, so a sentence inside a user's word is none."""
    number = np.searchsorted(np.array(sentence_starts(text), np.int32), alignment.start, "right")
    out = alignment.word_start.copy()
    out[1:] &= number[1:] != number[:-1]
    return out


def _borders(
    word_start: npt.NDArray[np.bool_],
    sentence_start: npt.NDArray[np.bool_],
    budget: int,
    counts: Counter[str],
) -> npt.NDArray[np.int64]:
    """int64[passages + 1]: where passages start, and the end."""
    total = len(word_start)
    if total <= budget:
        return np.array([0, total], np.int64)
    sentences = np.append(np.flatnonzero(sentence_start), total)
    words = np.flatnonzero(word_start)
    borders, cut_sentence = [0], -1
    while (start := borders[-1]) < total:
        number = int(np.searchsorted(sentences, start + budget, "right")) - 1
        end = int(sentences[number])
        if end <= start:
            if number != cut_sentence:
                counts["sentences_cut"] += 1
                cut_sentence = number
            end = int(words[np.searchsorted(words, start + budget, "right") - 1])
            if end <= start:
                counts["words_cut"] += 1
                end = start + budget
        borders.append(end)
    return np.array(borders, np.int64)


def _mentions(
    document: Document, alignment: Alignment, borders: npt.NDArray[np.int64], counts: Counter[str]
) -> list[list[tuple[int, int, str]]]:
    """The document's links as token spans of its passages, in order; see the module for what is dropped."""
    out: list[list[tuple[int, int, str]]] = [[] for _ in range(len(borders) - 1)]
    if not document.links:
        return out
    text = document.text
    spans = []
    for start, end, target in document.links:
        surface = text[start:end] if 0 <= start < end <= len(text) else ""
        if not surface.strip():
            counts["mentions_dropped_no_token" if surface else "mentions_dropped_outside"] += 1
            continue
        spans.append((start + len(surface) - len(surface.lstrip()), start + len(surface.rstrip()), target))
    spans.sort(key=lambda span: span[:2])
    starts, ends = np.array([span[0] for span in spans]), np.array([span[1] for span in spans])
    # A prefix maximum, because the empty span of a token of white space may not end after the one before it.
    firsts = np.searchsorted(np.maximum.accumulate(alignment.end), starts, "right")
    lasts = np.searchsorted(np.maximum.accumulate(alignment.start), ends, "left")
    passages = np.searchsorted(borders, firsts, "right") - 1
    reached = 0
    for (start, end, target), first, last, passage in zip(spans, firsts.tolist(), lasts.tolist(), passages.tolist()):
        if first >= last:
            counts["mentions_dropped_no_token"] += 1
        elif first < reached:
            counts["mentions_dropped_overlap"] += 1
        elif last > borders[passage + 1]:
            counts["mentions_dropped_border"] += 1
        else:
            counts["mentions"] += 1
            counts["mentions_widened"] += int(alignment.start[first] < start or alignment.end[last - 1] > end)
            base = int(borders[passage])
            out[passage].append((first - base, last - base, target))
            reached = last
    return out


def _table(cuts: Sequence[_Cut]) -> pa.Table:
    """The passages of some documents as one chunk of schema PASSAGES."""
    lengths = [np.diff(cut.borders) for cut in cuts]
    offsets = _offsets(np.concatenate(lengths) if lengths else np.empty(0, np.int64))
    per_document = [len(part) for part in lengths]

    def tokens(column: str) -> pa.Array:
        arrays = [getattr(cut, column) for cut in cuts]
        values = np.concatenate(arrays) if arrays else np.empty(0, np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(values, pa.int32()), type=NUMBERS)

    rows = [row for cut in cuts for row in cut.mentions]
    flat = [mention for row in rows for mention in row]
    columns = [pa.array([mention[i] for mention in flat], field.type) for i, field in enumerate(MENTION)]
    numbered = [(cut.document, number) for cut, count in zip(cuts, per_document) for number in range(count)]
    keys = [example_key(document.key, number) for document, number in numbered]
    docs = np.array([hash64(cut.document.key) for cut in cuts], np.uint64)
    labels = [document.label for document, _ in numbered]
    return pa.Table.from_arrays(
        [
            pa.array(keys, pa.uint64()),
            pa.array(np.repeat(docs, per_document), pa.uint64()),
            tokens("ids"),
            tokens("word_start"),
            tokens("sentence_start"),
            pa.ListArray.from_arrays(
                _offsets(np.array([len(row) for row in rows], np.int64)),
                pa.StructArray.from_arrays(columns, fields=list(MENTION)),
            ),
            pa.array(labels, pa.string()),
        ],
        schema=PASSAGES,
    )


def _offsets(lengths: npt.NDArray[np.int64]) -> pa.Array:
    """int32 list offsets of rows of these lengths; summed in int64, so that too many raise instead of
    wrapping."""
    return pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])).cast(pa.int32())
