"""The verbs that change sandboxes: create to remove, pause and resume, snapshots and forks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.errors import BadSetting, SandboxMissing, WrongState
from crucible.sandbox import seeding
from crucible.sandbox.executions import Executions
from crucible.sandbox.manager import Manager
from crucible.sandbox.records import SandboxRecord, record_as_json
from crucible.sandbox.service.conversation import Conversation
from crucible.sandbox.service.images import with_image, with_labels
from crucible.sandbox.service.network import NetworkChange
from crucible.sandbox.service.requests import (
    field,
    given_secrets,
    name_field,
    optional,
    parse_spec,
)
from crucible.sandbox.snapshots import Snapshots

if TYPE_CHECKING:
    from crucible.network.secrets import Secret

_MOST_FORKS = 100
_LONGEST_GRACE_S = 3600


class Lifecycle:
    def __init__(self, manager: Manager, snapshots: Snapshots, executions: Executions) -> None:
        self._manager = manager
        self._snapshots = snapshots
        self._executions = executions

    async def create(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """The directory is copied in at the first start, when there is a disk to copy to."""
        name = name_field(request)
        source = optional(request, "host_directory", str)
        if source is not None:
            source = str(seeding.check_source(Path(source)))
        spec = parse_spec(field(request, "spec", dict))
        spec = await with_image(self._manager, spec, optional(request, "fallback_image", str))
        spec = await with_labels(self._manager, spec, request)
        record = await self._manager.create(
            name, spec, host_directory=source, secrets=given_secrets(request)
        )
        if request.get("start"):
            record = await self._start(name, client)
        return _answer(record)

    async def start(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        secrets = given_secrets(request)
        return _answer(await self._start(name_field(request), client, secrets))

    async def _start(
        self, name: str, client: Conversation, secrets: Sequence[Secret] = ()
    ) -> SandboxRecord:
        is_first = not self._manager.find(name).has_disk
        record = await self._manager.start(name, secrets=secrets)
        held = self._manager.held.get(record.id)
        if is_first and held is not None and record.spec.after_create:
            from crucible.sandbox.service.first_steps import take_first_steps

            with held.used():
                await take_first_steps(held, client)
        return record

    async def stop(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        grace_s = request.get("grace_s", 5)
        is_number = isinstance(grace_s, int | float) and not isinstance(grace_s, bool)
        if not is_number or not 0 <= grace_s <= _LONGEST_GRACE_S:
            raise BadSetting(f"{grace_s!r} is not a time to wait")
        return _answer(await self._manager.stop(name_field(request), grace_s=float(grace_s)))

    async def remove(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        await self._manager.remove(name_field(request), force=bool(request.get("force")))
        return {}

    async def pause(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        return _answer(await self._manager.pause(name_field(request)))

    async def resume(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        record = await self._manager.resume(name_field(request))
        held = self._manager.held.get(record.id)
        if held is not None:
            await self._executions.wake(held)
        return _answer(record)

    async def network(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """Shows the policy of a sandbox's network, changed as asked."""
        change = NetworkChange.parse(request)
        record = await self._manager.change_network(name_field(request), change.apply)
        return _answer(record)

    async def prune(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        """Removes every sandbox that is not running; one that is started meanwhile stays."""
        removed = []
        for record in self._manager.records.sandboxes():
            if record.state in ("created", "stopped", "broken") and not record.is_temporary:
                with contextlib.suppress(WrongState, SandboxMissing):
                    await self._manager.remove(record.name)
                    removed.append(record.name)
        return {"removed": removed}

    async def snapshot(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        taken = await self._snapshots.take(name_field(request), name_field(request, "tag"))
        return {"snapshot": record_as_json(taken)}

    async def snapshot_remove(
        self, request: dict[str, Any], client: Conversation
    ) -> dict[str, Any]:
        await self._snapshots.remove(name_field(request, "tag"))
        return {}

    async def snapshot_export(
        self, request: dict[str, Any], client: Conversation
    ) -> dict[str, Any]:
        await self._snapshots.export(name_field(request, "tag"), Path(field(request, "path", str)))
        return {}

    async def snapshot_import(
        self, request: dict[str, Any], client: Conversation
    ) -> dict[str, Any]:
        taken = await self._snapshots.take_in(
            Path(field(request, "path", str)), name_field(request, "tag")
        )
        return {"snapshot": record_as_json(taken)}

    async def restore(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        copy = await self._snapshots.restore(name_field(request, "tag"), name_field(request))
        await self._executions.take_over(copy)
        return _answer(copy.record)

    async def fork(self, request: dict[str, Any], client: Conversation) -> dict[str, Any]:
        names = request.get("names")
        if not isinstance(names, list) or not 1 <= len(names) <= _MOST_FORKS:
            raise BadSetting(f"A fork needs 1 to {_MOST_FORKS} names")
        copies = await self._snapshots.fork(name_field(request), [str(name) for name in names])
        for copy in copies:
            await self._executions.take_over(copy)
        return {"sandboxes": [record_as_json(copy.record) for copy in copies]}


def _answer(record: SandboxRecord) -> dict[str, Any]:
    return {"sandbox": record_as_json(record)}
