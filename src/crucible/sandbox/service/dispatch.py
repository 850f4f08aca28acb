"""One connection from its request to its answer."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from crucible.errors import BadSetting, CrucibleError
from crucible.sandbox.manager import Manager
from crucible.sandbox.service import progress
from crucible.sandbox.service.commands import Commands
from crucible.sandbox.service.conversation import ClientGone, Conversation
from crucible.sandbox.service.lifecycle import Lifecycle
from crucible.sandbox.service.transfers import Transfers
from crucible.sandbox.snapshots import Snapshots

Verb = Callable[[dict[str, Any], Conversation], Awaitable[dict[str, Any]]]


class InternalError(CrucibleError):
    """A defect of ours. The traceback is in the owner's log."""

    code = "internal"


class Service:
    """All verbs over one manager."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.snapshots = Snapshots(manager)
        self.commands = Commands(manager)
        commands, lifecycle = self.commands, Lifecycle(manager, self.snapshots)
        transfers = Transfers(manager)
        sources = (
            (commands, ("run", "exec", "attach", "execs", "logs")),
            (
                lifecycle,
                (
                    "create", "start", "stop", "remove", "pause", "resume", "prune", "snapshot",
                    "snapshot_remove", "snapshot_export", "snapshot_import", "restore", "fork",
                ),
            ),
            (
                transfers,
                (
                    "tar_in", "tar_out", "read", "stat", "tree", "baseline", "stats", "ports",
                    "dial",
                ),
            ),
        )  # fmt: skip
        self.verbs: dict[str, Verb] = {
            name: getattr(source, name) for source, names in sources for name in names
        }

    async def serve(self, sock: socket.socket) -> None:
        client = await Conversation.over(sock)
        try:
            await self._answer(client)
        except ClientGone:
            pass
        except CrucibleError as error:
            await client.fail(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            traceback.print_exc()
            await client.fail(InternalError(f"Crucible failed: {type(error).__name__}: {error}"))
        finally:
            await client.close()

    async def _answer(self, client: Conversation) -> None:
        request = await client.request()
        verb = self.verbs.get(str(request.get("verb")))
        if verb is None:
            raise BadSetting(f"There is no verb {request.get('verb')!r}")
        progress.listen(client)
        await client.succeed(await verb(request, client))

    async def close(self) -> None:
        await self.commands.close()

