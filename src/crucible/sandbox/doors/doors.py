"""All doors of one running sandbox, opened when it is up and closed when it is let go of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.errors import CrucibleError, Unsupported
from crucible.sandbox.backend import Machine
from crucible.sandbox.doors.notices import Notices
from crucible.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from crucible.sandbox.doors.egress import Egress
    from crucible.sandbox.doors.ports import Port
    from crucible.sandbox.doors.published import Published
    from crucible.sandbox.doors.secrets import SandboxSecrets
    from crucible.sandbox.metering import Accounts

_PATIENCE_S = 1.0


class Doors:
    """What is not asked for is not even loaded: most commands need no door.

    `name` is what a person would call the sandbox by, "" for one that nobody can. A sandbox that `is_remote` has the
    network that its provider gives it, and no port of it is reached from here.
    """

    def __init__(
        self, name: str, machine: Machine, directory: Path, *, is_remote: bool = False
    ) -> None:
        self.notices = Notices()
        self._is_remote = is_remote
        self._name = name
        self._machine = machine
        self._directory = directory
        self.secrets: SandboxSecrets | None = None
        self.accounts: Callable[[], Accounts] | None = None
        self._published: Published | None = None
        self._egress: Egress | None = None
        self._offered_ports: set[int] = set()

    @property
    def ports(self) -> tuple[Port, ...]:
        """Those that are open now, with the numbers they really have."""
        return () if self._published is None else self._published.ports

    @asynccontextmanager
    async def offered(self) -> AsyncIterator[None]:
        """For as long as somebody watches a command, ports that open inside are noticed."""
        offering = asyncio.create_task(self._offer())
        try:
            yield
        finally:
            offering.cancel()

    async def _offer(self) -> None:
        if self._is_remote:
            return
        # A command that is over in a moment opens no port that anybody could reach.
        await asyncio.sleep(_PATIENCE_S)
        from crucible.sandbox.doors.listening import offer_ports

        published = {port.guest for port in self.ports}
        with contextlib.suppress(CrucibleError):
            await offer_ports(
                self._machine.files, self.notices, published, self._offered_ports, self._name
            )

    @property
    def is_busy(self) -> bool:
        """Whether somebody is connected to one of its ports."""
        return self._published is not None and self._published.is_busy

    async def open(self, spec: SandboxSpec) -> None:
        if self._is_remote:
            return
        if spec.ports and self._published is None:
            from crucible.sandbox.doors.ports import parse_port
            from crucible.sandbox.doors.published import Published

            self._published = Published(self._machine)
            await self._published.open([parse_port(text) for text in spec.ports])
        if self.secrets is not None:
            await self.secrets.teach(self._machine.files)
        await self.change_network(spec)

    async def publish(self, guest: int) -> None:
        """One more port of it on this machine's loopback, for as long as it runs. Raises Unsupported, PortTaken."""
        if self._is_remote:
            raise Unsupported(
                "No port of a sandbox at a provider is reached through this machine",
                hint="Its provider gives its ports an address",
            )
        if self._published is None:
            from crucible.sandbox.doors.published import Published

            self._published = Published(self._machine)
        await self._published.add(guest)

    @property
    def has_network(self) -> bool:
        return self._egress is not None

    async def change_secrets(self, spec: SandboxSpec, secrets: SandboxSecrets) -> None:
        """Connections that are open end: the gateway begins anew with what it now knows."""
        self.secrets = secrets
        if self._egress is not None:
            egress, self._egress = self._egress, None
            await egress.ended()
        await self.open(spec)

    async def change_network(self, spec: SandboxSpec) -> None:
        """The policy of `spec` holds from now on, for connections that are open too."""
        if self._is_remote:
            raise Unsupported("The network of a sandbox elsewhere cannot be changed once it runs")
        if spec.network == "off":
            self._close_network()
        elif self._egress is not None:
            await self._egress.change(spec)
        else:
            from crucible.sandbox.doors.egress import Egress

            egress = Egress(
                self._name, self._machine, self._directory, self.notices,
                secrets=self.secrets, accounts=self.accounts,
            )  # fmt: skip
            await egress.open(spec)
            self._egress = egress

    @property
    def variables(self) -> dict[str, str]:
        """What its commands get besides their own environment."""
        return {} if self.secrets is None else self.secrets.variables

    def network_events(self) -> list[dict[str, Any]]:
        """What the network decided since this was last asked."""
        return [] if self._egress is None else self._egress.events.take()

    def close(self) -> None:
        """Cannot fail, and does not wait."""
        if self._published is not None:
            self._published.close()
        self._close_network()

    def _close_network(self) -> None:
        if self._egress is not None:
            self._egress.close()
            self._egress = None
