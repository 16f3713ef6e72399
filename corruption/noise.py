"""The random numbers of every corruption: a pure function of seed, step name, epoch, key, copy, draw number.

SplitMix64's finaliser in counter mode: no state, so batch size, order, retries and worker count cannot change
a bit. `mix` is the published finaliser; a stream is built by folding the parts in one after the other; draw
number i of a stream is `mix(stream + GAMMA * (i + 1))`. The same definition is compiled by numba and runs as
plain Python.

Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", section 3 (variant 13).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
from numba import njit

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11, _S32 = (np.uint64(n) for n in (30, 27, 31, 11, 32))
_ONE = np.uint64(1)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2 ** -53
_MASK64 = (1 << 64) - 1


@njit(inline="always")
def mix(z: np.uint64) -> np.uint64:
    """SplitMix64's finaliser, a bijection of 64-bit words."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@njit(inline="always")
def fold(stream: np.uint64, part: np.uint64) -> np.uint64:
    """The stream that follows when one more part (a name's hash, an epoch, a key, a copy) is known."""
    return mix(stream ^ mix(part + GAMMA))


@njit(inline="always")
def draw(stream: np.uint64, number: np.uint64) -> np.uint64:
    """64 random bits: draw `number` (0, 1, ...) of the stream."""
    return mix(stream + GAMMA * (number + _ONE))


@njit(inline="always")
def unit(bits: np.uint64) -> float:
    """A float64 in [0, 1) from the top 53 bits of a draw."""
    return np.float64(bits >> _S11) * _TO_UNIT


@njit(inline="always")
def below(bits: np.uint64, n: np.uint64) -> np.uint64:
    """An integer in [0, n) from the top 32 bits of a draw; n must be below 2 ** 32."""
    return ((bits >> _S32) * n) >> _S32


def hash64(text: str) -> int:
    """The first 8 bytes, little-endian, of the text's BLAKE2b: how names and string keys enter a stream."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * int(_M1)) & _MASK64
    z = ((z ^ (z >> 27)) * int(_M2)) & _MASK64
    return z ^ (z >> 31)


def stream(seed: int, *parts: int | str) -> int:
    """The stream of (seed, parts...), strings by `hash64`.

    For a corruption the parts are step name, epoch, key and copy. This is `mix` and `fold` in unbounded
    integers, for code that needs one stream and no array.
    """
    return folded(_mix(seed & _MASK64), *parts)


def folded(state: int, *parts: int | str) -> int:
    """The stream that follows when more parts are known: `fold` in unbounded integers, strings by `hash64`."""
    for part in parts:
        number = hash64(part) if isinstance(part, str) else part & _MASK64
        state = _mix(state ^ _mix((number + int(GAMMA)) & _MASK64))
    return state


def example_key(document: str, number: int) -> int:
    """The key of passage `number` of a document: from the document's key, so duplicates stay distinct."""
    return stream(hash64(document), number)


@njit(cache=True, nogil=True)
def _rank_bits(prefix: np.uint64, parts: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> None:
    for i in range(len(parts)):
        out[i] = draw(fold(prefix, parts[i]), np.uint64(0))


def rank_bits(prefix: int, parts: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """uint64[n]: 64 bits for each part (a key, a number), to sort by. Sorting by them is a keyed shuffle."""
    out = np.empty(len(parts), np.uint64)
    _rank_bits(np.uint64(prefix), np.ascontiguousarray(parts, np.uint64), out)
    return out


def keys_of_rows(values: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """uint64[rows]: the key of a row that brings none, a hash of its own tokens (int32, little-endian).

    Rows of equal tokens share a key, hence their noise; give a key column to tell them apart.
    """
    out = np.empty(len(offsets) - 1, np.uint64)
    data = np.ascontiguousarray(values, dtype="<i4")
    for i in range(len(out)):
        digest = hashlib.blake2b(data[offsets[i] : offsets[i + 1]].tobytes()).digest()
        out[i] = int.from_bytes(digest[:8], "little")
    return out
