"""The contexts of one sandbox. Each is a process in it that lives on by itself, also in copies of the machine.

Nothing is remembered here: what contexts there are is read from the sandbox each time.
So whoever holds it next finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from importlib.resources import files
from typing import Any, Final
from weakref import WeakKeyDictionary

from crucible.errors import (
    CommandNotFound,
    ContextMissing,
    GuestRefused,
    InterpreterFailed,
    LanguageUnknown,
)
from crucible.sandbox.interpreter import conversation
from crucible.sandbox.interpreter.events import Event
from crucible.sandbox.session import ByteStream, Command, Session
from crucible.values import dataclass

PLACE: Final = b"/run/crucible/contexts"
PROGRAMS: Final = ("kernel.py", "display.py", "charts.py")
PYTHON: Final = "python"
MAX_ADDRESS: Final = 65_536
MAX_CONTEXTS: Final = 64
START_S: Final = 60.0
ANSWER_S: Final = 10.0
_ID: Final = re.compile(r"[a-z0-9-]{1,64}\Z")
# Two who ask for the default context of a new sandbox at once get the same one.
_making: Final[WeakKeyDictionary[Session, asyncio.Lock]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    id: str
    language: str
    workdir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    context: Context
    user: str
    port: int
    pid: int
    token: str
    environment: Mapping[str, str]


class Contexts:
    """`default` makes the context that code goes to which names none, and finds it again."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(
        self,
        *,
        user: str,
        workdir: str,
        language: str = PYTHON,
        environment: Mapping[str, str] | None = None,
        id: str | None = None,
    ) -> Context:
        if language.lower() not in (PYTHON, "python3"):
            raise LanguageUnknown(language)
        if id is None and len(await self._ids()) >= MAX_CONTEXTS:
            raise InterpreterFailed(f"The sandbox has {MAX_CONTEXTS} contexts, the most")
        context = Context(id=id or secrets.token_hex(16), language=PYTHON, workdir=workdir)
        await self._send_programs()
        await self._session.files.mkdir(_place(context.id), mode=0o700, owner=user)
        facts = {
            "id": context.id,
            "workdir": workdir,
            "user": user,
            "token": secrets.token_urlsafe(32),
            "environment": dict(environment or {}),
        }
        try:
            await self._start(context, facts)
        except BaseException:
            with contextlib.suppress(GuestRefused):
                await self._session.files.remove(_place(context.id), recursive=True)
            raise
        return context

    async def default(
        self, *, user: str, workdir: str, environment: Mapping[str, str] | None = None
    ) -> Context:
        """Made again if it has ended."""
        async with _making.setdefault(self._session, asyncio.Lock()):
            with contextlib.suppress(ContextMissing):
                address = await self._find("default")
                if await self._answers(address):
                    return address.context
                await self.remove("default")
            return await self.create(
                user=user, workdir=workdir, environment=environment, id="default"
            )

    async def all(self) -> list[Context]:
        found = []
        for id in await self._ids():
            with contextlib.suppress(ContextMissing):
                found.append((await self._find(id)).context)
        return found

    async def run(
        self, id: str, code: str, environment: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Event, None]:
        """Runs code and tells what it does. Whoever stops listening interrupts it."""
        address = await self._find(id)
        request = {"do": "run", "code": code, "env": dict(environment or {})}
        stream = await self._ask(address, request)
        try:
            async for event in conversation.events(stream):
                yield event
        finally:
            await stream.close()

    async def interrupt(self, id: str) -> None:
        stream = await self._ask(await self._find(id), {"do": "interrupt"})
        await stream.read()
        await stream.close()

    async def restart(self, id: str) -> Context:
        """The same context with nothing in it."""
        address = await self._find(id)
        await self.remove(id)
        return await self.create(
            user=address.user,
            workdir=address.context.workdir,
            environment=address.environment,
            id=id,
        )

    async def remove(self, id: str) -> None:
        address = await self._find(id)
        kill = Command(argv=[b"kill", b"-9", b"--", b"%d" % -address.pid], user="")
        with contextlib.suppress(CommandNotFound):
            await self._session.run(_in_shell(kill))
        await self._session.files.remove(_place(id), recursive=True)

    async def _start(self, context: Context, facts: dict[str, Any]) -> None:
        command = Command(
            argv=[b"python3", PLACE + b"/kernel.py", _place(context.id)],
            environment={
                key.encode(): value.encode() for key, value in facts["environment"].items()
            },
            workdir=context.workdir.encode(),
            user=facts["user"],
            timeout_s=START_S,
        )
        try:
            done = await self._session.run(command, input=json.dumps(facts).encode())
        except CommandNotFound:
            raise InterpreterFailed(
                "The sandbox has no python3, which contexts need",
                hint="Use an image that has it, such as the base image",
            ) from None
        if done.exit.status:
            last = done.errors.decode(errors="replace").strip().splitlines()[-1:]
            raise InterpreterFailed(f"A context could not be started: {''.join(last)[:300]}")

    async def _send_programs(self) -> None:
        programs = files("crucible.sandbox.interpreter").joinpath("inside")
        for name in PROGRAMS:
            await self._session.files.write(
                PLACE + b"/" + name.encode(),
                programs.joinpath(name).read_bytes(),
                make_parents=True,
            )

    async def _ids(self) -> list[str]:
        try:
            entries = await self._session.files.list(PLACE)
        except GuestRefused:
            return []
        names = (
            entry.name.decode("ascii", "replace") for entry in entries if entry.type == "directory"
        )
        return sorted(name for name in names if _ID.match(name))[:MAX_CONTEXTS]

    async def _find(self, id: str) -> _Address:
        if not _ID.match(id):
            raise ContextMissing(id)
        held = bytearray()
        try:
            async for piece in self._session.files.read(
                _place(id) + b"/address", length=MAX_ADDRESS
            ):
                held += piece
        except GuestRefused:
            raise ContextMissing(id) from None
        return _address(id, bytes(held))

    async def _ask(self, address: _Address, request: dict[str, Any]) -> ByteStream:
        request = {"token": address.token, **request}
        return await conversation.ask(self._session, address.context.id, address.port, request)

    async def _answers(self, address: _Address) -> bool:
        """A process that is ending may still have its door open, so that a connection alone proves nothing."""
        try:
            stream = await self._ask(address, {"do": "greet"})
        except ContextMissing:
            return False
        try:
            async with asyncio.timeout(ANSWER_S):
                return bool(await stream.read())
        except ConnectionResetError:
            return False
        except TimeoutError:
            # Code that lets no other thread run keeps it silent; a child that has its door may outlive it.
            return await self._exists(address.pid)
        finally:
            await stream.close()

    async def _exists(self, pid: int) -> bool:
        try:
            await self._session.files.stat(b"/proc/%d" % pid)
        except GuestRefused:
            return False
        return True


def _place(id: str) -> bytes:
    return PLACE + b"/" + id.encode()


def _in_shell(command: Command) -> Command:
    """`kill` is a word of every shell, and a program of few images."""
    return Command(argv=[b"/bin/sh", b"-c", b" ".join(command.argv)], user=command.user)


def _address(id: str, data: bytes) -> _Address:
    """The file is the sandbox's: all that it says is checked."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    match said:
        case {
            "workdir": str(workdir), "user": str(user), "token": str(token),
            "port": int(port), "pid": int(pid), "environment": dict(environment),
        } if 0 < port < 65_536 and pid > 1:  # fmt: skip
            return _Address(
                context=Context(id=id, language=PYTHON, workdir=workdir),
                user=user,
                port=port,
                pid=pid,
                token=token,
                environment={str(key): str(value) for key, value in environment.items()},
            )
    raise ContextMissing(id)
