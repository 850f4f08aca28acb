"""What agentkernel's clients send and get, as its npm package has it, and what that is here."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import Field

from crucible.errors import BadSetting, Unsupported
from crucible.sandbox.doors.secrets import as_request
from crucible.sandbox.execution import Execution
from crucible.sandbox.executions import Past
from crucible.sandbox.expiry import expires_at
from crucible.sandbox.mounts import parse_volume
from crucible.sandbox.records import SandboxRecord, SnapshotRecord
from crucible.sandbox.spec import parse_environment
from crucible.server.models.base import Asked, Name, Text, Texts, Told
from crucible.server.models.commands import MOST_OUTPUT_BYTES, MOST_WORDS, ExecAndWait, NewCommand
from crucible.server.models.sandboxes import Settings
from crucible.server.wires.moments import moment
from crucible.server.wires.settings import settings_of

MOST_BATCH = 64
MOST_FILES = 1000

Words = Annotated[list[Text], Field(min_length=1, max_length=MOST_WORDS)]
ImageName = Annotated[str, Field(min_length=1, max_length=512)]
Profile = Literal["permissive", "moderate", "restrictive"]
Status = Literal["running", "paused", "stopped"]


class Run(Asked):
    """`fast` asks for a machine of a pool: one that is warm is always taken if there is one."""

    command: Words
    image: ImageName | None = None
    profile: Profile = "moderate"
    fast: bool = True


class BatchCommand(Asked):
    command: Words


class Batch(Asked):
    commands: Annotated[list[BatchCommand], Field(min_length=1, max_length=MOST_BATCH)]


class NewSandbox(Asked):
    name: Name
    image: ImageName = "base"
    vcpus: int | None = None
    memory_mb: int | None = None
    profile: Profile = "moderate"
    volumes: Texts = []
    secrets: Texts = []
    source_url: Text | None = None
    source_ref: Text | None = None
    secret_files: Texts = []

    def as_settings(self) -> Settings:
        """Raises Unsupported for what agentkernel can and we cannot."""
        if self.source_url or self.source_ref:
            raise Unsupported(
                "A repository is not cloned into a new sandbox",
                hint="Run `git clone` in it, with an image that has git",
            )
        if self.secret_files:
            raise Unsupported(
                "Secrets are never put into a sandbox as files",
                hint="Bind them to a host with `secrets`: NAME=VALUE:HOST",
            )
        given: dict[str, Any] = {"image": self.image, "profile": self.profile}
        if self.vcpus is not None:
            given["cpus"] = self.vcpus
        if self.memory_mb is not None:
            given["memory_mib"] = self.memory_mb
        if self.volumes:
            given["mounts"] = [str(parse_volume(text)) for text in self.volumes]
        if self.secrets:
            given["secrets"] = as_request(self.secrets, {})
        return settings_of(given)


class Exec(Asked):
    command: Words
    env: Texts = []
    workdir: Annotated[str, Field(max_length=4096)] | None = None
    sudo: bool = False

    def as_exec(self) -> ExecAndWait:
        return ExecAndWait(**self._as_command(), max_output_bytes=MOST_OUTPUT_BYTES)

    def as_detached(self) -> NewCommand:
        return NewCommand(**self._as_command())

    def _as_command(self) -> dict[str, Any]:
        return {
            "argv": self.command,
            "environment": parse_environment(self.env),
            "workdir": self.workdir,
            "user": "root" if self.sudo else None,
        }


class FileToWrite(Asked):
    content: str
    encoding: Literal["utf8", "base64"] = "utf8"

    def as_bytes(self) -> bytes:
        if self.encoding == "utf8":
            return self.content.encode(errors="replace")
        try:
            return base64.b64decode(self.content, validate=True)
        except (binascii.Error, ValueError):
            raise BadSetting("The content is not base64") from None


class FilesToWrite(Asked):
    files: Annotated[dict[Text, str], Field(min_length=1, max_length=MOST_FILES)]


class Extension(Asked):
    by: Annotated[str, Field(max_length=32)] = "1h"


class NewSnapshot(Asked):
    sandbox: Name
    name: Name | None = None


class Restore(Asked):
    as_name: Name | None = None


class Output(Told):
    """`output` is what it wrote to its standard output; agentkernel's own clients know that field alone.

    `truncated`: one of the two was longer than is carried, and ends early.
    """

    output: str
    stderr: str
    exit_code: int
    truncated: bool


class BatchResult(Told):
    output: str | None
    error: str | None


class BatchResults(Told):
    results: list[BatchResult]


class SandboxInfo(Told):
    name: str
    uuid: str
    status: Status
    backend: str
    isolation: str
    image: str
    vcpus: int
    memory_mb: int
    created_at: str
    expires_at: str | None

    @classmethod
    def of(cls, record: SandboxRecord) -> SandboxInfo:
        spec, end = record.spec, expires_at(record)
        status: Status = "stopped"
        if record.state in ("running", "paused"):
            status = "running" if record.state == "running" else "paused"
        return cls(
            name=record.name,
            uuid=record.id,
            status=status,
            backend=record.backend,
            isolation=record.isolation,
            image=spec.image,
            vcpus=spec.cpus,
            memory_mb=spec.memory_mib,
            created_at=moment(record.created_at),
            expires_at=None if end is None else moment(end),
        )


class Restored(SandboxInfo):
    sandbox: str
    from_snapshot: str


class Expiry(Told):
    expires_at: str | None


class FileContent(Told):
    content: str
    encoding: Literal["utf8", "base64"]
    size: int

    @classmethod
    def of(cls, data: bytes) -> FileContent:
        try:
            return cls(content=data.decode(), encoding="utf8", size=len(data))
        except UnicodeDecodeError:
            text = base64.b64encode(data).decode()
            return cls(content=text, encoding="base64", size=len(data))


class FilesWritten(Told):
    written: int


class Detached(Told):
    id: str
    sandbox: str
    command: list[str]
    pid: int
    status: Literal["running", "completed", "failed"]
    exit_code: int | None
    started_at: str

    @classmethod
    def of(cls, sandbox: str, command: Execution | Past) -> Detached:
        """One whose end nobody knows has failed."""
        exit = command.exit
        status: Literal["running", "completed", "failed"] = "failed"
        if isinstance(command, Execution) and not command.is_done:
            status = "running"
        elif exit is not None and exit.status == 0:
            status = "completed"
        return cls(
            id=str(command.stream),
            sandbox=sandbox,
            command=command.facts.get("argv") or [],
            pid=command.facts.get("pid") or 0,
            status=status,
            exit_code=None if exit is None else exit.status,
            started_at=moment(command.facts.get("at") or 0),
        )


class DetachedLogs(Told):
    stdout: str | None = None
    stderr: str | None = None


class Snapshot(Told):
    name: str
    sandbox: str
    image_tag: str
    backend: str
    base_image: str
    vcpus: int
    memory_mb: int
    created_at: str

    @classmethod
    def of(cls, record: SnapshotRecord) -> Snapshot:
        return cls(
            name=record.tag,
            sandbox=record.sandbox_name,
            image_tag=record.id,
            backend=record.backend,
            base_image=record.spec.image,
            vcpus=record.spec.cpus,
            memory_mb=record.spec.memory_mib,
            created_at=moment(record.created_at),
        )
