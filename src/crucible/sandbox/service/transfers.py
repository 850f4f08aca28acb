"""The verbs that move bytes or tell facts: files, trees, ports, figures."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from typing import Any

from crucible.client import protocol
from crucible.client.protocol import BrokenFrame
from crucible.errors import BadSetting
from crucible.sandbox.manager import Held, Manager
from crucible.sandbox.seeding import BASELINE_NAME, entry_as_json
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.requests import field
from crucible.sandbox.session import ByteStream, Channel

_LISTENING = "0A"
_LINES = 65536


class Transfers:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def tar_in(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._held(request)
        owner = str(request.get("owner") or held.image.user)
        count = await held.machine.files.tar_in(_path(request), client.inputs(), owner=owner)
        return {"count": count}

    async def tar_out(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        names = [os.fsencode(str(name)) for name in request.get("names") or ()]
        async for data in self._held(request).machine.files.tar_out(_path(request), names):
            await client.data(Channel.OUTPUT, data)
        await client.end(Channel.OUTPUT)
        return {}

    async def read(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        async for data in self._held(request).machine.files.read(_path(request)):
            await client.data(Channel.OUTPUT, data)
        await client.end(Channel.OUTPUT)
        return {}

    async def stat(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        entry = await self._held(request).machine.files.stat(
            _path(request), follow=bool(request.get("follow", True))
        )
        return {"entry": entry_as_json(entry)}

    async def tree(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        entries = self._held(request).machine.files.tree(
            _path(request), hashed=bool(request.get("hashed"))
        )
        lines: list[bytes] = []
        size = count = 0
        async for entry in entries:
            lines.append(json.dumps(entry_as_json(entry)).encode() + b"\n")
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
        """What the workspace looked like when it was copied in."""
        record = self._manager.records.find(field(request, "name", str))
        held = self._manager.held.get(record.id)
        path = record.directory / BASELINE_NAME
        if record.host_directory is None or not path.exists():
            raise BadSetting(
                f"Sandbox {record.name!r} was not made from a directory",
                hint="Create it with `crucible create NAME --dir PATH`",
            )
        with path.open("rb") as file:
            while data := file.read(_LINES):
                await client.data(Channel.OUTPUT, data)
        await client.end(Channel.OUTPUT)
        workdir = held.image.workdir if held is not None else "/workspace"
        return {"host_directory": record.host_directory, "path": workdir}

    async def stats(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return asdict(await self._held(request).machine.stats())

    async def ports(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """Where programs in the sandbox listen, as its kernel tells it."""
        files = self._held(request).machine.files
        ports: set[int] = set()
        for path in (b"/proc/net/tcp", b"/proc/net/tcp6"):
            text = b"".join([data async for data in files.read(path)]).decode(errors="replace")
            for line in text.splitlines()[1:]:
                words = line.split()
                if len(words) > 3 and words[3] == _LISTENING:
                    ports.add(int(words[1].rpartition(":")[2], 16))
        return {"ports": sorted(ports)}

    async def dial(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        port = field(request, "port", int)
        if not 0 < port < 65536:
            raise BadSetting(f"{port} is not a port")
        stream = await self._held(request).machine.dial(port)
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
        return self._manager.running(field(request, "name", str))


async def _outward(stream: ByteStream, client: Conversation) -> None:
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
        elif frame.kind != protocol.TAKEN:
            raise BrokenFrame("Data was expected")


def _path(request: dict[str, Any]) -> bytes:
    path = os.fsencode(field(request, "path", str))
    if not path.startswith(b"/") or b"\0" in path:
        raise BadSetting(f"{request['path']!r} is not an absolute path in the sandbox")
    return path
