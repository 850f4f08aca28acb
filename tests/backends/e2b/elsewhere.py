"""A provider to run sandboxes at: our own E2B wire over real HTTP, above machines that a test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from tests.server.scripted import PlayedProcess, Staged

from crucible.backends.e2b.backend import E2BBackend
from crucible.config import Config, Provider
from crucible.images.report import Report, silent
from crucible.sandbox.backend import Backend, Missing
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.machines import Machines
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import open_records
from crucible.sandbox.session import Channel

KEY_PREFIX = "e2b_"


def key_of(staged: Staged) -> str:
    return KEY_PREFIX + staged.token().encode().hex()


def access(staged: Staged, **changes: str) -> dict[str, str]:
    """The variables with which the SDK finds it."""
    return {
        "E2B_API_URL": f"{staged.url}/e2b",
        "E2B_SANDBOX_URL": f"{staged.url}/e2b",
        "E2B_API_KEY": key_of(staged),
        **changes,
    }


class Broken:
    """A machine of this host that does not work, for the reason given."""

    name = "broken"
    is_remote = False

    def __init__(self, why: str = "no such processor") -> None:
        self._why = why

    async def is_worth_trying(self) -> bool:
        return True

    async def isolation(self) -> Isolation:
        return Isolation.SOFTWARE_VM

    async def probe(self) -> Missing | None:
        return Missing(what=self._why, fix="mend it")


def manager_of(
    home: Path,
    environment: dict[str, str],
    *,
    local: object | None = None,
    provider: Provider = "remote_e2b",
    falls_back: bool = False,
    report: Report = silent,
) -> Manager:
    backends = [] if local is None else [cast(Backend, local)]
    return Manager(
        config=Config(home=home, pulls_images=False, provider=provider, falls_back=falls_back),
        records=open_records(home),
        machines=Machines(
            backends,
            remote=lambda: E2BBackend(environment),
            provider=provider,
            falls_back=falls_back,
        ),
        report=report,
    )


@asynccontextmanager
async def managing(
    home: Path, environment: dict[str, str], **given: object
) -> AsyncIterator[Manager]:
    manager = manager_of(home, environment, **given)  # type: ignore[arg-type]
    try:
        yield manager
    finally:
        for held in list(manager.held.values()):
            await manager.remove(held.record.name, force=True)
        manager.records.close()


def remote_names(staged: Staged) -> list[str]:
    """What the provider has."""
    return [record.name for record in staged.domain.manager.records.sandboxes()]


async def shell(process: PlayedProcess) -> int:
    """Plays the shell that begins a command, and then the command: `echo`, `cat`, `status N` or `sleep`."""
    words = [word.decode() for word in process.command.argv]
    mark, _, _, *argv = words[4:]
    if argv[0] == "nosuch":
        await process.say(f"{mark}not-found;".encode(), Channel.ERRORS)
        return 1
    await process.say(f"{mark}ok;".encode(), Channel.ERRORS)
    match argv:
        case ["echo", *rest]:
            await process.say(" ".join(rest).encode() + b"\n")
        case ["cat"]:
            while data := await process.hear():
                await process.say(data)
        case ["status", number]:
            return int(number)
        case ["sleep"]:
            return await process.for_ever()
        case ["flood"]:
            for _ in range(64):
                await process.say(bytes(64 << 10))
    return 0
