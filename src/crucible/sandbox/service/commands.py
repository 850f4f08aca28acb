"""The verbs that run commands: run, exec, attach, execs, logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from crucible.errors import Refused
from crucible.sandbox.doors.events import network_logs
from crucible.sandbox.holding import CONSOLE_NAME, Held
from crucible.sandbox.limits import Limit, limit_met
from crucible.sandbox.manager import Manager
from crucible.sandbox.output_log import OutputLog, StreamLog
from crucible.sandbox.service.audit import write_audit
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.images import with_image
from crucible.sandbox.service.progress import noticing
from crucible.sandbox.service.requests import (
    command_words,
    field,
    given_secrets,
    name_field,
    optional,
    parse_command,
    parse_spec,
    whole,
)
from crucible.sandbox.service.talk import Detached, Running, hang_up, talk
from crucible.sandbox.service.unwatched import CLAIM_S, Unwatched
from crucible.sandbox.session import Channel, Chunk, Command, Exit
from crucible.values import asdict

_LARGEST_OFFSET = 1 << 62


class Commands:
    """Keeps the commands that nobody watches, besides answering requests."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._unwatched: dict[tuple[str, int], Unwatched] = {}

    async def run(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """A temporary sandbox, one command, and nothing left."""
        spec = parse_spec(field(request, "spec", dict))
        asked = field(request, "command", dict)
        began = time.perf_counter()
        stages: list[tuple[str, float]] = []
        has_directory = bool(request.get("upload"))
        spec = await with_image(self._manager, spec, optional(request, "fallback_image", str))
        if not asked.get("argv"):
            # No machine is started to find out that there is nothing to run in it.
            command_words(asked, await self._manager.image(spec.image))
        secrets = given_secrets(request)
        name = optional(request, "name", str)
        async with self._manager.open(spec, name=name, secrets=secrets) as held:
            command = parse_command(
                asked, spec, held.image, held.doors.variables, has_directory=has_directory
            )
            try:
                if has_directory:
                    await client.progress("workspace", "copying the directory")
                    await held.machine.files.tar_in(
                        held.image.workspace.encode(), client.inputs(), owner=held.image.owner
                    )
                await self._manager.furnish(held, is_first=True)
                if spec.after_create:
                    from crucible.sandbox.service.first_steps import take_first_steps

                    await take_first_steps(held, client)
                executed = time.perf_counter()
                process = await held.machine.start(command)
                running = Running.under(spec, process, None)
                await client.started(_facts(held, running))
                async with self._watched(held, client, command.has_terminal):
                    exit = await talk(running, client)
                stages += [(stage.name, stage.seconds) for stage in held.machine.stages]
                stages.append(("exec", time.perf_counter() - executed))
                closing = time.perf_counter()
            except BaseException:
                self._audit("run", held, _described(command), None, stages)
                raise
        stages.append(("teardown", time.perf_counter() - closing))
        stages.append(("total", time.perf_counter() - began))
        limit = self._audit("run", held, _described(command), exit, stages)
        return {"exit": asdict(exit), "limit": limit and limit._asdict(), "stages": stages}

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
        process = await held.machine.start(command)
        kept = held.log.follow(process.stream, {**_described(command), "detached": is_detached})
        running = Running.under(held.record.spec, process, kept)
        if is_detached:
            self._keep_unwatched(held, running, kept)
            return _facts(held, running)
        return await self._watch(held, running, kept, client, _facts(held, running))

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
        unwatched = self._unwatched.pop((held.record.id, stream), None)
        if unwatched is None:
            raise Refused(
                f"Sandbox {held.record.name!r} has no command {stream} to take up",
                hint="Its output, if it ran, is in `crucible logs`",
            )
        running, backlog = await unwatched.claim(starts)
        unwatched.kept.amend({"detached": False})
        facts = {
            **_facts(held, running),
            "input": running.input_taken,
            "output": _first(backlog, Channel.OUTPUT, starts),
            "errors": _first(backlog, Channel.ERRORS, starts),
        }
        return await self._watch(held, running, unwatched.kept, client, facts, backlog)

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

    async def take_over(self, held: Held) -> None:
        """Takes up the commands that another process began: the holder before us, or the original of a fork.

        One that had a client waits for it; all others go to the log at once.
        """
        held.has_strangers = False
        for info in await held.machine.list_execs():
            kept = held.log.resume(info.stream)
            had_client = kept.facts.get("detached") is False
            self._unwatched[held.record.id, info.stream] = Unwatched(
                held, info, kept, ended=self._ended, patience_s=CLAIM_S if had_client else 0.0
            )

    async def wake(self, held: Held) -> None:
        """After a pause: who waits for its commands finds them."""
        try:
            if held.has_strangers:
                await self.take_over(held)
        finally:
            held.awake.set()

    async def close(self) -> None:
        await asyncio.gather(*(unwatched.close() for unwatched in self._unwatched.values()))
        self._unwatched.clear()

    async def _watch(
        self,
        held: Held,
        running: Running,
        kept: StreamLog,
        client: Conversation,
        facts: dict[str, Any],
        backlog: list[Chunk] | None = None,
    ) -> dict[str, Any]:
        """Until the command or its client ends. Cancelled, it leaves the command as it is."""
        try:
            await client.started(facts)
            async with self._watched(held, client, kept.facts.get("terminal") is True):
                exit = await talk(running, client, backlog or [])
        except Detached:
            kept.amend({"detached": True})
            self._keep_unwatched(held, running, kept)
            return {}
        except Exception:
            await hang_up(running.process)
            self._audit("exec", held, kept.facts, None, [])
            raise
        await running.process.forget()
        limit = self._audit("exec", held, kept.facts, exit, [("exec", exit.wall_s)])
        return {"exit": asdict(exit), "limit": limit and limit._asdict()}

    @asynccontextmanager
    async def _watched(
        self, held: Held, client: Conversation, has_terminal: bool
    ) -> AsyncIterator[None]:
        """What there is to notice is told to the client, unless a program of its own fills its screen."""
        async with AsyncExitStack() as stack:
            stack.enter_context(held.used())
            stack.enter_context(held.doors.notices.to(noticing(client)))
            if not has_terminal:
                await stack.enter_async_context(held.doors.offered())
            yield

    def _keep_unwatched(self, held: Held, running: Running, kept: StreamLog) -> None:
        self._unwatched[held.record.id, kept.stream] = Unwatched(
            held, running, kept, ended=self._ended
        )

    def _ended(self, unwatched: Unwatched, exit: Exit | None) -> None:
        self._unwatched.pop((unwatched.held.record.id, unwatched.stream), None)
        stages = [] if exit is None else [("exec", exit.wall_s)]
        self._audit("exec", unwatched.held, unwatched.kept.facts, exit, stages)

    async def _console(self, record_id: str, directory: Path) -> bytes:
        held = self._manager.held.get(record_id)
        if held is not None:
            return await held.machine.console()
        try:
            return (directory / CONSOLE_NAME).read_bytes()
        except OSError:
            return b""

    def _audit(
        self,
        verb: str,
        held: Held,
        command: dict[str, Any],
        exit: Exit | None,
        stages: list[tuple[str, float]],
    ) -> Limit | None:
        """Writes the line, and gives the limit that was met."""
        limit = None
        if exit is not None:
            limit = limit_met(exit, held.record.spec, command.get("timeout_s"))
        records, record = self._manager.records, held.record
        if limit is not None and not record.is_temporary:
            note = f"the last command that met a limit met that of {limit}"
            held.record = records.update(record.id, note=note)
        network = held.doors.network_events()
        write_audit(records, verb, record, command, exit, stages, limit=limit, network=network)
        return limit


def _facts(held: Held, running: Running) -> dict[str, Any]:
    return {
        "stream": running.process.stream,
        "pid": running.process.pid,
        "name": held.record.name,
        "backend": held.record.backend,
        "isolation": held.record.isolation,
    }


def _described(command: Command) -> dict[str, Any]:
    """The command as the log and the audit tell it."""
    words = [word.decode(errors="backslashreplace") for word in command.argv]
    return {
        "argv": words,
        "user": command.user,
        "timeout_s": command.timeout_s,
        "terminal": command.has_terminal,
        "at": time.time(),
    }


def _first(backlog: list[Chunk], channel: Channel, starts: dict[Channel, int]) -> int:
    """Where a channel really goes on: what was asked for may not be kept any more."""
    return next((chunk.offset for chunk in backlog if chunk.channel is channel), starts[channel])
