"""The verbs that move bytes or tell facts: files, trees, ports, figures."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import Any

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.sandbox import entries
from crucible.sandbox.doors.listening import listening_ports
from crucible.sandbox.holding import Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.seeding import baseline_of
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.requests import encoded, name_field, optional, path_field, whole
from crucible.sandbox.session import ByteStream, Channel

_LINES = 65536


class Transfers:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def tar_in(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._held(request)
        owner = str(request.get("owner") or held.image.owner)
        count = await held.machine.files.tar_in(path_field(request), client.inputs(), owner=owner)
        return {"count": count}

    async def tar_out(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        names = [encoded(str(name)) for name in request.get("names") or ()]
        async for data in self._held(request).machine.files.tar_out(path_field(request), names):
            await client.data(Channel.OUTPUT, data)
        await client.end(Channel.OUTPUT)
        return {}

    async def read(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """All of a file, or its first `length` bytes: a guest can make any file endless."""
        length = whole(request.get("length", 0), "length", 0, 1 << 62)
        files = self._held(request).machine.files
        async for data in files.read(path_field(request), length=length):
            await client.data(Channel.OUTPUT, data)
        await client.end(Channel.OUTPUT)
        return {}

    async def write(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._held(request)
        count = await held.machine.files.write(
            path_field(request), client.inputs(),
            mode=whole(request.get("mode", 0o644), "mode", 0, 0o7777),
            owner=str(request.get("owner") or held.image.owner),
            make_parents=request.get("parents") is True,
        )  # fmt: skip
        return {"count": count}

    async def stat(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        entry = await self._held(request).machine.files.stat(
            path_field(request), follow=bool(request.get("follow", True))
        )
        return {"entry": entries.as_fields(entry)}

    async def tree(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        found = self._held(request).machine.files.tree(
            path_field(request), hashed=bool(request.get("hashed"))
        )
        lines: list[bytes] = []
        size = count = 0
        async for entry in found:
            lines.append(entries.to_line(entry))
            size += len(lines[-1])
            count += 1
            if size > _LINES:
                await client.data(Channel.OUTPUT, b"".join(lines))
                lines, size = [], 0
        if lines:
            await client.data(Channel.OUTPUT, b"".join(lines))
        await client.end(Channel.OUTPUT)
        return {"count": count}

    async def baseline(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """What the workspace, or the writable mount at `target`, looked like when it was copied in."""
        record = self._manager.records.find(name_field(request))
        target = optional(request, "target", str) or ""
        source, path = baseline_of(record, target)
        with path.open("rb") as file:
            while data := file.read(_LINES):
                await client.data(Channel.OUTPUT, data)
        await client.end(Channel.OUTPUT)
        held = self._manager.held.get(record.id)
        workdir = held.image.workspace if held is not None else "/workspace"
        return {"host_directory": source, "path": target or workdir}

    async def stats(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return asdict(await self._held(request).machine.stats())

    async def ports(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """Where programs in the sandbox listen, as its kernel tells it."""
        held = self._held(request)
        published = [port._asdict() for port in held.doors.ports]
        return {"ports": await listening_ports(held.machine.files), "published": published}

    async def dial(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        port = whole(request.get("port"), "port", 1, 65535)
        held = self._held(request)
        with held.used():
            return await self._dial(held, port, client)

    async def _dial(self, held: Held, port: int, client: Conversation) -> dict[str, Any]:
        stream = await held.machine.dial(port)
        await client.started({})
        outward = asyncio.create_task(_outward(stream, client))
        inward = asyncio.create_task(_inward(stream, client))
        try:
            await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_EXCEPTION)
            for task in (outward, inward):
                if task.done():
                    task.result()
        finally:
            for task in (outward, inward):
                task.cancel()
            await asyncio.gather(outward, inward, return_exceptions=True)
            await stream.close()
        return {}

    def _held(self, request: dict[str, Any]) -> Held:
        held = self._manager.running(name_field(request))
        held.touch()
        return held


async def _outward(stream: ByteStream, client: Conversation) -> None:
    with contextlib.suppress(ConnectionResetError):
        while data := await stream.read():
            await client.data(Channel.OUTPUT, data)
    await client.end(Channel.OUTPUT)


async def _inward(stream: ByteStream, client: Conversation) -> None:
    while True:
        frame = await client.receive()
        if frame.kind == protocol.DATA:
            await stream.write(frame.payload[1:])
            await client.take_input(len(frame.payload) - 1)
        elif frame.kind == protocol.END:
            await stream.close_write()
            return
        else:
            raise BrokenFrame("Data was expected")
