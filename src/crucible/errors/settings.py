"""What goes wrong with what a user has set."""

from __future__ import annotations

from crucible.errors.base import CrucibleError, Refused


class SettingsError(CrucibleError):
    """What a user has set cannot be used."""

    code = "settings"


class SecretUnreadable(SettingsError):
    """A key that a user gave is kept, and the file that opens it is not the one it was sealed with."""

    code = "secret-unreadable"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"What was kept as a secret cannot be opened with {path}: {reason}",
            hint="Put back the file it was sealed with, or give the keys anew",
        )


class OwnServerMissing(SettingsError, Refused):
    """The user has no MCP server of that name."""

    code = "mcp-server-missing"

    def __init__(self, name: str) -> None:
        super().__init__(f"You have no MCP server {name[:64]!r}", hint="List yours in the settings")


class OwnServerTaken(SettingsError, Refused):
    code = "mcp-server-taken"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"You have an MCP server {name[:64]!r} already", hint="Remove it first, or name another"
        )


class TooManyServers(SettingsError, Refused):
    code = "mcp-too-many-servers"

    def __init__(self, most: int) -> None:
        super().__init__(f"You have {most} MCP servers", hint="Remove one that you do not need")


class AddressRefused(SettingsError, Refused):
    """An address that only this machine can reach, asked for by somebody who may not reach it."""

    code = "address-refused"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host[:200]} is not an address of the public network",
            hint="An administrator can add a server of this machine or its network",
        )


class ProbeFailed(SettingsError):
    """A sandbox that was made to be tried out answers, and answers wrongly."""

    code = "probe-failed"
