"""The seam to a machine's way out: it asks for connections, and the host takes or refuses each of them.

Whoever speaks to the guest implements `Outlet`; nobody here knows how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A connection that a program in the machine is waiting for. All of it is the guest's word.

    `name` is the name that was looked up, lower case and without a dot at the end, or "" when the program
    dialled an address of its own. `address` is what was dialled: for a name, a made-up address that
    means nothing outside the machine. The guest could ask for a name that no program looked up, so a name
    is a wish, never evidence.
    """

    number: int
    name: str
    address: str
    port: int


class ByteStream(Protocol):
    """One connection. When it was reset by the program, `read` and `write` raise ConnectionResetError."""

    async def read(self) -> bytes:
        """Some bytes, b'' once the program will write no more."""
        ...

    async def write(self, data: bytes) -> None:
        """Waits while the program does not read. Returns when the bytes are on their way, not when they are there."""
        ...

    async def close_write(self) -> None:
        """The program reads an end; it may go on writing."""
        ...

    async def close(self) -> None:
        """Ends both ways; the program still gets all that was written. Harmless when repeated."""
        ...

    async def abort(self) -> None:
        """Ends both ways at once; the program gets a reset. Harmless when repeated or after `close`."""
        ...


class Outlet(Protocol):
    """The machine's network is on while its one outlet is open; without one every address is unreachable.

    All verbs raise SandboxError (GuestGone, as a rule) when the machine has ended.
    """

    async def next(self) -> Ask:
        """The next connection asked for.

        Every ask must be taken or refused. One that the program or the machine gave up meanwhile need not be
        withdrawn: taking it raises ConnectionResetError, and refusing it does nothing.
        """
        ...

    async def take(self, ask: Ask) -> ByteStream: ...
    async def refuse(self, ask: Ask) -> None:
        """The program gets a reset."""
        ...

    async def close(self) -> None:
        """Turns the network off: what was taken is reset, what was not yet answered is refused."""
        ...
