"""A sandbox's network: what it asks for goes to a gateway under its policy, and every decision to its log.

The gateway is loaded at the first connection: most commands make none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from crucible.errors import CrucibleError, SandboxError, Unsupported
from crucible.sandbox.backend import Machine
from crucible.sandbox.doors.events import NetworkLog
from crucible.sandbox.doors.notices import Notices
from crucible.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from crucible.network.gateway import Gateway
    from crucible.network.metering import Meter
    from crucible.network.outlet import Ask, ByteStream, Outlet
    from crucible.network.policy import Policy
    from crucible.sandbox.doors.secrets import SandboxSecrets
    from crucible.sandbox.metering import Accounts

REGISTRIES_NAME = "registries.json"


class Egress:
    """Serves from `open` to `close`. `spec` may be replaced meanwhile: the new policy holds at once."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        directory: Path,
        notices: Notices,
        *,
        secrets: SandboxSecrets | None,
        accounts: Callable[[], Accounts] | None = None,
    ) -> None:
        self.events = NetworkLog(directory, notices)
        self._name = name
        self._machine = machine
        self._notices = notices
        self._secrets = secrets
        self._accounts = accounts
        self._id = directory.name
        self._cache = directory.parents[1] / "cache" / REGISTRIES_NAME
        self._spec: SandboxSpec | None = None
        self._gateway: Gateway | None = None
        self._serving: asyncio.Task[None] | None = None

    async def open(self, spec: SandboxSpec) -> None:
        """The sandbox can reach out when this returns. Raises BadSetting for rules that are none."""
        self._spec = spec
        if spec.allow or spec.deny:
            _policy(spec)
        outlet = await self._machine.outlet()
        self._serving = asyncio.create_task(self._serve(outlet))

    async def change(self, spec: SandboxSpec) -> None:
        """The new policy holds when this returns."""
        self._spec = spec
        if self._gateway is None:
            return
        policy = await asyncio.to_thread(_whole_policy, spec, self._cache)
        if self._spec is spec:
            self._gateway.policy = policy

    def close(self) -> None:
        if self._serving is not None:
            self._serving.cancel()

    async def ended(self) -> None:
        """Closes, and waits until nothing of it is left."""
        self.close()
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self, outlet: Outlet) -> None:
        try:
            first = await outlet.next()
            await self._pass_on(_Begun(outlet, first))
        except SandboxError:
            return  # the machine has ended, which others tell
        except CrucibleError as error:
            self._notices.tell(f"network: off, because {error.message}")
        finally:
            with contextlib.suppress(CrucibleError):
                await outlet.close()

    async def _pass_on(self, outlet: Outlet) -> None:
        from crucible.network.gateway import Gateway, Limits

        spec = self._spec
        if spec is None:
            raise AssertionError("a network is opened with its policy")
        policy = await asyncio.to_thread(_whole_policy, spec, self._cache)
        limits = Limits(connections=spec.connections)
        known = self._secrets
        self._gateway = Gateway(
            outlet,
            policy,
            self.events,
            sandbox=self._name,
            limits=limits,
            secrets=None if known is None else known.secrets,
            authority=None if known is None else known.authority,
            meter=await self._meter(spec) if spec.has_budget else None,
        )
        if (latest := self._spec) is not None and latest is not spec:
            await self.change(latest)
        await self._gateway.run()

    async def _meter(self, spec: SandboxSpec) -> Meter:
        """Loaded in a thread, since it takes a while. Where there is none, a budget could not be kept."""
        if self._accounts is None:
            raise Unsupported(
                "Calls of models cannot be counted here, and the sandbox has a budget"
            )
        accounts = await asyncio.to_thread(self._accounts)
        return accounts.meter(self._id, spec)


class _Begun:
    """An outlet whose first ask is known already."""

    def __init__(self, outlet: Outlet, first: Ask) -> None:
        self._outlet = outlet
        self._first: Ask | None = first

    async def next(self) -> Ask:
        first, self._first = self._first, None
        return first if first is not None else await self._outlet.next()

    async def take(self, ask: Ask) -> ByteStream:
        return await self._outlet.take(ask)

    async def refuse(self, ask: Ask) -> None:
        await self._outlet.refuse(ask)

    async def close(self) -> None:
        await self._outlet.close()


def _policy(spec: SandboxSpec) -> Policy:
    """A secret is of no use where its host cannot be reached, so it brings the rule for that."""
    from crucible.network.policy import Policy

    bound = [_bound_host(text) for text in spec.secrets]
    return Policy.parse(spec.network, (*spec.allow, *bound), spec.deny)


def _bound_host(binding: str) -> str:
    """`NAME:HOST[:PORT][:HEADER]` → the rule for that host."""
    _, host, *rest = binding.split(":")
    return f"{host}:{rest[0]}" if rest and rest[0].isdecimal() else host


def _whole_policy(spec: SandboxSpec, cache: Path) -> Policy:
    """With what `@registries` means on this host. Blocks."""
    policy = _policy(spec)
    if not policy.needs_registries:
        return policy
    from crucible.network.indexes import with_registries
    from crucible.network.registries import Host

    return with_registries(policy, Host(), cache)
