"""The code interpreter: code run in contexts, each event a line of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from crucible.errors import BadRequest, CrucibleError
from crucible.sandbox.interpreter.contexts import PYTHON, Context, Contexts
from crucible.sandbox.interpreter.events import Event, Finished, Printed, Raised, Shown
from crucible.server.models.base import Text, Variables
from crucible.server.wires.e2b.inside import Inside, inside_of
from crucible.server.wires.e2b.models import Body, body_of

MOST_CODE_BYTES = 16 << 20
_FORMS = frozenset(
    "text,html,markdown,svg,png,jpeg,pdf,latex,json,javascript,data,chart".split(",")  # noqa: SIM905
)


class Execute(Body):
    code: str = Field(max_length=MOST_CODE_BYTES)
    context_id: Text | None = None
    language: Text | None = None
    env_vars: Variables | None = None


class NewContext(Body):
    language: Text | None = None
    cwd: Text | None = None


async def execute(request: Request) -> Response:
    request.state.most_bytes = MOST_CODE_BYTES
    asked = await body_of(request, Execute)
    if asked.context_id and asked.language:
        raise BadRequest("Only one of context_id or language can be provided")
    inside = await inside_of(request)
    contexts = Contexts(inside.held.machine)
    id = asked.context_id
    if id is None:
        if (asked.language or PYTHON).lower() != PYTHON:
            await contexts.create(
                user=inside.user, workdir=inside.home, language=asked.language or ""
            )
        id = (await _default(contexts, inside)).id
    running = contexts.run(id, asked.code, asked.env_vars)
    first = await anext(running)
    # Whoever leaves before the end interrupts the code.
    return StreamingResponse(_lines(inside, first, running), media_type="application/json")


async def create(request: Request) -> Response:
    asked = await body_of(request, NewContext)
    inside = await inside_of(request)
    workdir = inside.path(asked.cwd or inside.home).decode(errors="replace")
    context = await Contexts(inside.held.machine).create(
        user=inside.user,
        workdir=workdir,
        language=asked.language or PYTHON,
        environment=_variables(inside),
    )
    return JSONResponse(_described(context))


async def list_all(request: Request) -> Response:
    inside = await inside_of(request)
    contexts = Contexts(inside.held.machine)
    return JSONResponse([_described(context) for context in await contexts.all()])


async def restart(request: Request) -> Response:
    inside = await inside_of(request)
    await Contexts(inside.held.machine).restart(request.path_params["id"])
    return JSONResponse({"id": request.path_params["id"]})


async def remove(request: Request) -> Response:
    inside = await inside_of(request)
    await Contexts(inside.held.machine).remove(request.path_params["id"])
    return Response(status_code=204)


async def _lines(inside: Inside, first: Event, rest: Any) -> AsyncIterator[bytes]:
    try:
        with inside.held.used():
            yield _line(first)
            async for event in rest:
                yield _line(event)
    except CrucibleError as error:
        told = {
            "type": "error",
            "name": "ContextEnded",
            "value": error.message,
            "traceback": error.message,
        }
        yield json.dumps(told).encode() + b"\n"
    finally:
        await rest.aclose()


def _line(event: Event) -> bytes:
    match event:
        case Printed(stream=stream, text=text):
            told: dict[str, Any] = {"type": stream, "text": text, "timestamp": time.time_ns()}
        case Shown(forms=forms, is_main=is_main):
            known = {name: form for name, form in forms.items() if name in _FORMS}
            extra = {name: form for name, form in forms.items() if name not in _FORMS}
            told = {"type": "result", **known, "extra": extra, "is_main_result": is_main}
            told["text"] = _unquoted(known.get("text"))
        case Raised(name=name, value=value, traceback=traceback):
            told = {"type": "error", "name": name, "value": value, "traceback": traceback}
        case Finished(count=count):
            told = {"type": "number_of_executions", "execution_count": count}
    return json.dumps(told).encode() + b"\n"


def _unquoted(text: Any) -> Any:
    """The text of a text is told without its quotes."""
    is_quoted = isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


async def _default(contexts: Contexts, inside: Inside) -> Context:
    return await contexts.default(
        user=inside.user, workdir=inside.home, environment=_variables(inside)
    )


def _variables(inside: Inside) -> dict[str, str]:
    return {**inside.held.doors.variables, **inside.held.record.spec.environment}


def _described(context: Context) -> dict[str, str]:
    return {"id": context.id, "language": context.language, "cwd": context.workdir}


routes: list[BaseRoute] = [
    Route("/execute", execute, methods=["POST"]),
    Route("/contexts", create, methods=["POST"]),
    Route("/contexts", list_all, methods=["GET"]),
    Route("/contexts/{id}/restart", restart, methods=["POST"]),
    Route("/contexts/{id}", remove, methods=["DELETE"]),
]
