"""Commands over execd: run with their output told as it comes, left to themselves, found again, ended."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import Field, model_validator

from crucible.errors import CrucibleError
from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.session import Channel
from crucible.sandbox.spec import LARGEST_TIMEOUT_S
from crucible.sandbox.watching import beginnings
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Name, Text, Variables
from crucible.server.models.commands import MOST_WORDS, NewCommand
from crucible.server.routes import commands as routes
from crucible.server.streaming import EventStream
from crucible.server.wires.explaining import explanation
from crucible.server.wires.moments import moment
from crucible.server.wires.opensandbox.lines import follow_lines

router = APIRouter(prefix="/sandboxes/{name}/execd")

CURSOR_HEADER = "EXECD-COMMANDS-TAIL-CURSOR"
_LONGEST_MS = int(LARGEST_TIMEOUT_S * 1000)
_LARGEST_USER = (1 << 32) - 2
CommandId = Annotated[int, Path(ge=1, le=(1 << 31) - 1)]
CommandIdAsked = Annotated[int, Query(ge=1, le=(1 << 31) - 1)]
Cursor = Annotated[int, Query(ge=0, le=1 << 62)]
UserId = Annotated[int, Field(ge=0, le=_LARGEST_USER)]


class Run(Asked):
    command: Text | None = None
    argv: Annotated[list[Text], Field(min_length=1, max_length=MOST_WORDS)] | None = None
    cwd: Annotated[str, Field(max_length=4096)] | None = None
    background: bool = False
    timeout: Annotated[int, Field(ge=0, le=_LONGEST_MS)] | None = None
    uid: UserId | None = None
    gid: UserId | None = None
    envs: Variables = {}

    @model_validator(mode="after")
    def _one_of_both(self) -> Run:
        if (self.command is None) == (self.argv is None):
            raise ValueError("either command or argv must be given")
        if self.gid is not None and self.uid is None:
            raise ValueError("gid needs a uid")
        return self

    def as_command(self) -> NewCommand:
        user = None if self.uid is None else str(self.uid)
        return NewCommand(
            argv=self.argv or ["/bin/sh", "-c", self.command or ""],
            environment=self.envs,
            workdir=self.cwd,
            user=user if self.gid is None else f"{user}:{self.gid}",
            timeout_s=self.timeout / 1000 if self.timeout else None,
        )


@router.post("/command", dependencies=[MAY_RUN], response_class=StreamingResponse)
async def run(name: Name, asked: Run, domain: TheDomain) -> EventStream:
    """One in the background goes on by itself; any other goes with its caller."""
    execution = await routes.start_command(
        domain, name, asked.as_command(), wants_input=False, is_detached=asked.background
    )
    if asked.background:
        return EventStream(_told_of_start(execution), last=_told_at_last)
    return EventStream(_told(execution), left=execution.hang_up, last=_told_at_last)


@router.delete("/command", dependencies=[MAY_RUN])
async def interrupt(name: Name, id: CommandIdAsked, domain: TheDomain) -> None:
    command = await _find(domain, name, id)
    if isinstance(command, Execution):
        await command.hang_up()


@router.get("/command/status/{id}", dependencies=[MAY_READ])
async def status(name: Name, id: CommandId, domain: TheDomain) -> dict[str, Any]:
    command = await _find(domain, name, id)
    is_running = isinstance(command, Execution) and not command.is_done
    exit, began = command.exit, command.facts.get("at")
    told = {
        "id": str(command.stream),
        "content": " ".join(command.facts.get("argv") or []),
        "running": is_running,
        "exit_code": None if exit is None else exit.status,
        "finished_at": None if exit is None or not began else moment(began + exit.wall_s),
    }
    if began:
        told["started_at"] = moment(began)
    if exit is None and not is_running:
        told["error"] = "It was cut short, and nobody knows how it ended"
    return told


@router.get("/command/{id}/logs", dependencies=[MAY_READ], response_class=PlainTextResponse)
async def logs(
    name: Name, id: CommandId, domain: TheDomain, cursor: Cursor = 0
) -> PlainTextResponse:
    """What is kept of both its outputs, from the cursor on, with where the next reading begins."""
    command = await _find(domain, name, id)
    text, end = b"", 0
    if command.kept is not None:
        text = b"".join(chunk.data for chunk in command.kept.since(beginnings()))
        end = sum(command.kept.ends.values())
    missed = max(0, end - cursor)
    shown = text[len(text) - missed :] if missed < len(text) else text
    return PlainTextResponse(
        shown.decode(errors="replace") if missed else "", headers={CURSOR_HEADER: str(end)}
    )


async def _find(domain: Domain, name: str, id: int) -> Execution | Past:
    return await domain.executions.find(domain.manager.records.find(name), id)


async def _told_of_start(execution: Execution) -> AsyncGenerator[bytes, None]:
    yield _event("init", text=str(execution.stream))
    yield _event("execution_complete", execution_time=0)


async def _told(execution: Execution) -> AsyncGenerator[bytes, None]:
    """`init`, then `stdout` and `stderr`, then `execution_complete` or, if it failed, `error`."""
    yield _event("init", text=str(execution.stream))
    try:
        async with aclosing(follow_lines(execution)) as lines:
            async for channel, text in lines:
                yield _event("stdout" if channel is Channel.OUTPUT else "stderr", text=text)
        exit = await execution.wait()
    except CrucibleError as error:
        yield _error(error.code, explanation(error))
        return
    if exit.status:
        name = "CommandTimedOut" if exit.timed_out else "CommandExecError"
        # Its clients take the status of a command from this value.
        yield _error(name, str(exit.status))
        return
    yield _event("execution_complete", execution_time=round(exit.wall_s * 1000))


def _told_at_last(error: CrucibleError, request_id: str) -> bytes:
    return _error(error.code, explanation(error))


def _error(name: str, value: str) -> bytes:
    return _event("error", error={"ename": name, "evalue": value, "traceback": []})


def _event(kind: str, **fields: Any) -> bytes:
    told = {"type": kind, "timestamp": round(time.time() * 1000), **fields}
    return f"data: {json.dumps(told)}\n\n".encode()
