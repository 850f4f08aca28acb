"""One command in a sandbox that is made for it and is gone afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from crucible.errors import CrucibleError
from crucible.sandbox.holding import Held
from crucible.sandbox.temporary import Run as Running
from crucible.sandbox.temporary import run_in_temporary
from crucible.server.auth import MAY_RUN, Caller, TheCaller, TheDomain
from crucible.server.creating import check_spec, first_steps, labelled
from crucible.server.domain import Domain
from crucible.server.following import collect, events
from crucible.server.models.commands import CommandBase, Result, Run, RunStream
from crucible.server.models.sandboxes import Settings
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.problems import fields_of
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.streaming import EventStream, event, while_connected

router = APIRouter(prefix=PREFIX, tags=["run"], route_class=OnceRoute)


@router.post("/run", dependencies=[MAY_RUN, IDEMPOTENT], operation_id="run")
async def run(asked: Run, domain: TheDomain, caller: TheCaller, request: Request) -> Result:
    """Nothing of the sandbox is left when this answers. A caller that goes first takes it along."""

    async def work() -> Result:
        async with running(domain, caller, asked, asked.settings, bool(data)) as one:
            return await collect(
                one.execution, data, most=asked.max_output_bytes, encoding=asked.encoding
            )

    data = asked.input_bytes()
    return await while_connected(request, work())


@router.post(
    "/run/stream",
    dependencies=[MAY_RUN],
    operation_id="runStream",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def run_stream(
    asked: RunStream, domain: TheDomain, caller: TheCaller, request: Request
) -> EventStream:
    """What it writes, while it does. These events cannot be resumed: the sandbox goes with who watches it."""
    data = asked.input_bytes()
    check_spec(caller, asked.settings.as_spec())
    one = running(domain, caller, asked, asked.settings, bool(data))
    return EventStream(_told(one, data, request.state.request_id))


async def _told(
    one: AbstractAsyncContextManager[Running], data: bytes, request_id: str
) -> AsyncGenerator[bytes, None]:
    last = b""
    try:
        async with one as run, aclosing(events(run.execution, request_id, input=data)) as following:
            async for told in following:
                # How it ended is told when nothing is left of it.
                if told.startswith(b"event: exit"):
                    last = told
                else:
                    yield told
    except CrucibleError as error:
        last = event("error", fields_of(error, request_id))
    yield last


@asynccontextmanager
async def running(
    domain: Domain, caller: Caller, asked: CommandBase, settings: Settings, wants_input: bool
) -> AsyncIterator[Running]:
    check_spec(caller, settings.as_spec())
    spec, _ = await labelled(domain, settings)

    async def furnish(held: Held) -> None:
        await domain.manager.hands.furnish(held, is_first=True)
        if spec.after_create:
            await first_steps(held)

    async with run_in_temporary(
        domain.manager,
        domain.executions,
        spec,
        asked.as_request(wants_input=wants_input),
        secrets=settings.given_secrets(),
        furnish=furnish,
        owner=caller.user,
    ) as run:
        yield run
