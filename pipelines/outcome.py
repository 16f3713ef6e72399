"""How a job ends when neither its input was wrong nor Papermoth has a bug."""

from __future__ import annotations


class JobFailed(Exception):
    """A check failed or training broke: one line for the user, and the exit code of the command.

    `message` says what happened and what to do; `exit_code` is 1 unless the caller knows better. A bug is not
    dressed up as this: it keeps its traceback.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        self.message, self.exit_code = " ".join(message.split()), exit_code
        super().__init__(self.message)

    def __reduce__(self) -> tuple[type[JobFailed], tuple[str, int]]:
        return type(self), (self.message, self.exit_code)
