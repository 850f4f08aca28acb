"""The owner program with its HTTP doors, put together."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from crucible.assemble import run_owner
from crucible.config import Config
from crucible.sandbox.service.dispatch import Service
from crucible.server.books import LazyBooks
from crucible.server.domain import Domain
from crucible.server.engines import LazyEngine, engine_of
from crucible.server.journal import Journal
from crucible.server.listening import SOCKET_NAME, Address, HttpDoors
from crucible.server.store import Store
from crucible.server.wires.table import all_wires

if TYPE_CHECKING:
    from crucible.books import Books


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
    books = books or LazyBooks(lambda: _books(service))
    domain = Domain(
        manager=service.manager,
        executions=service.executions,
        snapshots=service.snapshots,
        store=store,
        engine=engine or engine_of(service, books),
        books=books,
    )
    wires = all_wires(domain, address.e2b if address is not None else None)
    return HttpDoors(domain, address=address, wires=wires, journal=journal)


def _books(service: Service) -> Books:
    from crucible.books import open_books

    return open_books(service.manager.config.home)


class _Announced:
    """Tells where the doors are, for who started them."""

    def __init__(self, doors: HttpDoors) -> None:
        self._doors = doors

    async def open(self) -> None:
        await self._doors.open()
        place = self._doors.domain.manager.config.home / SOCKET_NAME
        if self._doors.url:
            sys.stderr.write(f"Serving on {self._doors.url} and {place}\n")
        else:
            sys.stderr.write(f"Serving on {place}\n")
        sys.stderr.flush()

    @property
    def is_busy(self) -> bool:
        return self._doors.is_busy

    async def drain(self) -> None:
        await self._doors.drain()
        self._doors.domain.store.close()
