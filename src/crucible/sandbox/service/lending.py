"""The verb by which another host has a machine of ours: `lend` carries the bytes of its channel.

Whoever borrows it speaks to the guest as this process otherwise would, so that commands, terminals, files, ports and
the network need no second implementation. What needs the machine itself (standing still, its console) is asked here.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from typing import Any

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.errors import CrucibleError, SandboxLent, Unsupported
from crucible.sandbox.backend import Lends
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.service.conversation import ClientGone, Conversation
from crucible.sandbox.service.requests import field, name_field, parse_spec
from crucible.sandbox.session import Channel

# A borrower that says nothing for so long is gone, whatever the network has told us.
SILENCE_S = 60.0
_PIECE_BYTES = 1 << 16
_LAST_WORDS_S = 5.0


class Lending:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._borrowed: dict[str, _Loan] = {}

    async def lend(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """With a `spec` a temporary sandbox, gone when the borrower is; else the one of that name."""
        name = name_field(request)
        if request.get("spec") is not None:
            spec = parse_spec(field(request, "spec", dict))
            async with self._manager.open(spec, name=name) as held:
                return await self._lend(held, client)
        record = self._manager.records.find(name)
        if record.state == "paused":
            await self._manager.resume(name)
        return await self._lend(self._manager.running(name), client)

    async def _lend(self, held: Held, client: Conversation) -> dict[str, Any]:
        """A borrower that comes again may be earlier than the news that its first connection is lost."""
        key = held.record.id
        while (earlier := self._borrowed.get(key)) is not None:
            earlier.is_over.set()
            await earlier.returned.wait()
        loan = self._borrowed[key] = _Loan(self._manager, held, client)
        try:
            with held.used():
                return await loan.last()
        finally:
            del self._borrowed[key]
            loan.returned.set()


class _Loan:
    def __init__(self, manager: Manager, held: Held, client: Conversation) -> None:
        self.is_over = asyncio.Event()
        self.returned = asyncio.Event()
        self._manager = manager
        self._held = held
        self._client = client

    async def last(self) -> dict[str, Any]:
        """Until the machine ends, the borrower gives it back, or somebody else borrows it."""
        machine = self._held.machine
        if not isinstance(machine, Lends):
            raise Unsupported(f"The backend {self._held.backend.name!r} lends no machines")
        sock = await machine.lend()
        sock.setblocking(False)
        try:
            await self._client.started(self._facts())
            return await self._carry(sock)
        finally:
            sock.close()

    def _facts(self) -> dict[str, Any]:
        record = self._held.record
        return {
            "name": record.name,
            "backend": record.backend,
            "isolation": record.isolation,
            "stages": [[stage.name, stage.seconds] for stage in self._held.machine.stages],
        }

    async def _carry(self, sock: socket.socket) -> dict[str, Any]:
        outward = asyncio.create_task(self._outward(sock))
        inward = asyncio.create_task(self._inward(sock))
        stolen = asyncio.create_task(self.is_over.wait())
        tasks: set[asyncio.Task[Any]] = {outward, inward, stolen}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stolen.done():
                raise SandboxLent(self._held.record.name)
            if inward.done():
                inward.result()
                return {"ended": ""}
            outward.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return {"ended": await self._why()}

    async def _why(self) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                return await self._held.machine.ended()
        return "its channel was closed"

    async def _outward(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await loop.sock_recv(sock, _PIECE_BYTES):
                await self._client.data(Channel.OUTPUT, data)

    async def _inward(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    frame = await self._client.receive()
            except TimeoutError:
                raise ClientGone(f"The borrower has said nothing for {SILENCE_S:g} s") from None
            if frame.kind == protocol.END:
                return
            if frame.kind == protocol.DATA:
                # A machine that has ended is told by the other direction.
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(sock, frame.payload[1:])
                await self._client.take_input(len(frame.payload) - 1)
            else:
                await self._obey(protocol.parse_json(frame.payload))

    async def _obey(self, asked: dict[str, Any]) -> None:
        if asked == {"alive": True}:
            return
        try:
            await self._client.reply(await self._do(asked))
        except CrucibleError as error:
            await self._client.reply({"error": error.as_fields()})

    async def _do(self, asked: dict[str, Any]) -> dict[str, Any]:
        held = self._held
        match asked:
            case {"pause": True} if held.record.is_temporary:
                await held.machine.pause()
            case {"resume": True} if held.record.is_temporary:
                await held.machine.resume()
            case {"pause": True}:
                await self._manager.pause(held.record.name)
            case {"resume": True}:
                await self._manager.resume(held.record.name)
            case {"console": True}:
                console = await held.machine.console()
                return {"console": base64.b64encode(console).decode()}
            case _:
                raise BrokenFrame("A borrower asked for what there is not")
        return {}
