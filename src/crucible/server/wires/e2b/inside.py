"""The inside of a sandbox as a request means it: its machine, its user, that user's home, and paths."""

from __future__ import annotations

import os
import posixpath

from starlette.requests import HTTPConnection

from crucible.errors import BadRequest, Forbidden, GuestRefused
from crucible.sandbox.holding import Held
from crucible.server.auth import allow
from crucible.server.domain import domain_of
from crucible.server.tokens import Scope
from crucible.server.wires.e2b.access import sandbox_of, user_of
from crucible.values import dataclass

MAX_ACCOUNTS = 1 << 20
LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    held: Held
    user: str
    home: str
    users: dict[int, str]
    groups: dict[int, str]

    def path(self, text: object) -> bytes:
        """Absolute as it is; else from the user's home on."""
        if not isinstance(text, str) or len(text) > LONGEST_PATH or "\0" in text:
            raise BadRequest("The path is not one")
        if text == "~" or text.startswith("~/"):
            text = self.home + text[1:]
        joined = posixpath.normpath(posixpath.join(self.home, text))
        return os.fsencode("/" + joined.lstrip("/"))


async def inside_of(connection: HTTPConnection) -> Inside:
    """Raises WrongState or SandboxMissing if there is no inside."""
    held = held_for(connection)
    user = user_of(connection) or held.record.spec.user or held.image.user or "root"
    accounts = await _lines(held, b"/etc/passwd")
    found = next((line for line in accounts if user in (line[0], line[2])), None)
    if found is None and user != "root":
        raise BadRequest(f"The sandbox has no user {user!r}")
    home = (
        found[5] if found is not None and len(found) > 5 and found[5].startswith("/") else "/root"
    )
    return Inside(
        held=held,
        user=user,
        home=home,
        users=_names(accounts),
        groups=_names(await _lines(held, b"/etc/group")),
    )


def held_for(connection: HTTPConnection) -> Held:
    """The sandbox that a request is for, if its caller may use that one."""
    record = sandbox_of(connection)
    caller = connection.state.caller
    if not caller.sandbox:
        allow(connection, Scope.RUN)
    elif caller.sandbox != record.id or not caller.scope.includes(Scope.RUN):
        # Whoever asked for a sandbox that was not there yet has shown nothing that opens it.
        raise Forbidden("What was sent with the request does not open this sandbox")
    held = domain_of(connection).manager.running(record.name)
    held.touch()
    return held


async def _lines(held: Held, path: bytes) -> list[list[str]]:
    data = bytearray()
    try:
        async for piece in held.machine.files.read(path, length=MAX_ACCOUNTS):
            data += piece
    except GuestRefused:
        return []
    lines = [line.split(":") for line in data.decode(errors="replace").splitlines()]
    return [line for line in lines if len(line) > 3]


def _names(lines: list[list[str]]) -> dict[int, str]:
    return {int(line[2]): line[0] for line in lines if line[2].isdecimal() and len(line[2]) < 12}
