"""One connection from its request to its answer."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crucible.errors import BadSetting, CrucibleError
from crucible.sandbox.manager import Manager
from crucible.sandbox.service import progress
from crucible.sandbox.service.conversation import ClientGone, Conversation

if TYPE_CHECKING:
    from crucible.sandbox.executions import Executions
    from crucible.sandbox.service.commands import Commands
    from crucible.sandbox.service.lending import Lending
    from crucible.sandbox.service.lifecycle import Lifecycle
    from crucible.sandbox.service.transfers import Transfers
    from crucible.sandbox.snapshots import Snapshots

_VERBS = {
    "commands": frozenset(("run", "exec", "attach", "execs", "logs")),
    "lifecycle": frozenset(
        (
            "create", "start", "stop", "remove", "pause", "resume", "prune", "network", "snapshot",
            "snapshot_remove", "snapshot_export", "snapshot_import", "restore", "fork",
        )
    ),
    "lending": frozenset(("lend",)),
    "transfers": frozenset(
        (
            "tar_in", "tar_out", "read", "write", "stat", "tree", "baseline", "stats", "ports", "dial",
        )
    ),
}  # fmt: skip

# Without the client that asked they are given up. A start or a stop goes on, and a command gets a hangup.
_FOR_CLIENT = frozenset(
    (
        "run", "lend", "execs", "logs", "tar_in", "tar_out", "read", "write", "stat", "tree",
        "baseline", "stats", "ports",
    )
)  # fmt: skip

# What is not lost when the owner leaves: a client asks the next one to go on, or just asks again.
_OUTLIVES_US = frozenset(("exec", "attach", "logs", "dial", "ping", "status", "shutdown"))

REQUEST_S = 10.0

Verb = Callable[[dict[str, Any], Conversation], Coroutine[Any, Any, dict[str, Any]]]


class InternalError(CrucibleError):
    """A defect of ours. The traceback is in the owner's log."""

    code = "internal"


class Service:
    """All verbs over one manager."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.extra: dict[str, Verb] = {}
        self.unfinished = 0
        self._settled = asyncio.Condition()

    @cached_property
    def commands(self) -> Commands:
        from crucible.sandbox.service.commands import Commands

        return Commands(self.manager, self.executions)

    @cached_property
    def executions(self) -> Executions:
        from crucible.sandbox.executions import Executions

        return Executions(self.manager)

    @cached_property
    def snapshots(self) -> Snapshots:
        from crucible.sandbox.snapshots import Snapshots

        return Snapshots(self.manager)

    @cached_property
    def lifecycle(self) -> Lifecycle:
        from crucible.sandbox.service.lifecycle import Lifecycle

        return Lifecycle(self.manager, self.snapshots, self.executions)

    @cached_property
    def lending(self) -> Lending:
        from crucible.sandbox.service.lending import Lending

        return Lending(self.manager)

    @cached_property
    def transfers(self) -> Transfers:
        from crucible.sandbox.service.transfers import Transfers

        return Transfers(self.manager)

    def verb(self, name: str) -> Verb:
        """What answers a verb. Its module is loaded now: a `run` needs one of them, and no time to lose."""
        if name in self.extra:
            return self.extra[name]
        for source, names in _VERBS.items():
            if name in names:
                found: Verb = getattr(getattr(self, source), name)
                return found
        raise BadSetting(f"There is no verb {name[:80]!r}")

    async def serve(self, sock: socket.socket) -> None:
        client = await Conversation.over(sock)
        try:
            await self._answer(client)
        except ClientGone:
            pass
        except CrucibleError as error:
            await progress.told(client)
            await client.fail(error)
        except Exception as error:
            traceback.print_exc()
            await client.fail(InternalError(f"Crucible failed: {type(error).__name__}: {error}"))
        finally:
            await client.close()

    async def _answer(self, client: Conversation) -> None:
        request = await client.request(REQUEST_S)
        name = str(request.get("verb"))
        verb = self.verb(name)
        await client.accept()
        progress.listen(client)
        work = verb(request, client)
        async with self.counted() if name not in _OUTLIVES_US else nullcontext():
            answer = await (client.while_there(work) if name in _FOR_CLIENT else work)
        await progress.told(client)
        await client.succeed(answer)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Around work that would be lost if we left now."""
        self.unfinished += 1
        try:
            yield
        finally:
            self.unfinished -= 1
            async with self._settled:
                self._settled.notify_all()

    async def idle(self) -> None:
        """Returns when nothing is unfinished."""
        async with self._settled:
            await self._settled.wait_for(lambda: not self.unfinished)

    async def close(self) -> None:
        await self.executions.close()


async def refuse(sock: socket.socket, error: CrucibleError) -> None:
    """Tells a client why nothing can be served, whatever it asks for."""
    client = await Conversation.over(sock)
    await client.fail(error)
    await client.close()
