"""Commands in sandboxes that are made for them: one, one with its output told as it comes, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from crucible.errors import CrucibleError
from crucible.project.detection import DEFAULT_IMAGE, from_command
from crucible.project.settings import fallback_of
from crucible.sandbox.service.images import with_image
from crucible.sandbox.temporary import Run as Running
from crucible.server.auth import MAY_RUN, Caller, TheCaller, TheDomain
from crucible.server.domain import Domain
from crucible.server.following import collect
from crucible.server.models.commands import MOST_OUTPUT_BYTES, CommandBase, Result
from crucible.server.models.sandboxes import Settings
from crucible.server.routes.runs import running
from crucible.server.streaming import EventStream, event, while_connected
from crucible.server.wires.agentkernel.endings import (
    answer_of,
    ending_events,
    failure_of,
    told_at_last,
)
from crucible.server.wires.agentkernel.envelope import Envelope, told
from crucible.server.wires.agentkernel.models import Batch, BatchResult, BatchResults, Output, Run
from crucible.server.wires.explaining import explanation
from crucible.server.wires.settings import settings_of

router = APIRouter()

# Of one request; each is a machine.
MOST_AT_ONCE = 4


@router.post("/run", dependencies=[MAY_RUN], response_model=Envelope[Output])
async def run(asked: Run, domain: TheDomain, caller: TheCaller, request: Request) -> Response:
    return answer_of(await while_connected(request, _run(domain, caller, asked)))


@router.post("/run/stream", dependencies=[MAY_RUN], response_class=StreamingResponse)
async def run_stream(asked: Run, domain: TheDomain, caller: TheCaller) -> EventStream:
    return EventStream(_told(domain, caller, asked), last=told_at_last)


@router.post("/batch/run", dependencies=[MAY_RUN])
async def batch(
    asked: Batch, domain: TheDomain, caller: TheCaller, request: Request
) -> Envelope[BatchResults]:
    """Answers in the order of the commands. One that fails leaves the others alone."""
    room = asyncio.Semaphore(MOST_AT_ONCE)

    async def one(command: list[str]) -> BatchResult:
        async with room:
            return await _result(domain, caller, Run(command=command))

    async def all_of_them() -> list[BatchResult]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item.command)) for item in asked.commands]
        return [task.result() for task in tasks]

    return told(BatchResults(results=await while_connected(request, all_of_them())))


async def _result(domain: Domain, caller: Caller, asked: Run) -> BatchResult:
    try:
        result = await _run(domain, caller, asked)
    except CrucibleError as error:
        return BatchResult(output=None, error=explanation(error))
    if result.exit.status:
        return BatchResult(output=None, error=failure_of(result))
    return BatchResult(output=result.output, error=None)


async def _run(domain: Domain, caller: Caller, asked: Run) -> Result:
    async with await _opened(domain, caller, asked) as one:
        return await collect(one.execution, b"", most=MOST_OUTPUT_BYTES, encoding="utf-8")


async def _told(domain: Domain, caller: Caller, asked: Run) -> AsyncGenerator[bytes, None]:
    yield event("started", {"command": asked.command, "fast": asked.fast})
    last = b""
    try:
        async with (
            await _opened(domain, caller, asked) as one,
            aclosing(ending_events(one.execution)) as events,
        ):
            # Nobody keeps its output for who watches late: nothing is told before that has begun.
            executing = event("progress", {"stage": "executing", "sandbox": one.held.record.name})
            async for told_now in events:
                if executing:
                    yield executing
                    executing = b""
                # How it ended is told when nothing is left of it.
                if told_now.startswith(b"event: output"):
                    yield told_now
                else:
                    last = told_now
    except CrucibleError as error:
        last = told_at_last(error)
    yield last


async def _opened(
    domain: Domain, caller: Caller, asked: Run
) -> AbstractAsyncContextManager[Running]:
    command = CommandBase(argv=asked.command)
    settings = await _settings(domain, asked)
    return running(domain, caller, command, settings, False)


async def _settings(domain: Domain, asked: Run) -> Settings:
    """An image that is not named is guessed from the command, as `crucible run` does."""
    given = {"profile": asked.profile}
    if asked.image is not None:
        return settings_of({**given, "image": asked.image})
    guess = from_command(asked.command).image or DEFAULT_IMAGE
    guessed = settings_of({**given, "image": guess})
    spec = await with_image(domain.manager, guessed.as_spec(), fallback_of(guess))
    return settings_of({**given, "image": spec.image})
