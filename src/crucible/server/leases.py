"""How long sandboxes live that nobody named: as long as they are held, and a lease longer."""

from __future__ import annotations

import time

from crucible.sandbox.expiry import live_on, live_until
from crucible.sandbox.records import SandboxRecord
from crucible.server.domain import Domain


async def renew(
    domain: Domain, record: SandboxRecord, lease_s: float, ttl_s: float = 0.0
) -> SandboxRecord:
    """So much longer from now on, but not longer than `ttl_s` after it was made, if that is given."""
    end = time.time() + lease_s
    if ttl_s:
        end = min(end, record.created_at + ttl_s)
    if end <= time.time():
        # It is about to be removed, by who removes all whose time is over.
        return record
    return await live_until(domain.manager, record.name, lambda _: end)


async def give_lifetime(
    domain: Domain, record: SandboxRecord, ttl_s: float | None
) -> SandboxRecord:
    """From now on; 0 is for ever, and None leaves it as it was made."""
    if ttl_s is None:
        return record
    return await (renew(domain, record, ttl_s) if ttl_s else live_on(domain.manager, record.name))
