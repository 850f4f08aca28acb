"""The values of secrets, in this process's memory and nowhere else: when it ends, they are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from crucible.sandbox.records import SandboxRecord

if TYPE_CHECKING:
    from crucible.network.secrets import Secret
    from crucible.sandbox.doors.secrets import SandboxSecrets


class Values:
    def __init__(self) -> None:
        self._known: dict[str, dict[str, Secret]] = {}

    def __repr__(self) -> str:
        return "Values()"

    def learn(self, record_id: str, secrets: Sequence[Secret]) -> None:
        if secrets:
            self._known.setdefault(record_id, {}).update(
                {secret.name: secret for secret in secrets}
            )

    def share(self, record_id: str, copy_id: str) -> None:
        if record_id in self._known:
            self._known[copy_id] = dict(self._known[record_id])

    def forget(self, record_id: str) -> None:
        self._known.pop(record_id, None)

    def missing(self, record: SandboxRecord) -> tuple[str, ...]:
        known = self._known.get(record.id, {})
        names = [text.partition(":")[0] for text in record.spec.secrets]
        return tuple(name for name in names if name not in known)

    def of(self, record: SandboxRecord) -> SandboxSecrets | None:
        """For a sandbox that has secrets, with those of their values that are known."""
        if not record.spec.secrets:
            return None
        from crucible.sandbox.doors.secrets import SandboxSecrets

        given = list(self._known.get(record.id, {}).values())
        return SandboxSecrets.make(record.directory, record.name, given)
