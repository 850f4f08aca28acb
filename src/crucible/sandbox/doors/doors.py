"""All doors of one running sandbox, opened when it is up and closed when it is let go of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crucible.sandbox.backend import Machine
from crucible.sandbox.doors.notices import Notices
from crucible.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from crucible.sandbox.doors.ports import Port
    from crucible.sandbox.doors.published import Published


class Doors:
    """What is not asked for is not even loaded: most commands need no door."""

    def __init__(self, machine: Machine) -> None:
        self.notices = Notices()
        self._machine = machine
        self._published: Published | None = None

    @property
    def ports(self) -> tuple[Port, ...]:
        """Those that are open now, with the numbers they really have."""
        return () if self._published is None else self._published.ports

    async def open(self, spec: SandboxSpec) -> None:
        if spec.ports and self._published is None:
            from crucible.sandbox.doors.ports import parse_port
            from crucible.sandbox.doors.published import Published

            self._published = Published(self._machine)
            await self._published.open([parse_port(text) for text in spec.ports])

    def close(self) -> None:
        """Cannot fail, and does not wait."""
        if self._published is not None:
            self._published.close()
