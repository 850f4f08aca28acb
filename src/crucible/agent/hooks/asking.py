"""The three ways to ask a hook: a command, a request, a function of this program. Each within its time.

Whatever goes wrong is a HookFault, so that one policy decides about all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from crucible.agent.hooks.declared import Declared
from crucible.agent.hooks.points import LARGEST_CHANGE, Happening, HookFault
from crucible.agent.tools.wording import clean

GROUP = "crucible.hooks"
BLOCKS = 2
_ALWAYS = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
_MOST_REASON = 2000
_LARGEST_ANSWER = LARGEST_CHANGE + 4096

Function = Callable[[dict[str, Any]], Any]


async def ask_hook(hook: Declared, happening: Happening, environment: Mapping[str, str]) -> object:
    """The JSON it answered, or None. Raises HookFault, also when its time is over."""
    told = happening.as_json()
    try:
        async with asyncio.timeout(hook.timeout_s):
            match hook.way:
                case "command":
                    return await _ask_command(hook, told, environment)
                case "http":
                    return await _ask_over_http(hook, told, environment)
                case "python":
                    return await _ask_function(find_function(hook.target[0]), told)
    except TimeoutError:
        raise HookFault(f"it did not answer within {hook.timeout_s:g} s") from None


def find_function(name: str) -> Function:
    """By the name of an entry point of an installed package."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                found = point.load()
            except (Exception, SystemExit) as error:
                raise HookFault(f"{point.value} cannot be loaded: {error}") from error
            if not callable(found):
                raise HookFault(f"{point.value} cannot be called")
            function: Function = found
            return function
    raise HookFault(f"no installed package has an entry point {name!r} in the group {GROUP}")


async def _ask_command(
    hook: Declared, told: dict[str, Any], environment: Mapping[str, str]
) -> object:
    """Status 0: its answer is what it printed. Status 2: blocked, for the reason on its standard error."""
    names = (*_ALWAYS, *hook.environment)
    try:
        process = await asyncio.create_subprocess_exec(
            *hook.target,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: environment[name] for name in names if name in environment},
            start_new_session=True,
        )
    except OSError as error:
        raise HookFault(f"{hook.target[0]} cannot be started: {error.strerror}") from None
    try:
        output, errors = await _talk(process, json.dumps(told).encode())
    finally:
        _end_all(process)
        _let_go(process)
        await process.wait()
    status = process.returncode
    said = clean(errors).strip()[:_MOST_REASON]
    if status == BLOCKS:
        return {"block": said or "no reason given"}
    if status != 0:
        raise HookFault(f"it ended with status {status}{': ' if said else ''}{said}")
    return _parse(output)


async def _talk(process: asyncio.subprocess.Process, sent: bytes) -> tuple[bytes, bytes]:
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise HookFault("it has no pipes")

    async def feed() -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(sent)
            await stdin.drain()
        stdin.close()

    async def end() -> None:
        await _exited(process.pid)
        _end_all(process)

    async with asyncio.TaskGroup() as group:
        group.create_task(feed())
        group.create_task(end())
        output = group.create_task(_at_most(stdout))
        errors = group.create_task(_at_most(stderr))
    return output.result(), errors.result()


async def _exited(pid: int) -> None:
    """Its own end: `wait` would also wait for whoever has its pipes."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(watched, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _end_all(process: asyncio.subprocess.Process) -> None:
    """What it left running goes as well: nothing of a hook outlives its answer, or keeps us waiting for one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _let_go(process: asyncio.subprocess.Process) -> None:
    """Of its pipes: `wait` would not return while one is full, or held by a program that got away."""
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]
    for number in range(3):
        if (pipe := transport.get_pipe_transport(number)) is not None:
            pipe.close()


async def _at_most(stream: asyncio.StreamReader) -> bytes:
    """Its first bytes; the rest is read and dropped, so that it can end."""
    kept = bytearray()
    while piece := await stream.read(1 << 16):
        kept += piece[: max(0, _LARGEST_ANSWER + 1 - len(kept))]
    return bytes(kept)


async def _ask_over_http(
    hook: Declared, told: dict[str, Any], environment: Mapping[str, str]
) -> object:
    import httpx

    headers = {
        name: environment.get(variable, "") for name, variable in (hook.headers_env or {}).items()
    }
    try:
        async with (
            httpx.AsyncClient(timeout=hook.timeout_s, follow_redirects=False) as client,
            client.stream("POST", hook.target[0], json=told, headers=headers) as response,
        ):
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _LARGEST_ANSWER:
                    raise HookFault(f"it answered more than {_LARGEST_ANSWER} bytes")
            if not 200 <= response.status_code < 300:
                raise HookFault(f"it answered with status {response.status_code}")
    except httpx.HTTPError as error:
        raise HookFault(f"it cannot be reached: {type(error).__name__}") from None
    return _parse(bytes(body))


async def _ask_function(function: Function, told: dict[str, Any]) -> object:
    """One that waits itself is waited for; any other is called in a thread, which cannot be stopped."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(told)
        return await asyncio.to_thread(function, told)
    except TimeoutError:
        raise HookFault("it raised TimeoutError") from None
    except (Exception, SystemExit) as error:
        # One that ends itself as a command would is not to end the program that asked it.
        raise HookFault(f"it raised {type(error).__name__}: {error!s:.200}") from error


def _parse(body: bytes) -> object:
    if len(body) > _LARGEST_ANSWER:
        raise HookFault(f"it answered more than {_LARGEST_ANSWER} bytes")
    if not body.strip():
        return None
    try:
        found: object = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise HookFault("what it answered is no JSON") from None
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
