"""What noise is: kernels over Arrow passages, pure functions of seed, step name, epoch, key and copy."""

from corruption.chain import Chain, Corruption
from corruption.errors import InputError
from corruption.noise_kinds import Mask
from corruption.ragged import Batch, Ragged
from corruption.registry import register
from corruption.vocabulary import Vocabulary

__all__ = ["Batch", "Chain", "Corruption", "InputError", "Mask", "Ragged", "Vocabulary", "register"]
