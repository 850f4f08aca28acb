"""The backend elsewhere: plans in, sandboxes of E2B out. It writes down what it made before anybody uses it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from crucible.backends.e2b import promises
from crucible.backends.e2b.promises import ID_NAME
from crucible.backends.e2b.sdk import REQUEST_S, Access, load, translated
from crucible.errors import CrucibleError, GuestGone, PrerequisiteMissing, RemoteRefused
from crucible.images.catalog import Image
from crucible.sandbox.backend import BootPlan, MachineHandle, Missing, Stage
from crucible.sandbox.finishing import finish
from crucible.sandbox.isolation import Isolation

if TYPE_CHECKING:
    from crucible.backends.e2b.machine import E2BMachine
    from crucible.sandbox.spec import SandboxSpec

# In the metadata of what is made there: the id of our record, so that what was never written down is found, too.
MARK: Final = "crucible_id"
LEASE_S: Final = {"command": 300, "sandbox": 3600}
PROBE_S: Final = 10.0
BURY_S: Final = 10.0
_WORKED_S: Final = 60.0
_LONGEST_ID: Final = 128


class E2BBackend:
    """Implements `sandbox.backend.RemoteBackend`. What it is told by `environment` stays with it."""

    name = promises.NAME
    is_remote = True

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._access = Access.of(environment)
        self._worked_at = 0.0

    async def isolation(self) -> Isolation:
        """What E2B says of itself: it starts Firecracker machines. Nobody here has seen it."""
        return Isolation.HARDWARE_VM

    async def is_worth_trying(self) -> bool:
        return bool(self._access.key)

    async def probe(self) -> Missing | None:
        if not self._access.key:
            return Missing(what="E2B_API_KEY is not set", fix="Set E2B_API_KEY to a key of E2B's")
        try:
            load()
        except PrerequisiteMissing as error:
            return Missing(what=error.message, fix=error.hint, is_prerequisite=True)
        if self._worked_at and time.monotonic() - self._worked_at < _WORKED_S:
            return None
        try:
            with translated(self._access, "probe"):
                async with asyncio.timeout(PROBE_S):
                    await self._listed({}, most=1)
        except CrucibleError as error:
            return Missing(
                what=error.message, fix=error.hint or "Look at E2B_API_KEY and E2B_API_URL"
            )
        self._worked_at = time.monotonic()
        return None

    def check(self, spec: SandboxSpec) -> None:
        promises.check(spec)

    def image(self, name: str) -> Image:
        """A template of the provider's. Its user, directory and variables are what the service gives a command."""
        return Image(
            name=name,
            digest="",
            root=Path(),
            size_bytes=0,
            user=promises.USUAL_USER,
            workdir="",
            environment=(),
        )

    async def boot(self, plan: BootPlan) -> E2BMachine:
        from crucible.backends.e2b.machine import E2BMachine

        began = time.perf_counter()
        lease_s = LEASE_S[plan.lifetime]
        if plan.disk == "kept":
            sandbox = await self._connected(plan, self._written(plan.directory), lease_s)
        else:
            sandbox = await self._created(plan, lease_s)
        stage = Stage(name="remote", seconds=time.perf_counter() - began)
        return E2BMachine(plan, sandbox, self._access, lease_s=lease_s, stages=[stage])

    async def adopt(self, plan: BootPlan, handle: MachineHandle, *, is_paused: bool) -> E2BMachine:
        from crucible.backends.e2b.machine import E2BMachine

        lease_s = LEASE_S["sandbox"]
        sandbox = await self._connected(plan, handle.detail, lease_s)
        return E2BMachine(plan, sandbox, self._access, lease_s=lease_s, stages=[])

    def is_alive(self, handle: MachineHandle) -> bool:
        """It may be; taking it over tells."""
        return bool(handle.detail)

    def bury(self, directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
        known = self._written(directory) or ("" if handle is None else handle.detail)
        if not known and not self.may_run(directory):
            return
        if not self._access.key:
            raise RemoteRefused(
                "A sandbox of the provider may still run, and E2B_API_KEY is not set to end it",
                hint="Set E2B_API_KEY as it was, and try again",
            )
        with translated(self._access, sandbox_id):
            sandbox = load().blocking
            given = self._access.given(request_s=BURY_S)
            for remote_id in [known] if known else self._found(sandbox_id):
                sandbox.kill(sandbox_id=remote_id, **given)
        (directory / ID_NAME).unlink(missing_ok=True)

    def may_run(self, directory: Path) -> bool:
        return (directory / ID_NAME).exists()

    async def _created(self, plan: BootPlan, lease_s: int) -> Any:
        (plan.directory / ID_NAME).write_text("")
        making = asyncio.ensure_future(
            load().sandbox.create(
                template=plan.image.name,
                timeout=lease_s,
                metadata={MARK: plan.sandbox_id},
                allow_internet_access=plan.has_network,
                idempotency_key=f"crucible-{plan.sandbox_id}-{time.time_ns()}",
                **self._access.given(),
            )
        )
        with translated(self._access, plan.name):
            try:
                sandbox = await asyncio.shield(making)
            except asyncio.CancelledError:
                # The provider would go on making what nobody wants any more, and nobody would know its name.
                await finish(_unmake(making), deadline_s=REQUEST_S)
                raise
        (plan.directory / ID_NAME).write_text(str(sandbox.sandbox_id)[:_LONGEST_ID])
        return sandbox

    async def _connected(self, plan: BootPlan, remote_id: str, lease_s: int) -> Any:
        if not remote_id:
            raise GuestGone(plan.name, "what the provider calls it is not known any more")
        with translated(self._access, plan.name):
            return await load().sandbox.connect(
                sandbox_id=remote_id, timeout=lease_s, **self._access.given()
            )

    async def _listed(self, metadata: dict[str, str], *, most: int) -> list[Any]:
        query = load().query(metadata=metadata) if metadata else None
        found = load().sandbox.list(
            query=query, limit=most, **self._access.given(request_s=PROBE_S)
        )
        return list(await found.next_items())

    def _found(self, sandbox_id: str) -> list[str]:
        """What was asked for in the name of our record, and whose answer nobody wrote down."""
        query = load().query(metadata={MARK: sandbox_id})
        given = self._access.given(request_s=BURY_S)
        pages = load().blocking.list(query=query, **given)
        found = []
        while pages.has_next:
            found += [str(one.sandbox_id) for one in pages.next_items()]
        return found

    @staticmethod
    def _written(directory: Path) -> str:
        try:
            return (directory / ID_NAME).read_text()[:_LONGEST_ID]
        except OSError:
            return ""


async def _unmake(making: asyncio.Future[Any]) -> None:
    with contextlib.suppress(Exception):
        await (await making).kill()
