"""The owner program with its HTTP doors, put together."""

from __future__ import annotations

import sys

from crucible.assemble import run_owner
from crucible.books import open_books
from crucible.config import Config
from crucible.sandbox.service.dispatch import Service
from crucible.server.access import Access
from crucible.server.books import LazyBooks
from crucible.server.domain import Domain
from crucible.server.engines import LazyEngine, engine_of
from crucible.server.journal import Journal
from crucible.server.listening import SOCKET_NAME, Address, HttpDoors
from crucible.server.people import People
from crucible.server.signed import link_url
from crucible.server.store import Store
from crucible.server.wires.table import all_wires


def run_with_doors(config: Config, address: Address | None) -> bool:
    """Until it is told to leave; False, at once, if another owner is there. Without an address there is no TCP."""
    return run_owner(
        config,
        lambda service: _Announced(http_doors(service, Store(config.home), address)),
    )


def http_doors(
    service: Service,
    store: Store,
    address: Address | None,
    *,
    journal: Journal | None = None,
    engine: LazyEngine | None = None,
    books: LazyBooks | None = None,
) -> HttpDoors:
    home, database = service.manager.config.home, service.manager.database
    books = books or LazyBooks(lambda: open_books(home, database.now()))
    domain = Domain(
        manager=service.manager,
        executions=service.executions,
        snapshots=service.snapshots,
        store=store,
        engine=engine or engine_of(service, books),
        books=books,
        people=People(database),
        access=address.access if address is not None else Access(),
    )
    wires = all_wires(domain, address.e2b if address is not None else None)
    return HttpDoors(domain, address=address, wires=wires, journal=journal)


class _Announced:
    """Tells where the doors are, for who started them."""

    def __init__(self, doors: HttpDoors) -> None:
        self._doors = doors

    async def open(self) -> None:
        await self._doors.open()
        domain = self._doors.domain
        place = domain.manager.config.home / SOCKET_NAME
        if self._doors.url:
            _say(f"Serving on {self._doors.url} and {place}")
            await self._tell_how_to_enter(domain)
        else:
            _say(f"Serving on {place}")

    async def _tell_how_to_enter(self, domain: Domain) -> None:
        is_plain = self._doors.url.startswith("http:") and not domain.access.public_url
        if not domain.access.is_loopback and is_plain:
            _say(
                "Without TLS everybody on the way can read passwords, cookies and tokens;"
                " give --tls-cert and --tls-key, or put a server with TLS before this one"
            )
        _say(f"Open {await link_url(domain)}")

    @property
    def is_busy(self) -> bool:
        return self._doors.is_busy

    async def drain(self) -> None:
        await self._doors.drain()
        self._doors.domain.store.close()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
