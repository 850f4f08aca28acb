"""Commands in a sandbox: waited for, told as they go, left to themselves and found again."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from crucible.errors import ClientLeft, CommandEnded, CrucibleError
from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.service.requests import parse_command
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.domain import Domain
from crucible.server.following import collect, events, events_seen
from crucible.server.models.base import Asked, Name, Page
from crucible.server.models.commands import (
    CommandBase,
    CommandFacts,
    Exec,
    ExecAndWait,
    NewCommand,
    Result,
    Side,
)
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.paging import Cursor, Limit, page
from crucible.server.routes import PREFIX
from crucible.server.streaming import EventStream, parse_number, while_connected

router = APIRouter(prefix=PREFIX, tags=["commands"], route_class=OnceRoute)


class Signal(Asked):
    number: Annotated[int, Field(ge=1, le=64)]


class Size(Asked):
    rows: Side
    columns: Side


CommandId = Annotated[int, Path(ge=1, le=(1 << 31) - 1)]
LastEvent = Annotated[str | None, Header(alias="Last-Event-ID", max_length=64)]
Patience = Annotated[float, Query(ge=0, le=600)]
MOST_INPUT_BYTES = 1 << 30
BYTES = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Numbered events"}
}


@router.post("/sandboxes/{name}/exec", dependencies=[MAY_RUN, IDEMPOTENT], operation_id="exec")
async def exec_and_wait(
    name: Name, asked: ExecAndWait, domain: TheDomain, request: Request, response: Response
) -> Result:
    """Runs a command to its end and gives what it wrote. `Server-Timing` tells how long the sandbox had it."""
    began = time.perf_counter()
    execution = await start_command(domain, name, asked, wants_input=bool(asked.input))
    result = await _to_its_end(execution, asked, request)
    spent_ms = (execution.ended_at - began) * 1000
    response.headers["Server-Timing"] = f"sandbox;dur={spent_ms:.2f}"
    return result


@router.post(
    "/sandboxes/{name}/exec/stream",
    dependencies=[MAY_RUN],
    operation_id="execStream",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def exec_and_stream(
    name: Name, asked: Exec, domain: TheDomain, request: Request
) -> EventStream:
    """Runs a command and tells what it writes while it does; GET …/commands/{id}/output goes on after a break."""
    data = asked.input_bytes()
    execution = await start_command(domain, name, asked, wants_input=bool(data))
    return EventStream(
        events(execution, request.state.request_id, input=data),
        left=lambda: leave(execution, asked),
    )


@router.post(
    "/sandboxes/{name}/commands",
    status_code=201,
    dependencies=[MAY_RUN, IDEMPOTENT],
    operation_id="startCommand",
)
async def start(name: Name, asked: NewCommand, domain: TheDomain) -> CommandFacts:
    """Starts a command that goes on by itself."""
    execution = await start_command(
        domain, name, asked, wants_input=asked.wants_input or asked.terminal, is_detached=True
    )
    return CommandFacts.of(execution)


@router.get("/sandboxes/{name}/commands", dependencies=[MAY_READ], operation_id="listCommands")
async def list_all(
    name: Name, domain: TheDomain, limit: Limit = 100, cursor: Cursor = None
) -> Page[CommandFacts]:
    """Those that run, and those that the log still tells of."""
    record = domain.manager.records.find(name)
    found: list[Execution | Past] = [
        *domain.executions.past(record),
        *domain.executions.running(record),
    ]
    return page(
        found,
        key=lambda one: f"{one.stream:012d}",
        show=CommandFacts.of,
        limit=limit,
        cursor=cursor,
    )


@router.get("/sandboxes/{name}/commands/{id}", dependencies=[MAY_READ], operation_id="getCommand")
async def get(name: Name, id: CommandId, domain: TheDomain) -> CommandFacts:
    record = domain.manager.records.find(name)
    return CommandFacts.of(await domain.executions.find(record, id))


@router.get(
    "/sandboxes/{name}/commands/{id}/output",
    dependencies=[MAY_READ],
    operation_id="followCommand",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def follow(
    name: Name, id: CommandId, domain: TheDomain, request: Request, last_event_id: LastEvent = None
) -> EventStream:
    """What it wrote and writes, from the event after `Last-Event-ID` on. Whoever looks on never slows the command.

    Who falls more than 4 MiB behind is told `fell-behind` as an `error`, and can come back with its last number."""
    starts = parse_number(last_event_id)
    record = domain.manager.records.find(name)
    command = await domain.executions.find(record, id)
    return EventStream(events_seen(command, request.state.request_id, starts))


@router.post(
    "/sandboxes/{name}/commands/{id}/input",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="writeInput",
    openapi_extra=BYTES,
)
async def write_input(
    name: Name, id: CommandId, domain: TheDomain, request: Request, end: bool = False
) -> None:
    """The body, as it is, is the command's input; with `end` nothing comes after it."""
    execution = await find_running(domain, name, id)
    request.state.most_bytes = MOST_INPUT_BYTES
    async for data in request.stream():
        if data:
            await execution.write(data)
    if end:
        await execution.process.close_input()


@router.post(
    "/sandboxes/{name}/commands/{id}/signal",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="signalCommand",
)
async def send_signal(name: Name, id: CommandId, asked: Signal, domain: TheDomain) -> None:
    await (await find_running(domain, name, id)).process.signal(asked.number)


@router.post(
    "/sandboxes/{name}/commands/{id}/resize",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="resizeTerminal",
)
async def resize(name: Name, id: CommandId, asked: Size, domain: TheDomain) -> None:
    await (await find_running(domain, name, id)).process.resize(asked.rows, asked.columns)


@router.post(
    "/sandboxes/{name}/commands/{id}/wait", dependencies=[MAY_READ], operation_id="waitForCommand"
)
async def wait(
    name: Name, id: CommandId, domain: TheDomain, request: Request, timeout_s: Patience = 60.0
) -> CommandFacts:
    """Answers when it has ended or the time is over, whichever is first."""
    record = domain.manager.records.find(name)
    command = await domain.executions.find(record, id)
    if isinstance(command, Execution):
        with contextlib.suppress(TimeoutError, CrucibleError):
            async with asyncio.timeout(timeout_s):
                await while_connected(request, command.wait())
    return CommandFacts.of(command)


@router.delete(
    "/sandboxes/{name}/commands/{id}",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="endCommand",
)
async def end(name: Name, id: CommandId, domain: TheDomain) -> None:
    """A hangup, some time, the end. One that has ended already is left alone."""
    record = domain.manager.records.find(name)
    command = await domain.executions.find(record, id)
    if isinstance(command, Execution):
        await command.hang_up()


async def find_running(domain: Domain, name: str, id: int) -> Execution:
    record = domain.manager.records.find(name)
    command = await domain.executions.find(record, id)
    if not isinstance(command, Execution) or command.is_done:
        raise CommandEnded(name, id)
    return command


async def start_command(
    domain: Domain, name: str, asked: CommandBase, *, wants_input: bool, is_detached: bool = False
) -> Execution:
    held = domain.manager.running(name)
    command = parse_command(
        asked.as_request(wants_input=wants_input),
        held.record.spec,
        held.image,
        held.doors.variables,
        has_directory=held.record.host_directory is not None,
    )
    return await domain.executions.start(held, command, is_detached=is_detached)


async def run_to_end(name: str, asked: ExecAndWait, domain: Domain, request: Request) -> Result:
    execution = await start_command(domain, name, asked, wants_input=bool(asked.input))
    return await _to_its_end(execution, asked, request)


async def _to_its_end(execution: Execution, asked: ExecAndWait, request: Request) -> Result:
    try:
        return await while_connected(
            request,
            collect(
                execution,
                asked.input_bytes(),
                most=asked.max_output_bytes,
                encoding=asked.encoding,
            ),
        )
    except ClientLeft:
        await leave(execution, asked)
        raise


async def leave(execution: Execution, asked: Exec) -> None:
    """Its caller went first: what becomes of it was said in the request."""
    if asked.on_disconnect == "detach":
        execution.note({"detached": True})
    else:
        await execution.hang_up()
