"""Whether sandboxes work as the user has them set: one is made, written to, run in, read from and removed."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from crucible.errors import CrucibleError, ProbeFailed
from crucible.sandbox.finishing import finish
from crucible.sandbox.records import SandboxRecord
from crucible.server.callers import Caller
from crucible.server.creating import create_sandbox
from crucible.server.domain import Domain
from crucible.server.following import collect
from crucible.server.models.commands import CommandBase
from crucible.server.models.sandboxes import NewSandbox, Settings
from crucible.server.problems import fields_of, from_exception
from crucible.server.routes.commands import start_command
from crucible.server.streaming import event

# Should we die on the way, it goes by itself.
_LIFE_S = 600.0
_COMMAND_S = 120.0
_MOST_OUTPUT = 4096
STAGES = ("create", "write", "run", "read", "remove")


async def probe(
    domain: Domain, caller: Caller, where: dict[str, str], request_id: str
) -> AsyncGenerator[bytes, None]:
    """`stage` when each begins and when it ends, then `done`. A failure is told in its stage, and ends the probe."""
    probing = _Probe(domain, caller, where)
    failed: CrucibleError | None = None
    try:
        for name in STAGES[:-1]:
            yield _stage(name, "running")
            began = time.monotonic()
            try:
                detail = await probing.stages[name]()
            except Exception as error:
                failed = from_exception(error)
                yield _stage(name, "failed", failed.message, began)
                break
            yield _stage(name, "done", detail, began)
        if probing.record is not None:
            yield _stage("remove", "running")
            began = time.monotonic()
            await probing.remove()
            yield _stage("remove", "done", "nothing of it is left", began)
    finally:
        await finish(probing.remove())
    yield event("done", _outcome(probing, failed, request_id))


class _Probe:
    def __init__(self, domain: Domain, caller: Caller, where: dict[str, str]) -> None:
        self._domain = domain
        self._caller = caller
        self._where = where
        self._path = f"/tmp/probe-{secrets.token_hex(8)}".encode()  # noqa: S108 - of the guest
        self._word = secrets.token_hex(16)
        self._is_removed = False
        self.record: SandboxRecord | None = None
        self.stages: dict[str, Callable[[], Awaitable[str]]] = {
            "create": self._create,
            "write": self._write,
            "run": self._run,
            "read": self._read,
        }

    async def remove(self) -> None:
        if self.record is not None and not self._is_removed:
            await self._domain.manager.remove(self.record.name, force=True)
            self._is_removed = True

    async def _create(self) -> str:
        settings = Settings.model_validate({**self._where, "network": "off", "ttl_s": _LIFE_S})
        self.record = await create_sandbox(
            self._domain, self._caller, NewSandbox(settings=settings)
        )
        return f"{self.record.isolation} by {self.record.backend}"

    async def _write(self) -> str:
        held = self._domain.manager.running(self._name)
        word = f"{self._word}\n".encode()
        size = await held.machine.files.write(self._path, word, owner=held.image.owner)
        return f"{size} bytes"

    async def _run(self) -> str:
        """What was written is read by a program of the sandbox, and added to."""
        path = self._path.decode()
        script = f'set -e; read -r word < {path}; echo "$word again" > {path}; uname -sr'
        asked = CommandBase(argv=["/bin/sh", "-c", script], timeout_s=_COMMAND_S)
        execution = await start_command(self._domain, self._name, asked, wants_input=False)
        result = await collect(execution, b"", most=_MOST_OUTPUT, encoding="utf-8")
        if result.exit.status:
            raise ProbeFailed(f"A command ended with status {result.exit.status}")
        return result.output.strip()[:200]

    async def _read(self) -> str:
        files = self._domain.manager.running(self._name).machine.files
        data = b"".join([piece async for piece in files.read(self._path, length=_MOST_OUTPUT)])
        if data.strip() != f"{self._word} again".encode():
            raise ProbeFailed("The sandbox has other contents than what its program wrote")
        return f"{len(data)} bytes, as they were written"

    @property
    def _name(self) -> str:
        assert self.record is not None  # noqa: S101 - it is made first
        return self.record.name


def _stage(name: str, state: str, detail: str = "", began: float | None = None) -> bytes:
    spent = None if began is None else round(time.monotonic() - began, 3)
    return event("stage", {"name": name, "state": state, "detail": detail, "duration_s": spent})


def _outcome(probing: _Probe, failed: CrucibleError | None, request_id: str) -> dict[str, Any]:
    record = probing.record
    return {
        "ok": failed is None,
        "isolation": str(record.isolation) if record is not None else "",
        "backend": record.backend if record is not None else "",
        "placed": record.placed if record is not None else "",
        "error": None if failed is None else fields_of(failed, request_id),
    }
