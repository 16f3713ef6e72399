"""The vocabulary as the kernels need it: special ids, which ids may be touched, and which may be invented."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from corruption.errors import InputError

_RESERVED = re.compile(
    r"^(\[unused\d+\]|<unused\d+>|<0x[0-9A-F]{2}>|madeupword\d+|<\|?reserved.*>)$", re.IGNORECASE
)
ROLES = ("pad", "mask", "cls", "sep", "bos", "eos", "unk")
"""The special tokens a vocabulary knows by role."""

_SENTINEL = re.compile(r"^<extra_id_(\d+)>$")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What a corruption may know of a tokenizer.

    size: one more than the largest id. pad, mask, cls, sep, bos, eos, unk: ids, None where the tokenizer has
    none. fixed: uint8[size], 1 for special ids, whose positions are never chosen. pool: int32[n], the
    ordinary ids in order, from which random tokens are drawn. rank: int32[size], place of an id in the pool
    or -1. sentinels: ids of <extra_id_0>, <extra_id_1>, ... as far as they go. named: ids of the added tokens
    by their text. fingerprint: 16 hex characters.
    """

    size: int
    pad: int | None
    mask: int | None
    cls: int | None
    sep: int | None
    bos: int | None
    eos: int | None
    unk: int | None
    fixed: npt.NDArray[np.uint8]
    pool: npt.NDArray[np.int32]
    rank: npt.NDArray[np.int32]
    sentinels: tuple[int, ...] = ()
    named: Mapping[str, int] = field(default_factory=dict)
    name: str = field(default="tokenizer", compare=False)
    fingerprint: str = ""

    @staticmethod
    def from_tokenizer(tokenizer: Any, *, ordinary: Iterable[str] = ()) -> Vocabulary:
        """From any Hugging Face fast tokenizer object.

        Special tokens, sentinels, reserved ids ([unused7], <0x0A>) and added tokens are never drawn as random
        tokens; an added token that is a real word of the corpus can be declared by name in `ordinary`.
        """
        tokens: dict[str, int] = tokenizer.get_vocab()
        added = tokenizer.added_tokens_decoder
        special = set(tokenizer.all_special_ids) | {i for i, token in added.items() if token.special}
        outside = {i for i, token in added.items() if token.content not in set(ordinary)}
        outside |= {i for token, i in tokens.items() if _RESERVED.match(token)}
        sentinels = {int(m.group(1)): i for token, i in tokens.items() if (m := _SENTINEL.match(token))}
        run: list[int] = []
        while len(run) in sentinels:
            run.append(sentinels[len(run)])
        special |= set(sentinels.values())
        ids = {role: getattr(tokenizer, f"{role}_token_id") for role in ROLES}
        return Vocabulary.from_ids(
            max(tokens.values()) + 1,
            ids=ids,
            special=special,
            ordinary=set(tokens.values()) - outside - special,
            sentinels=tuple(run),
            named={token.content: i for i, token in sorted(added.items())},
            name=str(tokenizer.name_or_path or "tokenizer"),
            text="\n".join(f"{i} {token}" for token, i in sorted(tokens.items(), key=lambda item: item[1])),
        )

    @staticmethod
    def from_ids(
        size: int,
        *,
        ids: dict[str, int | None],
        special: Iterable[int],
        ordinary: Iterable[int] | None = None,
        sentinels: tuple[int, ...] = (),
        named: Mapping[str, int] | None = None,
        name: str = "tokenizer",
        text: str = "",
    ) -> Vocabulary:
        """From bare ids; `ordinary` defaults to all that are not special.

        Raises InputError when no ordinary id is left.
        """
        specials = sorted(set(special))
        fixed = np.zeros(size, np.uint8)
        fixed[specials] = 1
        chosen = np.flatnonzero(fixed == 0).tolist() if ordinary is None else sorted(set(ordinary))
        pool = np.array(chosen, np.int32)
        if not len(pool):
            raise InputError(f"tokenizer {name}", "it has no ordinary token", "give one with a vocabulary")
        rank = np.full(size, -1, np.int32)
        rank[pool] = np.arange(len(pool), dtype=np.int32)
        digest = hashlib.blake2b(digest_size=8)
        for part in (repr(sorted(ids.items())), repr(specials), text, repr(pool.tolist())):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
        return Vocabulary(
            size=size,
            **{role: ids.get(role) for role in ROLES},
            fixed=fixed,
            pool=pool,
            rank=rank,
            sentinels=sentinels,
            named=dict(named or {}),
            name=name,
            fingerprint=digest.hexdigest(),
        )

    def need(self, role: str, why: str) -> int:
        """The id of a special token, or InputError naming the token, the tokenizer and what needs it."""
        found: int | None = getattr(self, role)
        if found is None:
            raise InputError(
                f"tokenizer {self.name}",
                f"it has no {role}_token, which {why} needs",
                f"add one (tokenizer.add_special_tokens({{'{role}_token': ...}})) or choose another",
            )
        return found

    def token(self, text: str, why: str) -> int:
        """The id of an added token by its text, or InputError naming it, the tokenizer and what needs it."""
        if text not in self.named:
            raise InputError(
                f"tokenizer {self.name}",
                f"it has no token {text!r}, which {why} needs",
                f"add it (tokenizer.add_special_tokens({{'extra_special_tokens': [{text!r}]}})) or choose another",
            )
        return self.named[text]
