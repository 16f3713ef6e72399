"""One file per corruption: add a new kind here, decorated with `register`, and import it below."""

from corruption.noise_kinds.attention_pattern import AttentionPattern
from corruption.noise_kinds.crop import Crop
from corruption.noise_kinds.delete import Delete
from corruption.noise_kinds.infill import Infill
from corruption.noise_kinds.insert_random import InsertRandom
from corruption.noise_kinds.mask import Mask
from corruption.noise_kinds.mixture import Mixture
from corruption.noise_kinds.permutation_order import PermutationOrder
from corruption.noise_kinds.prefix_split import PrefixSplit
from corruption.noise_kinds.replace_random import ReplaceRandom
from corruption.noise_kinds.rotate import Rotate
from corruption.noise_kinds.sentence_pair import SentencePair
from corruption.noise_kinds.shuffle_sentences import ShuffleSentences
from corruption.noise_kinds.shuffle_tokens import ShuffleTokens
from corruption.noise_kinds.span_sentinel import SpanSentinel
from corruption.noise_kinds.views import Views

__all__ = [
    "AttentionPattern",
    "Crop",
    "Delete",
    "Infill",
    "InsertRandom",
    "Mask",
    "Mixture",
    "PermutationOrder",
    "PrefixSplit",
    "ReplaceRandom",
    "Rotate",
    "SentencePair",
    "ShuffleSentences",
    "ShuffleTokens",
    "SpanSentinel",
    "Views",
]
