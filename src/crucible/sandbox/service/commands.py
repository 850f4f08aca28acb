"""The verbs that run commands: run, exec, attach, execs, logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from crucible.errors import CommandMissing, SecretMissing
from crucible.sandbox.doors.events import network_logs
from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Executions
from crucible.sandbox.holding import CONSOLE_NAME, Held
from crucible.sandbox.manager import Manager
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.placing import place_elsewhere
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.images import with_image, with_labels
from crucible.sandbox.service.progress import noticing
from crucible.sandbox.service.requests import (
    field,
    given_secrets,
    name_field,
    optional,
    parse_command,
    parse_spec,
    whole,
)
from crucible.sandbox.service.talk import Detached, talk
from crucible.sandbox.session import Channel, Exit
from crucible.sandbox.temporary import run_in_temporary
from crucible.sandbox.watching import Watcher
from crucible.values import asdict

_LARGEST_OFFSET = 1 << 62


class Commands:
    def __init__(self, manager: Manager, executions: Executions) -> None:
        self._manager = manager
        self.executions = executions

    async def run(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """A temporary sandbox, one command, and nothing left."""
        spec = parse_spec(field(request, "spec", dict))
        asked = field(request, "command", dict)
        has_directory = bool(request.get("upload"))
        if has_directory:
            await place_elsewhere(self._manager.machines, spec, takes_directory=True)
        spec = await with_image(self._manager, spec, optional(request, "fallback_image", str))
        spec = await with_labels(self._manager, spec, request)

        async def furnish(held: Held) -> None:
            if has_directory:
                await client.progress("workspace", "copying the directory")
                await held.machine.files.tar_in(
                    held.image.workspace.encode(), client.inputs(), owner=held.image.owner
                )
            await self._manager.hands.furnish(held, is_first=True)
            if spec.after_create:
                from crucible.sandbox.service.first_steps import take_first_steps

                await take_first_steps(held, client)

        async with run_in_temporary(
            self._manager, self.executions, spec, asked,
            name=optional(request, "name", str), secrets=given_secrets(request),
            furnish=furnish, has_directory=has_directory,
        ) as run:  # fmt: skip
            execution = run.execution
            with execution.watching() as watcher:
                async with self._watched(run.held, client, execution.facts["terminal"]):
                    await client.started(_facts(run.held, execution))
                    exit = await talk(watcher, client)
        return {**_ending(execution, exit), "stages": run.stages}

    async def exec(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._manager.running(name_field(request))
        command = parse_command(
            field(request, "command", dict),
            held.record.spec,
            held.image,
            held.doors.variables,
            has_directory=held.record.host_directory is not None,
        )
        is_detached = request.get("detach") is True
        execution = await self.executions.start(held, command, is_detached=is_detached)
        if is_detached:
            return _facts(held, execution)
        watcher = execution.watch()
        return await self._watch(watcher, client, _facts(held, execution))

    async def attach(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """A client comes back for a command, after the holder of both had died or it had left it.

        One that `waits` was there when the holder died: if the sandbox is paused, it goes on when that does.
        """
        name = name_field(request)
        waits = request.get("waits") is True
        held = (
            await client.while_there(self._manager.awake(name))
            if waits
            else self._manager.running(name)
        )
        stream = field(request, "stream", int)
        starts = {
            Channel.OUTPUT: whole(request.get("output"), "output", 0, _LARGEST_OFFSET),
            Channel.ERRORS: whole(request.get("errors"), "errors", 0, _LARGEST_OFFSET),
        }
        execution = await self.executions.find(held.record, stream, starts)
        if not isinstance(execution, Execution):
            raise CommandMissing(held.record.name, stream)
        watcher = execution.watch(starts)
        execution.note({"detached": False})
        facts = {
            **_facts(held, execution),
            "input": execution.input_taken,
            "output": watcher.begins[Channel.OUTPUT],
            "errors": watcher.begins[Channel.ERRORS],
        }
        return await self._watch(watcher, client, facts)

    async def execs(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        held = self._manager.running(name_field(request))
        found = await held.machine.list_execs()
        return {
            "execs": [
                {**asdict(info), "argv0": info.argv0.decode(errors="surrogateescape")}
                for info in found
            ]
        }

    async def logs(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        record = self._manager.records.find(name_field(request))
        if request.get("network"):
            for path in network_logs(record.directory):
                await client.data(Channel.OUTPUT, await asyncio.to_thread(path.read_bytes))
            return {}
        if request.get("console"):
            await client.data(Channel.OUTPUT, await self._console(record.id, record.directory))
            return {}
        for piece in OutputLog(record.directory).pieces():
            if piece.channel is not Channel.INPUT and piece.data:
                await client.data(piece.channel, piece.data)
        return {}

    async def _watch(
        self, watcher: Watcher, client: Conversation, facts: dict[str, Any]
    ) -> dict[str, Any]:
        """Until the command or its client ends. Cancelled, it leaves the command as it is."""
        execution = watcher.execution
        try:
            async with self._watched(
                execution.held, client, execution.facts.get("terminal") is True
            ):
                await client.started(facts)
                exit = await talk(watcher, client)
        except Detached:
            execution.note({"detached": True})
            watcher.close()
            return {}
        except Exception:
            watcher.close()
            await execution.hang_up()
            raise
        watcher.close()
        await execution.forgotten()
        return _ending(execution, exit)

    @asynccontextmanager
    async def _watched(
        self, held: Held, client: Conversation, has_terminal: bool
    ) -> AsyncIterator[None]:
        """What there is to notice is told to the client, unless a program of its own fills its screen."""
        async with AsyncExitStack() as stack:
            stack.enter_context(held.used())
            stack.enter_context(held.doors.notices.to(noticing(client)))
            if (secrets := held.doors.secrets) is not None and secrets.unknown:
                missing = SecretMissing(held.record.name, secrets.unknown)
                held.doors.notices.tell(f"secrets: {missing.message}. {missing.hint}")
            if not has_terminal:
                await stack.enter_async_context(held.doors.offered())
            yield

    async def _console(self, record_id: str, directory: Path) -> bytes:
        held = self._manager.held.get(record_id)
        if held is not None:
            return await held.machine.console()
        try:
            return (directory / CONSOLE_NAME).read_bytes()
        except OSError:
            return b""


def _facts(held: Held, execution: Execution) -> dict[str, Any]:
    return {
        "stream": execution.stream,
        "pid": execution.pid,
        "name": held.record.name,
        "backend": held.record.backend,
        "isolation": held.record.isolation,
    }


def _ending(execution: Execution, exit: Exit) -> dict[str, Any]:
    limit = execution.limit
    return {"exit": asdict(exit), "limit": limit and limit._asdict()}
