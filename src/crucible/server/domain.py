"""What the routes work on: the verbs of the sandbox room, and what the doors themselves keep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from starlette.requests import HTTPConnection

from crucible.sandbox.executions import Executions
from crucible.sandbox.manager import Manager
from crucible.sandbox.snapshots import Snapshots
from crucible.server.access import Access
from crucible.server.attempts import Attempts
from crucible.server.books import LazyBooks
from crucible.server.callers import Caller
from crucible.server.engines import LazyEngine
from crucible.server.links import Links
from crucible.server.oidc import Oidc
from crucible.server.people import People
from crucible.server.store import Store
from crucible.server.tickets import Tickets
from crucible.server.tokens import is_good
from crucible.server.visits import Visits


@dataclass(slots=True, kw_only=True)
class Domain:
    """`is_ready` once the machines of a holder before us have been taken over, until we are told to leave.

    `url` is where browsers reach us, "" if they do not.
    """

    manager: Manager
    executions: Executions
    snapshots: Snapshots
    store: Store
    engine: LazyEngine
    books: LazyBooks
    people: People
    access: Access = field(default_factory=Access)
    url: str = ""
    is_ready: bool = True
    started_at: float = field(default_factory=time.time)
    tickets: Tickets = field(default_factory=Tickets)
    links: Links = field(default_factory=Links)
    attempts: Attempts = field(default_factory=Attempts)
    oidc: Oidc | None = None
    visits: Visits = field(init=False)
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self.visits = Visits(self._still_good)

    async def _still_good(self, callers: Collection[Caller]) -> set[Caller]:
        known = {one for one in callers if one.token}
        good = {one for one in known if is_good(self.store, one.token)}
        others = set(callers) - known
        return good | await self.people.still_good(others) if others else good

    def turn(self, key: str) -> asyncio.Lock:
        """Whoever does what this names holds it; it exists as long as somebody holds or wants it."""
        return self._turns.setdefault(key, asyncio.Lock())


def domain_of(connection: HTTPConnection) -> Domain:
    domain: Domain = connection.app.state.domain
    return domain
