"""Directories that a client watches by asking now and then: changes are kept for it, up to a number."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from crucible.errors import CrucibleError, GuestRefused, Refused
from crucible.sandbox.session import Change, Watch

MOST_WATCHERS = 256
MOST_EVENTS = 10_000
EVENT_TYPES = {
    "created": "EVENT_TYPE_CREATE",
    "written": "EVENT_TYPE_WRITE",
    "removed": "EVENT_TYPE_REMOVE",
    "renamed": "EVENT_TYPE_RENAME",
    "attributes": "EVENT_TYPE_CHMOD",
}

Describe = Callable[[Change], Awaitable[dict[str, Any]]]


class Watchers:
    """Of a watcher that is never asked the oldest changes are dropped. It ends with its sandbox at the latest."""

    def __init__(self) -> None:
        self._watchers: dict[str, _Watcher] = {}

    def add(self, sandbox: str, watch: Watch, describe: Describe) -> str:
        for id, watcher in list(self._watchers.items()):
            if watcher.is_over:
                del self._watchers[id]
        if len(self._watchers) >= MOST_WATCHERS:
            raise Refused(f"There are {MOST_WATCHERS} watchers, the most")
        id = secrets.token_hex(8)
        self._watchers[id] = _Watcher(sandbox, watch, describe)
        return id

    def take(self, sandbox: str, id: object) -> list[dict[str, Any]]:
        return self._find(sandbox, id).take()

    async def remove(self, sandbox: str, id: object) -> None:
        await self._find(sandbox, id).close()
        del self._watchers[str(id)]

    def _find(self, sandbox: str, id: object) -> _Watcher:
        watcher = self._watchers.get(str(id))
        if watcher is None or watcher.sandbox != sandbox:
            raise GuestRefused("not-found", f"watcher with id {str(id)[:80]} not found")
        return watcher


class _Watcher:
    def __init__(self, sandbox: str, watch: Watch, describe: Describe) -> None:
        self.sandbox = sandbox
        self._watch = watch
        self._describe = describe
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self._following = asyncio.create_task(self._follow())

    @property
    def is_over(self) -> bool:
        return self._following.done()

    def take(self) -> list[dict[str, Any]]:
        events = list(self._events)
        self._events.clear()
        return events

    async def close(self) -> None:
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            with contextlib.suppress(CrucibleError):
                while (change := await self._watch.next()) is not None:
                    if change.kind != "overflow":
                        self._events.append(await self._describe(change))
        finally:
            await self._watch.close()
