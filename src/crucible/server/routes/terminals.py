"""Terminals over WebSockets: binary messages are bytes of the terminal, text messages are JSON about it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, WebSocket, WebSocketDisconnect
from pydantic import Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketState

from crucible.errors import BadRequest, CrucibleError
from crucible.sandbox.execution import Execution
from crucible.sandbox.watching import Watcher
from crucible.server.auth import MAY_RUN, TheCaller, TheDomain
from crucible.server.callers import Caller
from crucible.server.domain import Domain
from crucible.server.models.base import Asked, Name, Told
from crucible.server.models.commands import CommandFacts, Ending, NewCommand, Side
from crucible.server.passage import CLOSED_UNKNOWN, passage_of
from crucible.server.problems import fields_of
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import CommandId, find_running, start_command
from crucible.server.tickets import LIFETIME_S

router = APIRouter(prefix=PREFIX, tags=["terminals"])

FIRST_S = 30.0
LAST_WORDS_S = 5.0
LARGEST_MESSAGE = 1 << 20


class Start(NewCommand):
    """The first message of a new terminal."""

    type: Literal["start"]
    on_disconnect: Literal["kill", "detach"] = "kill"


class Resize(Asked):
    type: Literal["resize"]
    rows: Side
    columns: Side


class Signal(Asked):
    type: Literal["signal"]
    number: Annotated[int, Field(ge=1, le=64)]


class End(Asked):
    """No more input comes."""

    type: Literal["end"]


class Detach(Asked):
    """The command is left to itself."""

    type: Literal["detach"]


_CONTROL: TypeAdapter[Resize | Signal | End | Detach] = TypeAdapter(
    Annotated[Resize | Signal | End | Detach, Field(discriminator="type")]
)


class Ticket(Told):
    """For one WebSocket at `path`, within `lifetime_s` seconds: `path?ticket=…`. It is good once."""

    ticket: str
    path: str
    lifetime_s: float


class _Left(Exception):
    """The caller wants to go and the command to stay."""


@router.post(
    "/sandboxes/{name}/terminal/tickets",
    status_code=201,
    dependencies=[MAY_RUN],
    operation_id="createTerminalTicket",
)
async def give_ticket(name: Name, domain: TheDomain, caller: TheCaller) -> Ticket:
    """For a browser, which cannot send a token with a WebSocket: opens one new terminal in this sandbox, once."""
    domain.manager.records.find(name)
    return _ticket(domain, caller, f"{PREFIX}/sandboxes/{name}/terminal")


@router.post(
    "/sandboxes/{name}/commands/{id}/terminal/tickets",
    status_code=201,
    dependencies=[MAY_RUN],
    operation_id="createJoiningTicket",
)
async def give_joining_ticket(
    name: Name, id: CommandId, domain: TheDomain, caller: TheCaller
) -> Ticket:
    """The same, to join a command that runs."""
    await find_running(domain, name, id)
    return _ticket(domain, caller, f"{PREFIX}/sandboxes/{name}/commands/{id}/terminal")


def _ticket(domain: Domain, caller: Caller, path: str) -> Ticket:
    ticket = domain.tickets.give(caller, path)
    return Ticket(ticket=ticket, path=path, lifetime_s=LIFETIME_S)


@router.websocket("/sandboxes/{name}/terminal", dependencies=[MAY_RUN])
async def open_terminal(socket: WebSocket, name: Name, domain: TheDomain) -> None:
    """Begins with a `start` message. The command gets a hangup when its caller goes, unless it asked otherwise."""
    async with _conversation(socket):
        asked = await _first(socket)
        execution = await start_command(
            domain, name, asked.model_copy(update={"terminal": True}), wants_input=True
        )
        try:
            await _while_let_in(socket, _talk(socket, execution, execution.watching()))
        except Exception:
            # Not when we are the ones who leave: then the command stays for who comes next.
            if asked.on_disconnect == "kill":
                await execution.hang_up()
            else:
                execution.note({"detached": True})
            raise


@router.websocket("/sandboxes/{name}/commands/{id}/terminal", dependencies=[MAY_RUN])
async def join_terminal(
    socket: WebSocket, name: Name, id: Annotated[int, Path(ge=1)], domain: TheDomain
) -> None:
    """Joins a command that runs: what it wrote so far, as far as it is kept, and what comes."""
    async with _conversation(socket):
        execution = await find_running(domain, name, id)
        await _while_let_in(socket, _talk(socket, execution, execution.looking_on()))


@contextlib.asynccontextmanager
async def _conversation(socket: WebSocket) -> Any:
    await socket.accept()
    try:
        yield
        if socket.application_state is WebSocketState.CONNECTED:
            await socket.close()
    except (WebSocketDisconnect, OSError, TimeoutError):
        return
    except CrucibleError as error:
        with contextlib.suppress(OSError, RuntimeError):
            told = fields_of(error, socket.state.request_id)
            await socket.send_json({"type": "error", "error": told})
            await socket.close(1008)


async def _first(socket: WebSocket) -> Start:
    async with asyncio.timeout(FIRST_S):
        message = await socket.receive_text()
    try:
        return Start.model_validate_json(message)
    except ValidationError as error:
        raise BadRequest(_told(error)) from None


async def _while_let_in(socket: WebSocket, talk: Coroutine[Any, Any, None]) -> None:
    """One who is let in no more has gone, also while nothing is read from them."""
    ending = asyncio.ensure_future(passage_of(socket).over())
    talking = asyncio.ensure_future(talk)
    try:
        await asyncio.wait({talking, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not talking.done():
            raise WebSocketDisconnect(CLOSED_UNKNOWN)
        talking.result()
    finally:
        ending.cancel()
        talking.cancel()
        await asyncio.gather(ending, talking, return_exceptions=True)


async def _talk(
    socket: WebSocket, execution: Execution, watching: AbstractContextManager[Watcher]
) -> None:
    """Until the command ends, or its caller leaves it to itself; raises if the caller is gone."""
    telling = asyncio.ensure_future(_tell(socket, execution, watching))
    listening = asyncio.ensure_future(_listen(socket, execution))
    try:
        await asyncio.wait({telling, listening}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done() and isinstance(telling.exception(), WebSocketDisconnect):
            # That the caller is gone was met by telling it something. What it said before it went lies unread:
            # that the command is to stay, perhaps.
            await asyncio.wait({listening}, timeout=LAST_WORDS_S)
            (listening if listening.done() else telling).result()
        (telling if telling.done() else listening).result()
    except _Left:
        execution.note({"detached": True})
    finally:
        telling.cancel()
        listening.cancel()
        await asyncio.gather(telling, listening, return_exceptions=True)


async def _tell(
    socket: WebSocket, execution: Execution, watching: AbstractContextManager[Watcher]
) -> None:
    facts = CommandFacts.of(execution).model_dump(mode="json")
    await socket.send_json({"type": "started", "command": facts})
    with watching as watcher:
        async for chunk in watcher.chunks():
            await socket.send_bytes(chunk.data)
    ending = Ending.of(await execution.wait())
    await socket.send_json({"type": "exit", "exit": ending.model_dump(mode="json")})


async def _listen(socket: WebSocket, execution: Execution) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        if (data := message.get("bytes")) is not None:
            await execution.write(data)
        elif (text := message.get("text")) is not None:
            await _control(execution, text)


async def _control(execution: Execution, text: str) -> None:
    try:
        asked = _CONTROL.validate_json(text)
    except ValidationError as error:
        raise BadRequest(_told(error)) from None
    match asked:
        case Resize():
            await execution.process.resize(asked.rows, asked.columns)
        case Signal():
            await execution.process.signal(asked.number)
        case End():
            await execution.process.close_input()
        case Detach():
            raise _Left


def _told(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
