"""Names to addresses, by the host's own resolver: once for a connection, under a deadline, off the event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from crucible.network.addresses import Address, parse_address

RESOLVE_S: Final = 10.0
AT_ONCE: Final = 8
KEPT_S: Final = 10.0
MOST_KEPT: Final = 512
MAX_ADDRESSES: Final = 32


class ResolveFailed(OSError):
    """A name that has no address, or none in time."""


class Resolver(Protocol):
    """The name is normal. Raises ResolveFailed."""

    async def resolve(self, name: str) -> tuple[Address, ...]: ...


class HostResolver:
    """Asks what every program of this host asks. `hosts` comes first, as a hosts file does.

    A lookup that hangs keeps one of a few threads, so a guest that asks for many slow names waits for itself.
    """

    def __init__(
        self, hosts: Mapping[str, Sequence[str]] | None = None, *, deadline_s: float = RESOLVE_S
    ) -> None:
        self._hosts = {name: _parsed(list(addresses)) for name, addresses in (hosts or {}).items()}
        self._deadline_s = deadline_s
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._kept: dict[str, tuple[float, tuple[Address, ...]]] = {}

    async def resolve(self, name: str) -> tuple[Address, ...]:
        if name in self._hosts:
            return self._hosts[name]
        now = asyncio.get_running_loop().time()
        if name in self._kept and now - self._kept[name][0] < KEPT_S:
            return self._kept[name][1]
        try:
            async with asyncio.timeout(self._deadline_s):
                addresses = await self._look_up(name)
        except TimeoutError:
            raise ResolveFailed(
                f"`{name}` was not resolved within {self._deadline_s:g} s"
            ) from None
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[name] = now, addresses
        return addresses

    async def _look_up(self, name: str) -> tuple[Address, ...]:
        await self._turns.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Address, ...]] = loop.create_future()

        def settle(result: tuple[Address, ...] | OSError) -> None:
            self._turns.release()
            if answer.done():
                return
            if isinstance(result, OSError):
                answer.set_exception(ResolveFailed(f"`{name}` cannot be resolved: {result}"))
            else:
                answer.set_result(result)

        def work() -> None:
            result = _ask(name)
            try:
                loop.call_soon_threadsafe(settle, result)
            except RuntimeError:  # the loop has ended; nobody waits
                return

        threading.Thread(target=work, name="resolver", daemon=True).start()
        return await answer


def _ask(name: str) -> tuple[Address, ...] | OSError:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return OSError(error.strerror or str(error))
    except UnicodeError:
        return OSError("it is no name")
    addresses = _parsed([str(entry[4][0]).partition("%")[0] for entry in found])
    return addresses[:MAX_ADDRESSES] or OSError("it has no address")


def _parsed(texts: list[str]) -> tuple[Address, ...]:
    found = dict.fromkeys(parse_address(text) for text in texts)
    return tuple(address for address in found if address is not None)
