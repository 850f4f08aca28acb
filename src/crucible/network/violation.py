"""What ends an allowed connection from within: what it says, or how it says it."""

from __future__ import annotations


class Malformed(ValueError):
    """Bytes that no honest client of the protocol sends."""


class Violation(Exception):
    """A stream says that it is for somebody else, says it so that it cannot be believed, or carries what it must not.

    `rule` is what it is about: names, or secrets. `hint` is the rule that would let it pass, if there is one.
    """

    def __init__(self, reason: str, *, rule: str = "names", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule
        self.hint = hint
