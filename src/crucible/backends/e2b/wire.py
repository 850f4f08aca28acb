"""What is said to the program inside a sandbox elsewhere, with the SDK's own client for it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine, Sequence
from typing import Any

from crucible.backends.e2b.promises import USUAL_USER, unsupported
from crucible.backends.e2b.sdk import REQUEST_S, Access, load, translated
from crucible.backends.e2b.starting import SHELL
from crucible.sandbox.session import Command, ExecInfo

TAG = "crucible-"
_BEAT_HEADER = {"Keepalive-Ping-Interval": "20"}
_OF_THE_SERVICE = {9: "SIGKILL", 15: "SIGTERM"}
_KILL = 'kill -"$1" -- "-$2" 2>/dev/null || kill -"$1" "$2"'
_KILL_S = 30.0


class Wire:
    """One sandbox's. `name` is what we call it."""

    def __init__(self, sandbox: Any, access: Access, name: str) -> None:
        self.access = access
        self.name = name
        self._sdk = load()
        config = sandbox.connection_config
        self._client = self._sdk.make_client(self._sdk.process_client, sandbox.envd_api_url, config)
        self._known: dict[int, Any] = {}
        self._gone: set[int] = set()
        self._soon: set[asyncio.Task[None]] = set()

    def start(self, arguments: Sequence[str], command: Command, stream: int) -> Any:
        pb = self._sdk.process
        size = pb.PTY.Size(cols=command.columns, rows=command.rows)
        headers = {**_BEAT_HEADER, **_as_user(command.user)}
        if command.timeout_s is not None:
            # For the service alone: the SDK's own clock would cut off what was written last.
            headers["Connect-Timeout-Ms"] = str(max(1, round(command.timeout_s * 1000)))
        return self._client.start(
            pb.StartRequest(
                process=pb.ProcessConfig(
                    cmd=SHELL,
                    args=list(arguments),
                    envs=_variables(command),
                    cwd=None if command.user == USUAL_USER else "/",
                ),
                pty=pb.PTY(size=size) if command.has_terminal else None,
                tag=f"{TAG}{stream}",
                stdin=command.wants_input or command.has_terminal,
            ),
            headers=headers,
        )

    def connect(self, stream: int) -> Any:
        request = self._sdk.process.ConnectRequest(process=self._selector(stream))
        return self._client.connect(request, headers=dict(_BEAT_HEADER))

    async def list_ours(self) -> list[ExecInfo]:
        with translated(self.access, self.name):
            answer = await self._client.list(
                self._sdk.process.ListRequest(), timeout_ms=_ms(REQUEST_S)
            )
        found = []
        for one in answer.processes:
            tag = one.tag if one.has_field("tag") else ""
            number = tag.removeprefix(TAG)
            is_ours = tag.startswith(TAG) and number.isdecimal() and len(number) < 11
            if is_ours and int(number) not in self._gone:
                found.append(
                    ExecInfo(
                        stream=int(number), pid=one.pid, is_done=False, started_ns=0, argv0=b""
                    )
                )
        return found

    async def send_input(self, stream: int, data: bytes, *, is_terminal: bool) -> None:
        """Without a deadline: a command may take its input when it likes."""
        pb, one_of = self._sdk.process, self._sdk.one_of
        given = pb.ProcessInput(input=one_of("pty" if is_terminal else "stdin", data))
        with translated(self.access, self.name):
            await self._client.send_input(
                pb.SendInputRequest(process=self._selector(stream), input=given)
            )

    async def close_input(self, stream: int) -> None:
        request = self._sdk.process.CloseStdinRequest(process=self._selector(stream))
        with translated(self.access, self.name):
            await self._client.close_stdin(request, timeout_ms=_ms(REQUEST_S))

    async def resize(self, stream: int, rows: int, columns: int) -> None:
        pb = self._sdk.process
        size = pb.PTY(size=pb.PTY.Size(cols=columns, rows=rows))
        with translated(self.access, self.name):
            await self._client.update(
                pb.UpdateRequest(process=self._selector(stream), pty=size),
                timeout_ms=_ms(REQUEST_S),
            )

    async def signal(self, stream: int, pid: int, number: int) -> None:
        """The service knows two signals; any other is sent by a program inside."""
        named = _OF_THE_SERVICE.get(number)
        if named is None:
            await self._kill(pid, number)
            return
        pb = self._sdk.process
        request = pb.SendSignalRequest(
            process=self._selector(stream), signal=getattr(pb.Signal, named)
        )
        with translated(self.access, self.name):
            await self._client.send_signal(request, timeout_ms=_ms(REQUEST_S))

    def is_deadline(self, error: Exception) -> bool:
        return isinstance(error, self._sdk.rpc) and error.code is self._sdk.codes.DEADLINE_EXCEEDED

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """For who cannot wait."""
        task = asyncio.get_running_loop().create_task(work)
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)

    def remember(self, process: Any) -> None:
        self._known[process.stream] = process

    def forgotten(self, stream: int) -> None:
        self._known.pop(stream, None)
        self._gone.add(stream)

    @property
    def known(self) -> list[Any]:
        """The commands of ours that were not forgotten, running or not."""
        return list(self._known.values())

    async def _kill(self, pid: int, number: int) -> None:
        pb = self._sdk.process
        request = pb.StartRequest(
            process=pb.ProcessConfig(cmd=SHELL, args=["-c", _KILL, "sh", str(number), str(pid)]),
            stdin=False,
        )
        with translated(self.access, self.name):
            events = self._client.start(request, headers=_as_user("root"), timeout_ms=_ms(_KILL_S))
            async for _ in events:
                pass

    def _selector(self, stream: int) -> Any:
        return self._sdk.process.ProcessSelector(selector=self._sdk.one_of("tag", f"{TAG}{stream}"))


def _as_user(user: str) -> dict[str, str]:
    """Where a web page's user would stand; without one the template's usual user is meant."""
    user = user or "root"
    if user == USUAL_USER:
        return {}
    if ":" in user or user.isdecimal():
        raise unsupported("knows users by their names only")
    try:
        word = base64.b64encode(f"{user}:".encode()).decode()
    except UnicodeEncodeError:
        raise unsupported("carries no names of users that are not text") from None
    return {"Authorization": f"Basic {word}"}


def _variables(command: Command) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in command.environment.items()}
    except UnicodeDecodeError:
        raise unsupported("carries no variables that are not text") from None


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
