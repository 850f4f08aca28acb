"""The verbs that change sandboxes: create to remove, pause and resume, snapshots and forks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crucible.errors import BadSetting
from crucible.sandbox import seeding
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import SandboxRecord, record_as_json
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.requests import field, optional, parse_spec
from crucible.sandbox.snapshots import Snapshots

_MOST_FORKS = 100


class Lifecycle:
    def __init__(self, manager: Manager, snapshots: Snapshots) -> None:
        self._manager = manager
        self._snapshots = snapshots

    async def create(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """The directory is copied in at the first start, when there is a disk to copy to."""
        name = field(request, "name", str)
        source = optional(request, "host_directory", str)
        if source is not None:
            source = str(seeding.check_source(Path(source)))
        spec = parse_spec(field(request, "spec", dict))
        record = await self._manager.create(name, spec, host_directory=source)
        if request.get("start"):
            record = await self._manager.start(name)
        return _answer(record)

    async def start(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return _answer(await self._manager.start(field(request, "name", str)))

    async def stop(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        grace_s = request.get("grace_s", 5)
        if not isinstance(grace_s, int | float) or not 0 <= grace_s <= 3600:
            raise BadSetting(f"{grace_s!r} is not a time to wait")
        return _answer(
            await self._manager.stop(field(request, "name", str), grace_s=float(grace_s))
        )

    async def remove(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        await self._manager.remove(field(request, "name", str), force=bool(request.get("force")))
        return {}

    async def pause(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return _answer(await self._manager.pause(field(request, "name", str)))

    async def resume(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return _answer(await self._manager.resume(field(request, "name", str)))

    async def prune(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """Removes every sandbox that is not running."""
        removed = []
        for record in self._manager.records.sandboxes():
            if record.state in ("created", "stopped", "broken") and not record.is_temporary:
                await self._manager.remove(record.name)
                removed.append(record.name)
        return {"removed": removed}

    async def snapshot(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        taken = await self._snapshots.take(field(request, "name", str), field(request, "tag", str))
        return {"snapshot": record_as_json(taken)}

    async def snapshot_remove(
        self, request: dict[str, Any], client: Conversation
    ) -> dict[str, Any]:
        await self._snapshots.remove(field(request, "tag", str))
        return {}

    async def snapshot_export(
        self, request: dict[str, Any], client: Conversation
    ) -> dict[str, Any]:
        await self._snapshots.export(field(request, "tag", str), Path(field(request, "path", str)))
        return {}

    async def snapshot_import(
        self, request: dict[str, Any], client: Conversation
    ) -> dict[str, Any]:
        taken = await self._snapshots.take_in(
            Path(field(request, "path", str)), field(request, "tag", str)
        )
        return {"snapshot": record_as_json(taken)}

    async def restore(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return _answer(
            await self._snapshots.restore(field(request, "tag", str), field(request, "name", str))
        )

    async def fork(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        names = request.get("names")
        if not isinstance(names, list) or not 1 <= len(names) <= _MOST_FORKS:
            raise BadSetting(f"A fork needs 1 to {_MOST_FORKS} names")
        records = await self._snapshots.fork(
            field(request, "name", str), [str(name) for name in names]
        )
        return {"sandboxes": [record_as_json(record) for record in records]}


def _answer(record: SandboxRecord) -> dict[str, Any]:
    return {"sandbox": record_as_json(record)}
