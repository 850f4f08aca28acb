"""A directory of a sandbox elsewhere that is watched, by the SDK's own verb."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

from crucible.backends.e2b.sdk import REQUEST_S, Access, translated
from crucible.errors import CrucibleError
from crucible.sandbox.session import Change, ChangeKind

MOST_WAITING: Final = 10_000
_KINDS: Final[dict[str, ChangeKind]] = {
    "create": "created",
    "write": "written",
    "remove": "removed",
    "rename": "renamed",
    "chmod": "attributes",
}


class E2BWatch:
    """A Watch. What nobody reads is dropped beyond a number, and told as an overflow."""

    def __init__(self, access: Access, name: str) -> None:
        self._access = access
        self._name = name
        self._changes: asyncio.Queue[Change | None] = asyncio.Queue()
        self._failure: BaseException | None = None
        self._is_overflowing = False
        self._handle: Any = None

    @classmethod
    async def open(
        cls, sandbox: Any, access: Access, name: str, path: str, *, recursive: bool
    ) -> E2BWatch:
        watch = cls(access, name)
        with translated(access, name):
            watch._handle = await sandbox.files.watch_dir(
                path,
                on_event=watch._take,
                on_exit=watch._end,
                request_timeout=REQUEST_S,
                timeout=0,
                recursive=recursive,
            )
        return watch

    async def next(self) -> Change | None:
        change = await self._changes.get()
        if change is None:
            self._changes.put_nowait(None)
            if isinstance(self._failure, CrucibleError):
                raise self._failure
            return None
        if change.kind == "overflow":
            self._is_overflowing = False
        return change

    async def close(self) -> None:
        await self._handle.stop()

    def _take(self, event: Any) -> None:
        kind = _KINDS.get(str(getattr(event.type, "value", event.type)))
        if kind is None or self._is_overflowing:
            return
        if self._changes.qsize() >= MOST_WAITING:
            self._is_overflowing = True
            self._changes.put_nowait(Change(kind="overflow", name=b""))
            return
        name = os.fsencode(event.name)
        if {b"", b".", b".."} & set(name.split(b"/")) or b"\0" in name:
            return
        self._changes.put_nowait(Change(kind=kind, name=name))

    def _end(self, error: BaseException | None = None) -> None:
        if isinstance(error, Exception):
            try:
                with translated(self._access, self._name):
                    raise error
            except CrucibleError as ours:
                self._failure = ours
        self._changes.put_nowait(None)
