"""The one thing that ends an allowed connection from within."""

from __future__ import annotations


class Violation(Exception):
    """A stream says that it is for somebody else, says it so that it cannot be believed, or carries what it must not.

    `hint` is the rule that would let it pass, if there is one.
    """

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
