"""The commands of sandboxes that are in this process's hands: started, found again, taken over, audited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from crucible.errors import CommandMissing
from crucible.sandbox.execution import Execution
from crucible.sandbox.holding import Held
from crucible.sandbox.limits import limit_met
from crucible.sandbox.manager import Manager
from crucible.sandbox.output_log import OutputLog, StreamLog
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.service.audit import write_audit
from crucible.sandbox.session import Chunk, Command, Exit
from crucible.sandbox.watching import Starts, beginnings
from crucible.values import asdict, dataclass

# How long a command that had a client when its holder died stands still for that client to come back.
CLAIM_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A command that has ended, as far as its sandbox's log still tells it. Without `exit` it was cut short."""

    stream: int
    facts: dict[str, Any]
    exit: Exit | None
    kept: StreamLog

    async def follow(self, starts: Starts | None = None) -> AsyncGenerator[Chunk, None]:
        for chunk in self.kept.since(starts or beginnings()):
            yield chunk


class Executions:
    """Of named sandboxes all that run; of a temporary one there is one, which whoever opened it follows."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._running: dict[tuple[str, int], Execution] = {}

    async def start(self, held: Held, command: Command, *, is_detached: bool = False) -> Execution:
        """Nothing of its output is lost to who watches it before anything else is waited for."""
        with held.used():
            process = await held.machine.start(command)
        facts = {**describe(command), "detached": is_detached, "pid": process.pid}
        if held.record.is_temporary:
            return Execution(held, process, kept=None, facts=facts, ended=self._ended)
        kept = held.log.follow(process.stream, facts)
        execution = Execution(held, process, kept=kept, facts=facts, ended=self._ended)
        self._running[held.record.id, process.stream] = execution
        return execution

    def running(self, record: SandboxRecord) -> list[Execution]:
        return [one for (owner, _), one in self._running.items() if owner == record.id]

    def past(self, record: SandboxRecord) -> list[Past]:
        """Those that have ended, the oldest first, of the machine that ran last."""
        current = {one.stream for one in self.running(record)}
        logs = OutputLog(record.directory).streams()
        return [_past(kept) for kept in logs if kept.stream not in current]

    async def find(
        self, record: SandboxRecord, stream: int, starts: Starts | None = None
    ) -> Execution | Past:
        """One taken over from another process is taken up now: at `starts`, or where its log ends."""
        execution = self._running.get((record.id, stream))
        if execution is not None:
            await execution.attach(starts)
            return execution
        for kept in OutputLog(record.directory).streams():
            if kept.stream == stream:
                return _past(kept)
        raise CommandMissing(record.name, stream)

    async def take_over(self, held: Held) -> None:
        """Takes up the commands that another process began: the holder before us, or the original of a fork.

        One that had a client waits for it; all others go to the log at once.
        """
        held.has_strangers = False
        for info in await held.machine.list_execs():
            kept = held.log.resume(info.stream)
            had_client = kept.facts.get("detached") is False
            self._running[held.record.id, info.stream] = Execution(
                held, info, kept=kept, facts=kept.facts, ended=self._ended,
                patience_s=CLAIM_S if had_client else 0.0,
            )  # fmt: skip

    async def wake(self, held: Held) -> None:
        """After a pause: who waits for its commands finds them."""
        try:
            if held.has_strangers:
                await self.take_over(held)
        finally:
            held.awake.set()

    async def close(self) -> None:
        """Leaves all commands as they are."""
        await asyncio.gather(*(one.close() for one in self._running.values()))
        self._running.clear()

    def audit(
        self,
        verb: str,
        held: Held,
        command: dict[str, Any],
        exit: Exit | None,
        stages: list[tuple[str, float]],
    ) -> None:
        limit = None
        if exit is not None:
            limit = limit_met(exit, held.record.spec, command.get("timeout_s"))
        records, record = self._manager.records, held.record
        if limit is not None and not record.is_temporary:
            note = f"the last command that met a limit met that of {limit}"
            held.record = records.update(record.id, note=note)
        network = held.doors.network_events()
        write_audit(records, verb, record, command, exit, stages, limit=limit, network=network)

    def _ended(self, execution: Execution) -> None:
        """Those of temporary sandboxes are audited with the sandbox they are the purpose of."""
        exit, held = execution.exit, execution.held
        if exit is not None:
            execution.limit = limit_met(exit, held.record.spec, execution.facts.get("timeout_s"))
        if execution.kept is None:
            return
        self._running.pop((held.record.id, execution.stream), None)
        # With all that is known of it: how it began may be in a part of the log that goes first.
        execution.kept.amend({**execution.facts, "exit": None if exit is None else asdict(exit)})
        told = None if execution.is_given_up else exit
        stages = [] if told is None else [("exec", told.wall_s)]
        self.audit("exec", held, execution.facts, told, stages)


def describe(command: Command) -> dict[str, Any]:
    """The command as the log and the audit tell it."""
    words = [word.decode(errors="backslashreplace") for word in command.argv]
    return {
        "argv": words,
        "user": command.user,
        **({"image": command.image} if command.image else {}),
        "timeout_s": command.timeout_s,
        "terminal": command.has_terminal,
        "at": time.time(),
    }


def _past(kept: StreamLog) -> Past:
    exit = kept.facts.get("exit")
    return Past(
        stream=kept.stream,
        facts=kept.facts,
        exit=Exit(**exit) if isinstance(exit, dict) else None,
        kept=kept,
    )
