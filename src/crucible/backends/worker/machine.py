"""A sandbox on a worker: the guest's session over a borrowed channel, and the worker for what is not the guest's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from crucible.backends.worker.connection import Connection, ConnectionLost, ask
from crucible.backends.worker.loan import Loan, is_not_running
from crucible.client.answers import ServiceError
from crucible.errors import CrucibleError, GuestGone, SandboxError, SetupError, WorkerLost
from crucible.sandbox.backend import BootPlan, MachineHandle, Stage
from crucible.sandbox.guest.channel import GuestChannel
from crucible.sandbox.guest.session import GuestSession
from crucible.sandbox.session import (
    ByteStream,
    Command,
    Completed,
    ExecInfo,
    Files,
    Identity,
    Process,
    Stats,
    Watch,
)

if TYPE_CHECKING:
    from crucible.backends.worker.address import Worker
    from crucible.network.outlet import Outlet

MEET_S: Final = 30.0
# No process of this host: what asks the kernel about it learns that there is none.
ELSEWHERE_PID: Final = 0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_LARGEST_CONSOLE: Final = 1 << 16


class WorkerMachine:
    """Implements `sandbox.backend.Machine`.

    When the connection is lost, what waits for the guest is told so. A temporary sandbox is gone then; any other is
    reached for until the worker answers, and what is asked of it meanwhile fails with WorkerLost.
    """

    def __init__(self, *, plan: BootPlan, worker: Worker, name: str) -> None:
        self.guest: GuestSession
        self._plan = plan
        self._worker = worker
        self._name = name
        self._loan: Loan
        self._stages: list[Stage] = []
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_paused = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def handle(self) -> MachineHandle:
        return MachineHandle(pid=ELSEWHERE_PID, started="", detail=self._worker.label)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(self._stages)

    @property
    def files(self) -> Files:
        return self.guest.files

    async def borrow(self, connection: Connection, spec: dict[str, Any] | None) -> None:
        """Takes the machine over that connection: a new temporary one of `spec`, or that of its name."""
        began = time.perf_counter()
        await self._borrow(connection, spec)
        self._stages = _stages(self._loan.facts)
        self._stages.append(Stage(name="worker", seconds=time.perf_counter() - began))
        self._watching = asyncio.create_task(self._watch())

    async def start(self, command: Command) -> Process:
        return await self.guest.start(command)

    async def run(
        self, command: Command, *, input: bytes = b"", max_output: int = 1 << 24
    ) -> Completed:
        return await self.guest.run(command, input=input, max_output=max_output)

    async def dial(self, port: int) -> ByteStream:
        return await self.guest.dial(port)

    async def outlet(self) -> Outlet:
        return await self.guest.outlet()

    async def watch(self, path: bytes, *, recursive: bool = False) -> Watch:
        return await self.guest.watch(path, recursive=recursive)

    async def stats(self) -> Stats:
        return await self.guest.stats()

    async def list_execs(self) -> list[ExecInfo]:
        return await self.guest.list_execs()

    async def attach(
        self, info: ExecInfo, *, output_offset: int = 0, errors_offset: int = 0
    ) -> Process:
        return await self.guest.attach(
            info, output_offset=output_offset, errors_offset=errors_offset
        )

    async def confine(self, *, read_only: bool, no_powers: bool) -> None:
        await self.guest.confine(read_only=read_only, no_powers=no_powers)

    async def end_processes(self, grace_s: float) -> None:
        await self.guest.end_processes(grace_s)

    async def pause(self) -> None:
        await self._loan.ask("pause")
        self._is_paused = True
        self.guest.stand_still()

    async def resume(self) -> None:
        await self._loan.ask("resume")
        self._is_paused = False
        self.guest.go_on()

    @property
    def has_ended(self) -> bool:
        return self._end.done()

    async def become(self, name: str, identity: Identity) -> None:
        began = time.perf_counter()
        self.guest.channel.name = name
        await self.resume()
        await self.guest.prepare(identity)
        self._stages = [Stage(name="handout", seconds=time.perf_counter() - began)]

    async def console(self) -> bytes:
        text = str((await self._loan.ask("console")).get("console", ""))
        with contextlib.suppress(ValueError):
            return base64.b64decode(text)[-_LARGEST_CONSOLE:]
        return b""

    async def ended(self) -> str:
        return await asyncio.shield(self._end)

    async def shutdown(self, grace_s: float) -> None:
        """The guest does it; the worker sees its machine end, and keeps the disk."""
        with contextlib.suppress(SandboxError, TimeoutError):
            await self.guest.shutdown(grace_s)
            async with asyncio.timeout(grace_s + 10):
                await self.ended()
        await self.close()

    async def close(self) -> None:
        """Ends it. If the worker cannot be told, a temporary one ends without, as its borrower is gone."""
        is_ours = not self._end.done() and not self._loan.was_taken
        await self.detach()
        if not is_ours or self._plan.lifetime == "command":
            return
        with contextlib.suppress(CrucibleError, ConnectionLost):
            await ask(self._worker, "stop", {"name": self._name, "grace_s": 0})

    async def detach(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.guest.close()
        await self._loan.close()
        self._has_ended("the connection to it was closed here")

    async def _borrow(self, connection: Connection, spec: dict[str, Any] | None) -> None:
        request = {"name": self._name, **({} if spec is None else {"spec": spec})}
        self._loan = loan = await Loan.begin(connection, request, self._plan.name)

        async def why_gone() -> SandboxError:
            try:
                return GuestGone(self._plan.name, await loan.over)
            except WorkerLost as lost:
                return lost

        try:
            channel = await GuestChannel.connect(
                loan.channel, name=self._plan.name, deadline_s=MEET_S, why_gone=why_gone
            )
        except BaseException:
            await loan.close()
            raise
        self.guest = GuestSession(channel)

    async def _watch(self) -> None:
        """Until the worker says that the machine has ended, over however many connections."""
        while not self._end.done():
            try:
                self._has_ended(await asyncio.shield(self._loan.over) or "it was given back")
            except WorkerLost as lost:
                if self._plan.lifetime == "command":
                    self._has_ended(lost.message)
                elif self._loan.was_taken:
                    await self.guest.channel.close(lost)
                    return
                else:
                    await self._return(lost)

    async def _return(self, lost: WorkerLost) -> None:
        pause_s = _FIRST_PAUSE_S
        await self.guest.channel.close(lost)
        while not self._end.done():
            try:
                await self._borrow(await Connection.open(self._worker), None)
                if self._is_paused:
                    await self.pause()
            except ServiceError as error:
                if is_not_running(error):
                    self._has_ended(f"the worker says: {error.message}")
            except (SandboxError, SetupError):
                pass
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    def _has_ended(self, why: str) -> None:
        if not self._end.done():
            self._end.set_result(why)


def _stages(facts: dict[str, Any]) -> list[Stage]:
    """What the worker measured, as far as it can be believed to be figures."""
    found = facts.get("stages")
    pairs = found if isinstance(found, list) else []
    return [
        Stage(name=pair[0][:40], seconds=float(pair[1]))
        for pair in pairs[:20]
        if isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and pair[0].isprintable()
        and isinstance(pair[1], int | float)
        and 0 <= pair[1] < 1e6
    ]
