"""The verbs that run commands: run, exec, attach, execs, logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crucible.errors import CrucibleError, Refused
from crucible.sandbox.manager import Held, Manager
from crucible.sandbox.output_log import OutputLog, Piece
from crucible.sandbox.service.conversation import ClientGone, Conversation
from crucible.sandbox.service.requests import field, optional, parse_command, parse_spec
from crucible.sandbox.service.talk import hang_up, keep_to_log, talk
from crucible.sandbox.session import Channel, Command, ExecInfo, Exit, Process

CLAIM_S = 30.0
_TEARDOWN = "teardown"


class Commands:
    """Keeps the commands that nobody watches, besides answering requests."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._unwatched: set[asyncio.Task[None]] = set()
        self._unclaimed: dict[tuple[str, int], asyncio.Event] = {}

    async def run(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """A temporary sandbox, one command, and nothing left."""
        spec = parse_spec(field(request, "spec", dict))
        asked = field(request, "command", dict)
        began = time.perf_counter()
        async with self._manager.open(spec, name=optional(request, "name", str)) as held:
            command = parse_command(asked, spec, held.image)
            if request.get("upload"):
                await client.progress("workspace", "copying the directory")
                await held.machine.files.tar_in(
                    held.image.workdir.encode(), client.inputs(), owner=held.image.user
                )
            executed = time.perf_counter()
            process = await held.machine.start(command)
            await client.started(_facts(held, process))
            exit = await talk(process, client, held.log)
            stages = [(stage.name, stage.seconds) for stage in held.machine.stages]
            stages.append(("exec", time.perf_counter() - executed))
            closing = time.perf_counter()
        stages.append((_TEARDOWN, time.perf_counter() - closing))
        stages.append(("total", time.perf_counter() - began))
        self._audit("run", held, command, exit, stages)
        return {"exit": asdict(exit), "stages": stages}

    async def exec(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._manager.running(field(request, "name", str))
        command = parse_command(field(request, "command", dict), held.record.spec, held.image)
        process = await held.machine.start(command)
        detached = bool(request.get("detach"))
        self._note(held, process, command, detached=detached)
        facts = _facts(held, process)
        if detached:
            self._keep_unwatched(held, process)
            return facts
        await client.started(facts)
        return await self._watch(held, process, command, client)

    async def attach(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """A client comes back for a command after the holder of both had died."""
        held = self._manager.running(field(request, "name", str))
        stream = field(request, "stream", int)
        claim = self._unclaimed.pop((held.record.id, stream), None)
        info = next((item for item in await held.machine.list_execs() if item.stream == stream), None)
        if info is None or claim is None:
            raise Refused(f"Sandbox {held.record.name!r} has no command {stream} to take up")
        claim.set()
        process = await held.machine.attach(
            info,
            output_offset=field(request, "output", int),
            errors_offset=field(request, "errors", int),
        )
        await client.started({**_facts(held, process), "input": process.input_offset})
        return await self._watch(held, process, None, client)

    async def execs(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._manager.running(field(request, "name", str))
        found = await held.machine.list_execs()
        return {
            "execs": [
                {**asdict(info), "argv0": info.argv0.decode(errors="surrogateescape")}
                for info in found
            ]
        }

    async def logs(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        record = self._manager.records.find(field(request, "name", str))
        if request.get("console"):
            await client.data(Channel.OUTPUT, await self._console(record.id, record.directory))
            return {}
        for piece in OutputLog(record.directory).pieces():
            if piece.channel is not Channel.INPUT and piece.data:
                await client.data(piece.channel, piece.data)
        return {}

    async def take_over(self, held: Held) -> None:
        """After a holder died: commands with a client wait for it to come back, then go to the log."""
        for info in await held.machine.list_execs():
            claim = self._unclaimed[held.record.id, info.stream] = asyncio.Event()
            wait_s = 0.0 if _was_detached(held.log, info.stream) else CLAIM_S
            task = asyncio.create_task(self._resume_unwatched(held, info, claim, wait_s))
            self._unwatched.add(task)
            task.add_done_callback(self._unwatched.discard)

    async def close(self) -> None:
        for task in self._unwatched:
            task.cancel()
        await asyncio.gather(*self._unwatched, return_exceptions=True)

    async def _watch(
        self, held: Held, process: Process, command: Command | None, client: Conversation
    ) -> dict[str, Any]:
        try:
            exit = await talk(process, client, held.log)
        except ClientGone:
            await hang_up(process)
            raise
        await process.forget()
        if command is not None:
            self._audit("exec", held, command, exit, [("exec", exit.wall_s)])
        return {"exit": asdict(exit)}

    def _keep_unwatched(self, held: Held, process: Process) -> None:
        async def keep() -> None:
            with contextlib.suppress(CrucibleError):
                await keep_to_log(process, held.log)

        task = asyncio.create_task(keep())
        self._unwatched.add(task)
        task.add_done_callback(self._unwatched.discard)

    async def _resume_unwatched(
        self, held: Held, info: ExecInfo, claim: asyncio.Event, wait_s: float
    ) -> None:
        with contextlib.suppress(CrucibleError):
            try:
                async with asyncio.timeout(wait_s):
                    await claim.wait()
                    return
            except TimeoutError:
                self._unclaimed.pop((held.record.id, info.stream), None)
            output, errors = held.log.positions(info.stream)
            process = await held.machine.attach(info, output_offset=output, errors_offset=errors)
            await keep_to_log(process, held.log)

    async def _console(self, record_id: str, directory: Path) -> bytes:
        held = self._manager.held.get(record_id)
        if held is not None:
            return await held.machine.console()
        try:
            return (directory / "console.log").read_bytes()
        except OSError:
            return b""

    def _note(self, held: Held, process: Process, command: Command, *, detached: bool) -> None:
        words = [word.decode(errors="replace") for word in command.argv]
        note = json.dumps({"argv": words, "detached": detached, "at": time.time()}).encode()
        held.log.append(Piece(stream=process.stream, channel=Channel.INPUT, offset=0, data=note))

    def _audit(
        self,
        verb: str,
        held: Held,
        command: Command,
        exit: Exit,
        stages: list[tuple[str, float]],
    ) -> None:
        record = held.record
        self._manager.records.write_audit(
            verb,
            record.name,
            {
                "argv": [os.fsdecode(word) for word in command.argv],
                "user": command.user,
                "image": record.spec.image,
                "image_digest": record.image_digest,
                "backend": record.backend,
                "isolation": record.isolation,
                "exit_status": exit.status,
                "timed_out": exit.timed_out,
                "out_of_memory": exit.out_of_memory,
                "durations": {name: round(seconds, 6) for name, seconds in stages},
            },
        )


def _facts(held: Held, process: Process) -> dict[str, Any]:
    return {
        "stream": process.stream,
        "pid": process.pid,
        "name": held.record.name,
        "backend": held.record.backend,
        "isolation": held.record.isolation,
    }


def _was_detached(log: OutputLog, stream: int) -> bool:
    for piece in log.pieces():
        if piece.stream == stream and piece.channel is Channel.INPUT:
            with contextlib.suppress(ValueError):
                return bool(json.loads(piece.data).get("detached"))
    return False
