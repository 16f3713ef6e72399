"""What noise is: kernels over Arrow passages, pure functions of seed, step name, epoch, key and copy."""

from corruption.chain import Chain, Corruption
from corruption.corruptor import Corruptor
from corruption.errors import InputError
from corruption.noise_kinds import (
    AttentionPattern,
    Crop,
    Delete,
    Infill,
    InsertRandom,
    Mask,
    Mixture,
    PermutationOrder,
    PrefixSplit,
    ReplaceRandom,
    Rotate,
    SentencePair,
    ShuffleSentences,
    ShuffleTokens,
    SpanSentinel,
    Views,
)
from corruption.ragged import Batch, Ragged
from corruption.registry import register
from corruption.vocabulary import Vocabulary

__all__ = [
    "AttentionPattern",
    "Batch",
    "Chain",
    "Corruption",
    "Corruptor",
    "Crop",
    "Delete",
    "Infill",
    "InputError",
    "InsertRandom",
    "Mask",
    "Mixture",
    "PermutationOrder",
    "PrefixSplit",
    "Ragged",
    "ReplaceRandom",
    "Rotate",
    "SentencePair",
    "ShuffleSentences",
    "ShuffleTokens",
    "SpanSentinel",
    "Views",
    "Vocabulary",
    "register",
]
