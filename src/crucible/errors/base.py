"""What every error has, the families they belong to, and the few that any room may raise."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

EXIT_TIMED_OUT = 124
EXIT_FAILED = 125
EXIT_REFUSED = 126
EXIT_NOT_FOUND = 127


class CrucibleError(Exception):
    """Base of all. `exit_status` is what the command line ends with when it meets this error."""

    code = "crucible"
    exit_status = EXIT_FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_fields(self) -> dict[str, str | int]:
        """As it crosses from one process to another."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "exit_status": self.exit_status,
        }


class Refused(CrucibleError):
    """The request itself cannot be granted: the caller has to ask for something else."""

    code = "refused"
    exit_status = EXIT_REFUSED


class BadSetting(Refused):
    """A value from a flag, a variable or a file that does not mean anything here."""

    code = "bad-setting"


class PathRefused(Refused):
    """A path, of the host or of the guest, that cannot or must not be used."""

    code = "path-refused"


class Unsupported(Refused):
    """A backend was asked for something it cannot do."""

    code = "unsupported"


class SetupError(CrucibleError):
    """This machine lacks something; the hint is the command that mends it."""

    code = "setup"


class SandboxError(CrucibleError):
    """A sandbox that should work does not."""

    code = "sandbox"


def suggestion(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """What was probably meant, as a hint."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"Did you mean `{close[0]}`?"
    return otherwise or f"One of: {', '.join(names)}"
