"""Code that is run in a sandbox's contexts: what one piece leaves behind, the next one finds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from crucible.errors import CrucibleError, DeadlineOver
from crucible.sandbox.holding import Held
from crucible.sandbox.interpreter.contexts import PYTHON, Context, Contexts
from crucible.sandbox.interpreter.events import Event, Finished, Printed, Raised, Shown
from crucible.server.auth import MAY_READ, MAY_RUN, TheDomain
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Name, Told, Variables
from crucible.server.models.commands import Timeout
from crucible.server.once import IDEMPOTENT, OnceRoute
from crucible.server.problems import fields_of
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.streaming import EventStream, event

router = APIRouter(prefix=PREFIX, tags=["code"], route_class=OnceRoute)

ContextId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,64}$")]


class NewContext(Asked):
    """A process of its own. Without a directory or a user they are those of the sandbox's commands."""

    language: Annotated[str, Field(max_length=63)] = PYTHON
    workdir: Annotated[str, Field(max_length=4096)] | None = None
    user: Annotated[str, Field(max_length=256)] | None = None
    environment: Variables = {}


class Code(Asked):
    """Without a context it is run in the sandbox's default one, which is made when it is first needed."""

    code: Annotated[str, Field(max_length=2 << 20)]
    context: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] | None = None
    environment: Variables = {}
    timeout_s: Timeout | None = Field(default=None, description="After it the code is interrupted")


class ContextFacts(Told):
    id: str
    language: str
    workdir: str

    @classmethod
    def of(cls, context: Context) -> ContextFacts:
        return cls(id=context.id, language=context.language, workdir=context.workdir)


class ContextList(Told):
    items: list[ContextFacts]


@router.post(
    "/sandboxes/{name}/code",
    dependencies=[MAY_RUN],
    operation_id="runCode",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def run_code(name: Name, asked: Code, domain: TheDomain, request: Request) -> EventStream:
    """`stdout`, `stderr`, `result` and `raised` as they come, then `end`. Who leaves before that interrupts it."""
    held = _held(domain, name)
    contexts = Contexts(held.machine)
    if asked.context is None:
        with held.used():
            context = await contexts.default(**_surroundings(held))
    running = contexts.run(asked.context or context.id, asked.code, asked.environment)
    return EventStream(_events(held, running, request.state.request_id, asked.timeout_s))


@router.post(
    "/sandboxes/{name}/contexts",
    status_code=201,
    dependencies=[MAY_RUN, IDEMPOTENT],
    operation_id="createContext",
)
async def create(name: Name, asked: NewContext, domain: TheDomain) -> ContextFacts:
    held = _held(domain, name)
    usual = _surroundings(held)
    with held.used():
        context = await Contexts(held.machine).create(
            language=asked.language,
            user=asked.user or usual["user"],
            workdir=asked.workdir or usual["workdir"],
            environment={**usual["environment"], **asked.environment},
        )
    return ContextFacts.of(context)


@router.get("/sandboxes/{name}/contexts", dependencies=[MAY_READ], operation_id="listContexts")
async def list_all(name: Name, domain: TheDomain) -> ContextList:
    found = await Contexts(_held(domain, name).machine).all()
    return ContextList(items=[ContextFacts.of(context) for context in found])


@router.post(
    "/sandboxes/{name}/contexts/{id}/interrupt",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="interruptContext",
)
async def interrupt(name: Name, id: ContextId, domain: TheDomain) -> None:
    await Contexts(_held(domain, name).machine).interrupt(id)


@router.post(
    "/sandboxes/{name}/contexts/{id}/restart", dependencies=[MAY_RUN], operation_id="restartContext"
)
async def restart(name: Name, id: ContextId, domain: TheDomain) -> ContextFacts:
    """The same context with nothing in it."""
    return ContextFacts.of(await Contexts(_held(domain, name).machine).restart(id))


@router.delete(
    "/sandboxes/{name}/contexts/{id}",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="removeContext",
)
async def remove(name: Name, id: ContextId, domain: TheDomain) -> None:
    await Contexts(_held(domain, name).machine).remove(id)


async def _events(
    held: Held,
    running: AsyncGenerator[Event, None],
    request_id: str,
    timeout_s: float | None,
) -> AsyncGenerator[bytes, None]:
    deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
    try:
        with held.used():
            while True:
                async with asyncio.timeout_at(deadline):
                    coming = await anext(running, None)
                if coming is None:
                    return
                yield _told(coming)
    except TimeoutError:
        yield event("error", fields_of(DeadlineOver(), request_id))
    except CrucibleError as error:
        yield event("error", fields_of(error, request_id))
    finally:
        await running.aclose()


def _told(one: Event) -> bytes:
    match one:
        case Printed(stream=stream, text=text):
            return event(stream, {"text": text})
        case Shown(forms=forms, is_main=is_main):
            return event("result", {"is_main": is_main, "forms": dict(forms)})
        case Raised(name=name, value=value, traceback=traceback):
            return event("raised", {"name": name, "value": value, "traceback": traceback})
        case Finished(count=count):
            return event("end", {"count": count})


def _surroundings(held: Held) -> dict[str, Any]:
    """What a command of the sandbox would have."""
    spec, image = held.record.spec, held.image
    usual = image.workspace if held.record.host_directory is not None else image.workdir
    return {
        "user": spec.user or image.user or "root",
        "workdir": spec.workdir or usual,
        "environment": {**dict(image.environment), **held.doors.variables, **spec.environment},
    }


def _held(domain: Domain, name: str) -> Held:
    held = domain.manager.running(name)
    held.touch()
    return held
