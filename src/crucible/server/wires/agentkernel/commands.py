"""Commands in a sandbox over this wire: waited for, told as they go, left to themselves and found again."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.session import Channel
from crucible.sandbox.watching import beginnings
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.models.base import Name
from crucible.server.routes import commands as routes
from crucible.server.streaming import EventStream
from crucible.server.wires.agentkernel.endings import answer_of, ending_events, told_at_last
from crucible.server.wires.agentkernel.envelope import Envelope, told
from crucible.server.wires.agentkernel.models import Detached, DetachedLogs, Exec, Output
from crucible.server.wires.texts import text_of

router = APIRouter()

CommandId = Annotated[int, Path(ge=1, le=(1 << 31) - 1)]
StreamName = Annotated[Literal["stdout", "stderr"], Query()]


@router.post("/sandboxes/{name}/exec", dependencies=[MAY_RUN], response_model=Envelope[Output])
async def execute(name: Name, asked: Exec, domain: TheDomain, request: Request) -> Response:
    return answer_of(await routes.run_to_end(name, asked.as_exec(), domain, request))


@router.post(
    "/sandboxes/{name}/exec/stream", dependencies=[MAY_RUN], response_class=StreamingResponse
)
async def execute_and_stream(name: Name, asked: Exec, domain: TheDomain) -> EventStream:
    """A caller that goes before the command does takes it along."""
    wanted = asked.as_exec()
    execution = await routes.start_command(domain, name, wanted, wants_input=False)
    return EventStream(
        ending_events(execution),
        left=lambda: routes.leave(execution, wanted),
        last=told_at_last,
    )


@router.post("/sandboxes/{name}/exec/detach", status_code=201, dependencies=[MAY_RUN])
async def detach(name: Name, asked: Exec, domain: TheDomain) -> Envelope[Detached]:
    execution = await routes.start_command(
        domain, name, asked.as_detached(), wants_input=False, is_detached=True
    )
    return told(Detached.of(name, execution))


@router.get("/sandboxes/{name}/exec/detached", dependencies=[MAY_READ])
async def list_detached(name: Name, domain: TheDomain) -> Envelope[list[Detached]]:
    record = domain.manager.records.find(name)
    found: list[Execution | Past] = [
        *domain.executions.past(record),
        *domain.executions.running(record),
    ]
    return told([Detached.of(name, one) for one in found if one.facts.get("detached")])


@router.get("/sandboxes/{name}/exec/detached/{id}", dependencies=[MAY_READ])
async def status(name: Name, id: CommandId, domain: TheDomain) -> Envelope[Detached]:
    record = domain.manager.records.find(name)
    return told(Detached.of(name, await domain.executions.find(record, id)))


@router.get("/sandboxes/{name}/exec/detached/{id}/logs", dependencies=[MAY_READ])
async def logs(
    name: Name, id: CommandId, domain: TheDomain, stream: StreamName = "stdout"
) -> Envelope[DetachedLogs]:
    """What is kept of one stream so far."""
    record = domain.manager.records.find(name)
    command = await domain.executions.find(record, id)
    kept = command.kept.since(beginnings()) if command.kept is not None else []
    if stream == "stderr":
        return told(DetachedLogs(stderr=text_of(kept, Channel.ERRORS)))
    return told(DetachedLogs(stdout=text_of(kept, Channel.OUTPUT)))


@router.delete("/sandboxes/{name}/exec/detached/{id}", dependencies=[MAY_RUN])
async def kill(name: Name, id: CommandId, domain: TheDomain) -> Envelope[str]:
    """A hangup, some time, the end. One that has ended already is left alone."""
    record = domain.manager.records.find(name)
    command = await domain.executions.find(record, id)
    if not isinstance(command, Execution):
        return told("Command has ended already")
    await command.hang_up()
    return told("Command killed")
