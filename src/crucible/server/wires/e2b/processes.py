"""`process.Process`: commands and terminals in a sandbox, started, followed, fed, signalled."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from crucible.errors import BadRequest, CrucibleError, DeadlineOver, GuestRefused
from crucible.sandbox.execution import Execution
from crucible.sandbox.service.requests import parse_command
from crucible.sandbox.session import Channel
from crucible.sandbox.watching import Watcher
from crucible.server.domain import domain_of
from crucible.server.wires.e2b import connect
from crucible.server.wires.e2b.answers import rpc_refusal
from crucible.server.wires.e2b.connect import Values
from crucible.server.wires.e2b.inside import Inside, inside_of

MOST_INPUT_BYTES = 1 << 30
_SIGNALS = {"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9, 15: 15, 9: 9}
_NAMES = {1: "hangup", 2: "interrupt", 9: "killed", 15: "terminated"}


async def start(request: Request, asked: Values) -> AsyncIterator[Values]:
    inside = await inside_of(request)
    process, terminal = asked.get("process"), asked.get("pty")
    if not isinstance(process, dict):
        raise BadRequest("The request has no process")
    held = inside.held
    size = _size(terminal) if terminal is not None else {}
    command = parse_command(
        {
            "argv": [process.get("cmd", ""), *(process.get("args") or [])],
            "environment": process.get("envs") or {},
            "workdir": inside.path(process.get("cwd") or inside.home).decode(errors="replace"),
            "user": inside.user,
            "terminal": terminal is not None,
            "wants_input": terminal is not None or asked.get("stdin", True) is True,
            "timeout_s": _timeout_s(request),
            **size,
        },
        held.record.spec,
        held.image,
        held.doors.variables,
    )
    execution = await domain_of(request).executions.start(held, command, is_detached=True)
    words = {
        "cmd": process.get("cmd"),
        "args": process.get("args") or [],
        "cwd": process.get("cwd"),
    }
    execution.note({"e2b": words, "tag": asked.get("tag")})
    return _events(execution, execution.watching())


async def reconnect(request: Request, asked: Values) -> AsyncIterator[Values]:
    """What it writes from now on: what it wrote before was for others."""
    execution = await _selected(request, asked)
    ends = execution.kept.ends if execution.kept is not None else None
    return _events(execution, execution.looking_on(dict(ends) if ends else None))


async def list_all(request: Request, _: Values) -> Values:
    inside = await inside_of(request)
    told = []
    for execution in domain_of(request).executions.running(inside.held.record):
        if execution.is_done:
            continue
        argv = execution.facts.get("argv") or [""]
        words = execution.facts.get("e2b") or {"cmd": argv[0], "args": argv[1:]}
        config = {key: value for key, value in words.items() if value is not None}
        one: Values = {"config": config, "pid": execution.pid}
        if execution.facts.get("tag"):
            one["tag"] = execution.facts["tag"]
        told.append(one)
    return {"processes": told}


async def send_input(request: Request, asked: Values) -> Values:
    execution = await _selected(request, asked)
    await execution.write(_input(asked.get("input")))
    return {}


async def close_stdin(request: Request, asked: Values) -> Values:
    await (await _selected(request, asked)).process.close_input()
    return {}


async def send_signal(request: Request, asked: Values) -> Values:
    number = _SIGNALS.get(asked.get("signal", ""))
    if number is None:
        raise BadRequest(f"The signal {str(asked.get('signal'))[:40]!r} is not one")
    await (await _selected(request, asked)).process.signal(number)
    return {}


async def update(request: Request, asked: Values) -> Values:
    execution = await _selected(request, asked)
    if asked.get("pty") is not None:
        size = _size(asked["pty"])
        await execution.process.resize(size["rows"], size["columns"])
    return {}


async def stream_input(request: Request) -> Response:
    """A stream from the client: which process, then its input, until the client ends it."""
    request.state.most_bytes = MOST_INPUT_BYTES
    execution: Execution | None = None
    held = bytearray()
    try:
        async for data in request.stream():
            held += data
            for message in connect.envelopes(held):
                if "start" in message:
                    execution = await _selected(request, message["start"])
                elif "data" in message and execution is not None:
                    await execution.write(_input(message["data"].get("input")))
    except CrucibleError as error:
        return rpc_refusal(error)
    body = connect.envelope({}) + connect.envelope({}, connect.LAST)
    return Response(body, media_type=connect.STREAM_TYPE)


async def _events(
    execution: Execution, watching: AbstractContextManager[Watcher]
) -> AsyncIterator[Values]:
    has_terminal = execution.facts.get("terminal") is True
    with watching as watcher:
        yield _event("start", {"pid": execution.pid})
        async for chunk in watcher.chunks():
            name = "stdout" if chunk.channel is Channel.OUTPUT else "stderr"
            data = base64.b64encode(chunk.data).decode()
            yield _event("data", {"pty" if has_terminal else name: data})
    exit = await execution.wait()
    if exit.timed_out:
        raise DeadlineOver
    if exit.signal is not None:
        name = _NAMES.get(exit.signal, str(exit.signal))
        yield _event(
            "end", {"exitCode": -1, "status": f"signal: {name}", "error": f"signal: {name}"}
        )
        return
    ended: Values = {
        "exitCode": exit.status,
        "exited": True,
        "status": f"exit status {exit.status}",
    }
    if exit.status:
        ended["error"] = ended["status"]
    yield _event("end", ended)


def _event(kind: str, values: Values) -> Values:
    return {"event": {kind: values}}


async def _selected(request: Request, asked: Any) -> Execution:
    inside: Inside = await inside_of(request)
    selector = asked.get("process") if isinstance(asked, dict) else None
    if not isinstance(selector, dict):
        raise BadRequest("The request says no process")
    pid, tag = selector.get("pid"), selector.get("tag")
    for execution in domain_of(request).executions.running(inside.held.record):
        is_it = execution.facts.get("tag") == tag if tag else execution.pid == pid
        if is_it and not execution.is_done:
            await execution.attach()
            return execution
    raise GuestRefused(
        "not-found", f"process with pid {pid} not found" if pid else "process not found"
    )


def _input(given: Any) -> bytes:
    data = (given.get("stdin") or given.get("pty") or "") if isinstance(given, dict) else None
    try:
        return base64.b64decode(data, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError):
        raise BadRequest("The input is not base64") from None


def _size(terminal: Any) -> dict[str, int]:
    size = terminal.get("size") if isinstance(terminal, dict) else None
    size = size if isinstance(size, dict) else {}
    rows, columns = size.get("rows", 24), size.get("cols", 80)
    if not all(isinstance(side, int) and 0 < side < 10_000 for side in (rows, columns)):
        raise BadRequest("The size of the terminal is not one")
    return {"rows": rows, "columns": columns}


def _timeout_s(request: Request) -> float | None:
    given = request.headers.get("connect-timeout-ms", "")
    if not given.isdecimal() or len(given) > 12 or int(given) == 0:
        return None
    return min(int(given) / 1000, 30 * 24 * 3600.0)


_P = "/process.Process/"
_BEAT: Values = {"event": {"keepalive": {}}}
routes: list[BaseRoute] = [
    connect.streaming(f"{_P}Start", start, _BEAT),
    connect.streaming(f"{_P}Connect", reconnect, _BEAT),
    connect.unary(f"{_P}List", list_all),
    connect.unary(f"{_P}SendInput", send_input),
    connect.unary(f"{_P}SendSignal", send_signal),
    connect.unary(f"{_P}CloseStdin", close_stdin),
    connect.unary(f"{_P}Update", update),
    Route(f"{_P}StreamInput", stream_input, methods=["POST"]),
]
