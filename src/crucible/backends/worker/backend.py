"""The backend whose machines are a worker's: plans in, sandboxes of the worker out."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from crucible.backends.worker.address import Worker
from crucible.backends.worker.connection import Claims, Connection, ConnectionLost, ask
from crucible.backends.worker.loan import is_not_running
from crucible.backends.worker.machine import WorkerMachine
from crucible.client.answers import ServiceError
from crucible.errors import (
    BootFailed,
    CrucibleError,
    GuestGone,
    SetupError,
    WorkerLost,
)
from crucible.images.report import Report, silent
from crucible.sandbox.backend import BootPlan, MachineHandle, Missing
from crucible.sandbox.isolation import Isolation

NAME: Final = "worker"
# How long what a worker said of itself is believed, and how long it waits for a request after it said it.
CLAIMS_S: Final = 60.0
SPARE_S: Final = 5.0
_REMOVALS = "worker-removals"
_PREFIX = "lent-"


class WorkerBackend:
    """Implements `sandbox.backend.Backend`. Snapshots are to be taken on the worker."""

    def __init__(self, *, worker: Worker, home: Path, report: Report = silent) -> None:
        self.worker = worker
        self._removals = home / _REMOVALS
        self._report = report
        self._claims: Claims | None = None
        self._failure: SetupError | None = None
        self._believed_until = 0.0
        self._spare: Connection | None = None
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return NAME

    @property
    def is_remote(self) -> bool:
        """Its doors are ours: what a sandbox reaches and who reaches it goes through this host."""
        return False

    async def is_worth_trying(self) -> bool:
        return True

    async def isolation(self) -> Isolation:
        """As the worker says: nobody here can look. Of one that says nothing it is the best there is, as the `probe`
        that follows is to tell why it cannot be used, and not that it is weak.
        """
        try:
            claims = await self.claims()
        except SetupError as error:
            self._failure = error
            return next(iter(Isolation))
        return _isolation(claims)

    async def probe(self) -> Missing | None:
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
            claims = await self.claims()
        except SetupError as error:
            return Missing(what=error.message, fix=error.hint)
        if claims.missing:
            what = f"The worker {self.worker.label!r} cannot run sandboxes: {claims.missing}"
            return Missing(what=what, fix=f"On the worker: {claims.fix}" if claims.fix else "")
        return None

    async def claims(self) -> Claims:
        """What the worker says of itself, asked once a minute."""
        now = asyncio.get_running_loop().time()
        if self._claims is None or now >= self._believed_until:
            await self._drop_spare()
            self._spare = await Connection.open(self.worker)
            self._claims = self._spare.claims
            self._believed_until = now + CLAIMS_S
            asyncio.get_running_loop().call_later(SPARE_S, self._begin_dropping)
            self._sweep()
        return self._claims

    async def boot(self, plan: BootPlan) -> WorkerMachine:
        spec = _spec(plan)
        if plan.lifetime == "command":
            return await self._borrowed(plan, spec)
        # A first start that failed may have left a sandbox of that very name to be removed.
        await self._swept()
        try:
            if plan.disk == "kept":
                await self._ask("start", {"name": _name(plan.sandbox_id)}, plan)
            else:
                await self._make(plan, spec)
            return await self._borrowed(plan, None)
        except BaseException:
            if plan.disk != "kept":
                self.forget(plan.sandbox_id)
            raise

    async def adopt(
        self, plan: BootPlan, handle: MachineHandle, *, is_paused: bool
    ) -> WorkerMachine:
        try:
            machine = await self._borrowed(plan, None, is_new=False)
        except ServiceError as error:
            if is_not_running(error):
                raise GuestGone(plan.name, f"the worker says: {error.message}") from None
            raise
        if is_paused:
            await machine.pause()
        return machine

    def is_alive(self, handle: MachineHandle) -> bool:
        """Only the worker knows; `adopt` asks it."""
        return True

    def bury(self, directory: Path, sandbox_id: str, handle: MachineHandle | None) -> None:
        """A temporary one ended with the connection to it; another is stopped, if the worker can be told."""
        if handle is None:
            return
        with contextlib.suppress(CrucibleError, ConnectionLost, RuntimeError):
            asyncio.run(ask(self.worker, "stop", {"name": _name(sandbox_id), "grace_s": 0}))

    def forget(self, sandbox_id: str) -> None:
        """Removes it from the worker: now, or when that can be reached again."""
        self._removals.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._removals / _name(sandbox_id)).touch()
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            self._sweep()

    async def settled(self) -> None:
        """Returns when nothing is under way that nobody waits for."""
        await self._drop_spare()
        await self._swept()

    async def _borrowed(
        self, plan: BootPlan, spec: dict[str, Any] | None, *, is_new: bool = True
    ) -> WorkerMachine:
        machine = WorkerMachine(plan=plan, worker=self.worker, name=_name(plan.sandbox_id))
        await machine.borrow(await self._connection(), spec)
        try:
            if is_new:
                await machine.guest.prepare(plan.identity)
        except BaseException:
            await machine.close()
            raise
        return machine

    async def _make(self, plan: BootPlan, spec: dict[str, Any]) -> None:
        fields = {"name": _name(plan.sandbox_id), "spec": spec, "start": True, "upload": False}
        await self._ask("create", fields, plan)

    async def _ask(self, verb: str, fields: dict[str, Any], plan: BootPlan) -> dict[str, Any]:
        try:
            return await ask(self.worker, verb, fields)
        except ConnectionLost as lost:
            raise WorkerLost(self.worker.label, plan.name, str(lost), is_temporary=False) from None

    async def _connection(self) -> Connection:
        """The one over which the worker said what it is, if nobody has used it yet."""
        spare, self._spare = self._spare, None
        return spare if spare is not None else await Connection.open(self.worker)

    def _begin_dropping(self) -> None:
        if self._spare is not None:
            task = asyncio.get_running_loop().create_task(self._drop_spare())
            task.add_done_callback(lambda done: done.exception())

    async def _drop_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            await spare.close()

    def _sweep(self) -> None:
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.get_running_loop().create_task(self._remove_all())

    async def _swept(self) -> None:
        self._sweep()
        if self._sweeping is not None:
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _remove_all(self) -> None:
        while marks := sorted(self._removals.glob(f"{_PREFIX}*")):
            for mark in marks:
                try:
                    await ask(self.worker, "remove", {"name": mark.name, "force": True})
                except ServiceError as error:
                    if error.code != "sandbox-missing":
                        self._report("worker", f"{mark.name} was not removed: {error.message}")
                        return
                except (CrucibleError, ConnectionLost) as error:
                    self._report("worker", f"{mark.name} is still to be removed: {error}")
                    return
                mark.unlink(missing_ok=True)


def _name(sandbox_id: str) -> str:
    """What the sandbox is called on the worker, where several hosts may have sandboxes."""
    return f"{_PREFIX}{sandbox_id}"


def _spec(plan: BootPlan) -> dict[str, Any]:
    """What the worker is asked for. What is closed, reached and copied in is our own side's to see to."""
    image = plan.image.alone or plan.image
    return {
        "image": image.name,
        "images": {name: part.name for name, part in plan.image.parts},
        "memory_mib": plan.memory_mib,
        "cpus": plan.cpus,
        "disk_mib": plan.disk_mib,
        "network": "off",
    }


def _isolation(claims: Claims) -> Isolation:
    try:
        return Isolation(claims.isolation)
    except ValueError:
        if claims.missing:
            return next(iter(Isolation))
        raise BootFailed(
            f"The worker claims an isolation that is not known here: {claims.isolation!r}"
        ) from None
