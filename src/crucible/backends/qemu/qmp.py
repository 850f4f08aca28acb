"""QEMU's machine protocol over a connected socket: commands, replies, events. Knows no policy."""

from __future__ import annotations

import array
import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from crucible.errors import SandboxError

MAX_LINE = 1 << 20


class MonitorError(SandboxError):
    """QEMU answered a command with an error."""

    code = "vmm-refused"


class MonitorClosed(SandboxError):
    code = "vmm-gone"


class Monitor:
    """One QMP conversation. Commands may be sent before QEMU even listens: the socket holds them."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._buffer = bytearray()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 0
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1024)
        self._loop.add_reader(sock.fileno(), self._readable)
        self._negotiated = self.send("qmp_capabilities")

    def send(
        self, command: str, arguments: Mapping[str, Any] | None = None, *, fd: int | None = None
    ) -> asyncio.Future[Any]:
        """Queues a command and gives the future of its answer."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.closed.is_set():
            answer.set_exception(MonitorClosed("QEMU has closed its monitor"))
            return answer
        self._next_id += 1
        request: dict[str, Any] = {"execute": command, "id": self._next_id}
        if arguments:
            request["arguments"] = dict(arguments)
        data = json.dumps(request).encode() + b"\n"
        ancillary = []
        if fd is not None:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self._waiting[self._next_id] = answer
        try:
            sent = self._sock.sendmsg([data], ancillary)
        except OSError as error:
            # What it said before it went is still there to be read.
            while self._readable():
                pass
            self._close(str(error))
            return answer
        if sent != len(data):
            self._close("the monitor's buffer is full")
        return answer

    async def execute(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        fd: int | None = None,
        deadline_s: float = 30.0,
    ) -> Any:
        try:
            async with asyncio.timeout(deadline_s):
                return await self.send(command, arguments, fd=fd)
        except TimeoutError:
            raise MonitorError(f"QEMU did not answer {command!r} within {deadline_s:g} s") from None

    def close(self) -> None:
        self._close("closed by us")

    def _readable(self) -> bool:
        """Takes what is there; whether there may be more."""
        if self.closed.is_set():
            return False
        try:
            data = self._sock.recv(65536)
        except BlockingIOError:
            return False
        except OSError as error:
            self._close(str(error))
            return False
        if not data:
            self._close("end of stream")
            return False
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        if len(self._buffer) > MAX_LINE:
            self._close("an answer was too long")
        for line in lines:
            if line.strip():
                self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._close("an answer was not JSON")
            return
        if not isinstance(message, dict):
            return
        if "event" in message:
            if not self.events.full():
                self.events.put_nowait(message)
            return
        answer = self._waiting.pop(message.get("id", -1), None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(MonitorError(str(message["error"].get("desc", "refused"))))
            answer.exception()
        else:
            answer.set_result(message.get("return"))

    def _close(self, why: str) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(MonitorClosed(f"QEMU's monitor is gone: {why}"))
                answer.exception()
        self._waiting.clear()
