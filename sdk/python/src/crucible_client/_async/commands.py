"""Commands in a sandbox: run to their end, watched as they go, left to themselves and found again."""

from __future__ import annotations

import base64
import builtins
import signal as signals
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from crucible_client._async.http import AsyncHttp
from crucible_client._async.waiting import Told, sleep, tell
from crucible_client.errors import CommandLost, ConnectionLost, FellBehind
from crucible_client.events import Event
from crucible_client.reading import Reader
from crucible_client.results import CommandInfo, Exit, Output, Result

# What a shell would run is text; a program with its arguments is a list.
Words = str | Sequence[str]

USUAL_TIMEOUT_S = 600.0
USUAL_OUTPUT_BYTES = 16 << 20
_SHELL = ("/bin/sh", "-c")
_TRIES = 5
_LONGEST_WAIT_S = 600.0


class AsyncCommands:
    def __init__(self, http: AsyncHttp, path: str) -> None:
        self._http = http
        self._path = path

    async def run(
        self,
        command: Words,
        *,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        input: str | bytes | None = None,
        timeout_s: float | None = USUAL_TIMEOUT_S,
        image: str = "",
        on_stdout: Told | None = None,
        on_stderr: Told | None = None,
        max_output_bytes: int = USUAL_OUTPUT_BYTES,
    ) -> Result:
        """Runs a command to its end. One that fails is a result; `timeout_s` ends it, with status 124.

        Whoever is interrupted while this waits ends the command, too.
        """
        asked = described(command, environment, workdir, user, timeout_s, image)
        told = self._http.events(
            "POST", f"{self._path}/exec/stream", json={**asked, **with_input(input)}
        )
        return await collect(told, on_stdout, on_stderr, max_output_bytes)

    async def stream(
        self,
        command: Words,
        *,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        input: str | bytes | None = None,
        timeout_s: float | None = USUAL_TIMEOUT_S,
        image: str = "",
    ) -> AsyncGenerator[Output | Exit]:
        """What a command writes, as it does, and at last its Exit. Whoever stops listening ends it."""
        asked = described(command, environment, workdir, user, timeout_s, image)
        told = self._http.events(
            "POST", f"{self._path}/exec/stream", json={**asked, **with_input(input)}
        )
        async with aclosing(told) as following:
            async for event in following:
                if event.kind in ("output", "errors"):
                    yield Output.read(event.kind, event.data)
                elif event.kind == "exit":
                    yield _ending(event).exit
                    return
        raise _cut()

    async def start(
        self,
        command: Words,
        *,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        image: str = "",
        stdin: bool = False,
    ) -> AsyncCommand:
        """Starts a command that goes on by itself. With `stdin` it can be written to."""
        asked = described(command, environment, workdir, user, timeout_s, image)
        return await start_command(self._http, self._path, {**asked, "wants_input": stdin})

    async def list(self) -> builtins.list[CommandInfo]:
        """Those that run, and those that the sandbox's log still tells of."""
        told = await self._http.pages(f"{self._path}/commands")
        return [CommandInfo.read(one) for one in told]

    async def connect(self, id: int) -> AsyncCommand:
        """A command that was started before, by whomever."""
        told = await self._http.call("GET", f"{self._path}/commands/{int(id)}")
        return AsyncCommand(self._http, self._path, CommandInfo.read(told))

    async def kill(self, id: int) -> None:
        await self._http.call("DELETE", f"{self._path}/commands/{int(id)}")


class AsyncCommand:
    """A command that goes on by itself. Its output is kept: it can be read from the beginning, and again."""

    def __init__(self, http: AsyncHttp, path: str, info: CommandInfo) -> None:
        self._http = http
        self._path = f"{path}/commands/{info.id}"
        self.info = info

    @property
    def id(self) -> int:
        return self.info.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id}, argv={list(self.info.argv)!r})"

    async def stream(self) -> AsyncGenerator[Output | Exit]:
        """What it wrote and writes, and at last its Exit. Whoever stops listening does nothing to it.

        When the connection breaks, or the server tires of waiting for a slow reader, this goes on where it was.
        """
        async with aclosing(self._events()) as following:
            async for event in following:
                if event.kind in ("output", "errors"):
                    yield Output.read(event.kind, event.data)
                elif event.kind == "exit":
                    yield _ending(event).exit

    async def wait(
        self,
        *,
        on_stdout: Told | None = None,
        on_stderr: Told | None = None,
        max_output_bytes: int = USUAL_OUTPUT_BYTES,
    ) -> Result:
        """Waits for its end, and gives all that it wrote."""
        return await collect(self._events(), on_stdout, on_stderr, max_output_bytes)

    async def refresh(self, *, wait_s: float = 0.0) -> CommandInfo:
        """What is known of it now, or once it has ended or the time is over."""
        seconds = min(max(wait_s, 0.0), _LONGEST_WAIT_S)
        told = await self._http.call(
            "POST",
            f"{self._path}/wait",
            params={"timeout_s": seconds},
            timeout_s=self._http.timeout_s + seconds,
        )
        self.info = CommandInfo.read(told)
        return self.info

    async def write(self, data: str | bytes) -> None:
        """Input for it, if it was started with `stdin` or in a terminal."""
        await self._http.call("POST", f"{self._path}/input", content=_bytes(data))

    async def close_stdin(self) -> None:
        await self._http.call("POST", f"{self._path}/input", params={"end": True}, content=b"")

    async def send_signal(self, number: int) -> None:
        await self._http.call("POST", f"{self._path}/signal", json={"number": int(number)})

    async def interrupt(self) -> None:
        await self.send_signal(signals.SIGINT)

    async def kill(self) -> None:
        """A hangup, some time, the end. One that has ended already is left alone."""
        await self._http.call("DELETE", self._path)

    async def resize(self, *, rows: int, columns: int) -> None:
        """Of its terminal."""
        size = {"rows": rows, "columns": columns}
        await self._http.call("POST", f"{self._path}/resize", json=size)

    async def _events(self) -> AsyncGenerator[Event]:
        last: str | None = None
        failures = 0
        while True:
            try:
                told = self._http.events("GET", f"{self._path}/output", last=last)
                async with aclosing(told) as following:
                    async for event in following:
                        last = event.number or last
                        failures = 0 if event.number else failures
                        yield event
                        if event.kind == "exit":
                            return
                raise _cut()
            except (ConnectionLost, FellBehind):
                # Whoever reads slowly is sent away now and then, and comes back for the rest.
                failures += 1
                if failures >= _TRIES:
                    raise
                await sleep(0.2 * failures)


async def start_command(http: AsyncHttp, path: str, asked: Mapping[str, Any]) -> AsyncCommand:
    told = await http.call("POST", f"{path}/commands", json=asked, is_keyed=True)
    return AsyncCommand(http, path, CommandInfo.read(told))


async def collect(
    events: AsyncGenerator[Event], on_stdout: Told | None, on_stderr: Told | None, most: int
) -> Result:
    """All events of a command to its end; of each stream the first `most` bytes are kept."""
    kept = {"stdout": bytearray(), "stderr": bytearray()}
    sizes = {"stdout": 0, "stderr": 0}
    async with aclosing(events) as following:
        async for event in following:
            if event.kind in ("output", "errors"):
                output = Output.read(event.kind, event.data)
                sizes[output.stream] += len(output.data)
                room = most - len(kept[output.stream])
                kept[output.stream] += output.data[: max(room, 0)]
                await tell(on_stdout if output.stream == "stdout" else on_stderr, output.text)
            elif event.kind == "exit":
                ending = _ending(event)
                return Result(
                    exit=ending.exit,
                    limit=ending.limit,
                    stdout_bytes=bytes(kept["stdout"]),
                    stderr_bytes=bytes(kept["stderr"]),
                    stdout_truncated=sizes["stdout"] > most,
                    stderr_truncated=sizes["stderr"] > most,
                )
    raise _cut()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    exit: Exit
    limit: str


def _ending(event: Event) -> _Ending:
    reader = Reader(event.data)
    exit = reader.table_or_none("exit")
    if exit is None:
        raise CommandLost(
            "The sandbox ended before the command did, and nobody knows how that ended"
        )
    met = reader.table_or_none("limit")
    limit = "" if met is None else f"{met.get('name')} {met.get('value')}"[:200]
    return _Ending(exit=Exit.read(exit), limit=limit)


def described(
    command: Words,
    environment: Mapping[str, str] | None,
    workdir: str | None,
    user: str | None,
    timeout_s: float | None,
    image: str,
) -> dict[str, Any]:
    argv = [*_SHELL, command] if isinstance(command, str) else list(command)
    return {
        "argv": argv,
        "environment": dict(environment or {}),
        "workdir": workdir,
        "user": user,
        "timeout_s": timeout_s,
        "image": image,
    }


def with_input(input: str | bytes | None) -> dict[str, Any]:
    if input is None:
        return {}
    return {"input": base64.b64encode(_bytes(input)).decode(), "input_encoding": "base64"}


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _cut() -> ConnectionLost:
    return ConnectionLost("The server ended its answer before the command had ended")
