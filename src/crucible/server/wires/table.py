"""What is served beside our own API: the pages, and other products' APIs."""

from __future__ import annotations

from crucible.server.domain import Domain
from crucible.server.doorway import E2bDomain
from crucible.server.pages import pages_wire
from crucible.server.wire import Wire
from crucible.server.wires.agentkernel.wire import agentkernel_wire
from crucible.server.wires.e2b.wire import e2b_wires
from crucible.server.wires.opensandbox.wire import opensandbox_wire


def all_wires(domain: Domain, names: E2bDomain | None = None) -> tuple[Wire, ...]:
    others = (agentkernel_wire(domain), opensandbox_wire(domain), *e2b_wires(domain, names))
    return (pages_wire(), *others)
