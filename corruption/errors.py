"""The one error that means: what the user gave cannot be used."""

from __future__ import annotations


class InputError(ValueError):
    """A mistake in the user's input, told in one line: where it is, what was given, what to do.

    The command line prints it and exits with code 2. Anything else that escapes is a bug and keeps its
    traceback.
    """

    def __init__(self, where: str, given: str, do: str) -> None:
        self.where, self.given, self.do = where, given, do
        super().__init__(" ".join(f"{where}: {given}; {do}".split()))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        return type(self), (self.where, self.given, self.do)
