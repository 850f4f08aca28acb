"""Sandboxes that run elsewhere: a provider that cannot be reached, or that refuses."""

from __future__ import annotations

from crucible.errors.base import Refused, SandboxError


class RemoteUnreachable(SandboxError):
    """The provider gave no answer, or none that means anything."""

    code = "remote-unreachable"


class RemoteRefused(Refused):
    """The provider answered that it will not: a key, a template or a limit of its own."""

    code = "remote-refused"
