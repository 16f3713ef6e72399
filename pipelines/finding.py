"""One line of the doctor: what was found, and what to do where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from corruption.errors import InputError


@dataclass(frozen=True)
class Finding:
    """One checked thing: `what` was found, and, if that is wrong, what to `do`."""

    what: str
    do: str = ""

    def __str__(self) -> str:
        return f"!! {self.what}; {self.do}" if self.do else f"ok {self.what}"


def told(fault: InputError, part: str = "") -> Finding:
    """What the user can correct, as a finding of a part."""
    return Finding(f"{f'{part}: ' if part else ''}{fault.where}: {fault.given}", fault.do)


def one_line(fault: BaseException) -> str:
    """The beginning of an error's text on one line, or its kind where it says nothing."""
    return " ".join(str(fault).split())[:160] or type(fault).__name__
