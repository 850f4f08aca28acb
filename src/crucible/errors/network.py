"""Ports, and what is reached through them."""

from __future__ import annotations

from crucible.errors.base import Refused


class PortTaken(Refused):
    code = "port-taken"

    def __init__(self, address: str, port: int, why: str) -> None:
        super().__init__(
            f"Port {port} of {address} cannot be used: {why}",
            hint="Choose another one before the colon, or 0 for any that is free",
        )


class TooManyPorts(Refused):
    code = "too-many-ports"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"The sandbox has {most} published ports, and may not have more",
            hint="Serve several things behind one port, or start the sandbox anew",
        )
