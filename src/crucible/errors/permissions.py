"""What is wrong with the rules of a permission policy."""

from __future__ import annotations

from crucible.errors.base import Refused


class BadPolicy(Refused):
    """A permission policy has a rule or a value that means nothing."""

    code = "bad-policy"
