"""A machine of the worker in our hands: the bytes of its channel come out of a socket here."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

from crucible.backends.worker.connection import Connection, ConnectionLost
from crucible.client import protocol
from crucible.client.answers import ServiceError, service_error, table
from crucible.errors import CrucibleError, SandboxError, SandboxLent, WorkerLost

# A worker that fetches an image first takes as long as that does.
BEGIN_S: Final = 1800.0
ALIVE_S: Final = 15.0
CONTROL_S: Final = 30.0
_PIECE_BYTES = 1 << 16


class Loan:
    """Made by `begin`. `over` is set to the worker's word on how the machine ended; or to WorkerLost, if it gave none.
    One that `was_taken` is in the hands of another borrower, and not ours to reach for.

    `channel` belongs to whoever meets the guest over it, and is closed at this end when the loan is over.
    """

    def __init__(self, connection: Connection, sandbox: str, *, is_temporary: bool) -> None:
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.facts: dict[str, Any] = {}
        self.was_taken = False
        self.channel, self._inner = socket.socketpair()
        self._inner.setblocking(False)
        self._connection = connection
        self._sandbox = sandbox
        self._is_temporary = is_temporary
        self._room = asyncio.Condition()
        self._unread = 0
        self._asking = asyncio.Lock()
        self._reply: asyncio.Future[dict[str, Any]] | None = None
        self._carrying: asyncio.Task[None] | None = None

    @classmethod
    async def begin(cls, connection: Connection, request: dict[str, Any], sandbox: str) -> Loan:
        """The connection belongs to the loan from here on. Raises the worker's own error, too."""
        loan = cls(connection, sandbox, is_temporary="spec" in request)
        try:
            async with asyncio.timeout(BEGIN_S):
                await connection.send(protocol.json_frame({"verb": "lend", **request}))
                loan.facts = table(await connection.message(), "started")
        except BaseException as error:
            loan.channel.close()
            loan._inner.close()
            await connection.close()
            if isinstance(error, ConnectionLost | TimeoutError):
                raise loan._lost(str(error) or "it took too long") from None
            raise
        loan._carrying = asyncio.create_task(loan._carry())
        return loan

    async def ask(self, what: str) -> dict[str, Any]:
        """`pause`, `resume` or `console`: what only the worker can do."""
        async with self._asking:
            if self.over.done():
                raise self._failure()
            reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
            self._reply = reply
            try:
                async with asyncio.timeout(CONTROL_S):
                    await self._connection.send(protocol.json_frame({what: True}))
                    facts = await reply
            except (TimeoutError, ConnectionLost) as error:
                raise self._lost(str(error) or "it did not answer") from None
            finally:
                self._reply = None
        if "error" in facts:
            raise service_error(facts["error"])
        return facts

    async def close(self) -> None:
        """Gives it back. A temporary sandbox ends with that."""
        if self._carrying is not None:
            self._carrying.cancel()
            await asyncio.gather(self._carrying, return_exceptions=True)

    async def _carry(self) -> None:
        tasks = [
            asyncio.create_task(work)
            for work in (self._inward(), self._outward(), self._keep_alive())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self._end(done.pop().exception())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._end(ConnectionLost("it was given back"))
            self._inner.close()
            await self._connection.close()

    def _end(self, error: BaseException | None) -> None:
        if not self.over.done() and error is not None:
            why = error.message if isinstance(error, CrucibleError) else str(error)
            self.over.set_exception(self._lost(why or "the connection was closed"))
            self.over.exception()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(self._failure())

    def _lost(self, why: str) -> WorkerLost:
        return WorkerLost(
            self._connection.worker.label, self._sandbox, why, is_temporary=self._is_temporary
        )

    def _failure(self) -> SandboxError:
        if self.over.done() and isinstance(error := self.over.exception(), SandboxError):
            return error
        return self._lost("the machine has ended")

    async def _inward(self) -> None:
        """Until the worker says its last word."""
        loop = asyncio.get_running_loop()
        while not self.over.done():
            kind, payload = await self._connection.frame()
            if kind == protocol.DATA and payload[:1] == bytes((protocol.OUTPUT,)):
                await loop.sock_sendall(self._inner, payload[1:])
                await self._connection.send(protocol.taken_frame(protocol.OUTPUT, len(payload) - 1))
            elif kind == protocol.TAKEN:
                await self._taken(*protocol.parse_taken(payload))
            elif kind == protocol.JSON:
                self._hear(protocol.parse_json(payload))
            else:
                raise protocol.BrokenFrame("The worker sent what no worker sends")

    def _hear(self, message: dict[str, Any]) -> None:
        if "done" in message:
            if self._reply is None or self._reply.done():
                raise protocol.BrokenFrame("The worker answered what it was not asked")
            self._reply.set_result(table(message, "done"))
        elif "ok" in message:
            why = str(table(message, "ok").get("ended", ""))[:300]
            self.over.set_result("".join(letter if letter.isprintable() else "?" for letter in why))
        elif "error" in message:
            error = service_error(message["error"])
            self.was_taken = error.code == SandboxLent.code
            raise error

    async def _outward(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._inner, _PIECE_BYTES):
            async with self._room:
                await self._room.wait_for(lambda: self._unread + _PIECE_BYTES <= protocol.WINDOW)
                self._unread += len(data)
            await self._connection.send(protocol.data_frame(protocol.INPUT, data))
        # Whoever had the channel closed it; the worker may still have something to say.
        await loop.create_future()

    async def _taken(self, channel: int, count: int) -> None:
        if channel != protocol.INPUT or count > self._unread:
            raise protocol.BrokenFrame("The worker took what it was not sent")
        async with self._room:
            self._unread -= count
            self._room.notify_all()

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            await self._connection.send(protocol.json_frame({"alive": True}))


def is_not_running(error: ServiceError) -> bool:
    """Whether the worker knows that the machine is not there, which is more than that it does not answer."""
    return error.code in ("wrong-state", "sandbox-missing")
