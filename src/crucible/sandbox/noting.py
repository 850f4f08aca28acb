"""What became of a sandbox, as a line of audit, and where it runs, as a word to who asked for it."""

from __future__ import annotations

from crucible.config import Config
from crucible.images.report import NOTICE, Report
from crucible.sandbox.machines import Machines
from crucible.sandbox.records import Records, SandboxRecord


class Notes:
    def __init__(
        self, *, config: Config, records: Records, machines: Machines, report: Report
    ) -> None:
        self._config = config
        self._records = records
        self._machines = machines
        self._report = report

    def audit(self, verb: str, record: SandboxRecord, **more: str) -> None:
        """One line about what became of a named sandbox."""
        told = {"id": record.id, "image": record.spec.image, "backend": record.backend,
                "isolation": record.isolation}  # fmt: skip
        self._records.write_audit(verb, record.name, {**told, **more}, owner=record.owner)

    def tell_place(self, record: SandboxRecord) -> None:
        """Who chose a provider is told what came of it. So is everybody whose sandbox is not on this host."""
        is_remote = self._machines.backend(record.backend).is_remote
        if is_remote or record.spec.provider or self._config.provider != "auto":
            self._report(
                NOTICE, f"provider: {record.placed} ({record.backend}, {record.isolation})"
            )
        if is_remote:
            told = {"backend": record.backend, "why": record.placed}
            self._records.write_audit("place", record.name, told, owner=record.owner)
