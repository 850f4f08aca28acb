"""What a server tells, as values with names. All of it is checked for shape when it is read."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

from crucible_client import errors
from crucible_client.reading import Reader

Stream = Literal["stdout", "stderr"]
EntryType = Literal["file", "directory", "symlink", "other"]
ChangeKind = Literal["created", "written", "removed", "renamed", "attributes", "overflow"]
_SHOWN_OUTPUT = 400


class SecretValue(TypedDict, total=False):
    """Goes into requests to its host and never into the sandbox."""

    name: str
    value: str
    host: str
    header: str


class Settings(TypedDict, total=False):
    """What a sandbox is made of; what is not given is as `crucible create` has it."""

    images: Mapping[str, str]
    memory_mib: int
    cpus: int
    disk_mib: int
    backend: str
    min_isolation: str
    environment: Mapping[str, str]
    workdir: str
    user: str
    profile: str
    network: Literal["off", "allowlist", "full"]
    allow: Sequence[str]
    deny: Sequence[str]
    ports: Sequence[str]
    secrets: Sequence[SecretValue]
    mounts: Sequence[str]
    include_credentials: bool
    after_create: Sequence[str]
    processes: int
    output_mib: int
    connections: int
    idle_timeout_s: float
    read_only: bool
    drop_capabilities: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """`isolation` is the boundary that is really used; `note` says why it is in this state, if that needs a word."""

    id: str
    name: str
    state: str
    image: str
    image_digest: str
    backend: str
    isolation: str
    created_at: float
    started_at: float | None
    note: str
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, told: Any) -> SandboxInfo:
        reader = Reader(told)
        settings = reader.table("settings")
        image = settings.get("image", "")
        return cls(
            id=reader.text("id"),
            name=reader.text("name"),
            state=reader.text("state"),
            image=image if isinstance(image, str) else "",
            image_digest=reader.text("image_digest"),
            backend=reader.text("backend"),
            isolation=reader.text("isolation"),
            created_at=reader.number("created_at"),
            started_at=reader.number_or_none("started_at"),
            note=reader.text("note"),
            settings=settings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Some bytes of a command, in the order in which they were written to that stream."""

    stream: Stream
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")

    @classmethod
    def read(cls, kind: str, told: Mapping[str, Any]) -> Output:
        reader = Reader(told)
        stream: Stream = "stdout" if kind == "output" else "stderr"
        if "text" in told:
            return cls(stream=stream, data=reader.text("text").encode(errors="replace"))
        try:
            return cls(stream=stream, data=base64.b64decode(reader.text("base64"), validate=True))
        except (binascii.Error, ValueError):
            raise errors.BadAnswer("The server's output is not base64") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a command ended. `status` follows the shell: 128 + signal, 124 when its time was over."""

    status: int
    signal: int | None
    timed_out: bool
    out_of_memory: bool
    wall_s: float
    cpu_s: float
    peak_bytes: int

    @classmethod
    def read(cls, told: Any) -> Exit:
        reader = Reader(told)
        return cls(
            status=reader.whole("status"),
            signal=reader.whole_or_none("signal"),
            timed_out=reader.claim("timed_out"),
            out_of_memory=reader.claim("out_of_memory"),
            wall_s=reader.number("wall_s"),
            cpu_s=reader.number("cpu_s"),
            peak_bytes=reader.whole("peak_bytes"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A command that has ended, and what it wrote: of each stream as much as was asked for."""

    exit: Exit
    stdout_bytes: bytes
    stderr_bytes: bytes
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    limit: str = ""

    @property
    def exit_code(self) -> int:
        return self.exit.status

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")

    @property
    def ok(self) -> bool:
        return self.exit.status == 0

    def check(self) -> Result:
        """Itself, if it succeeded; raises CommandFailed."""
        if self.ok:
            return self
        said = (self.stderr or self.stdout).strip()[-_SHOWN_OUTPUT:]
        why = f"; {self.limit}" if self.limit else ""
        raise errors.CommandFailed(
            f"The command ended with status {self.exit_code}{why}{': ' if said else ''}{said}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInfo:
    """`state` is `lost` when its sandbox ended first, and nobody knows how it ended."""

    id: int
    argv: Sequence[str]
    user: str
    terminal: bool
    started_at: float | None
    state: str
    exit: Exit | None

    @classmethod
    def read(cls, told: Any) -> CommandInfo:
        reader = Reader(told)
        exit = reader.table_or_none("exit")
        return cls(
            id=reader.whole("id"),
            argv=reader.texts("argv"),
            user=reader.text("user"),
            terminal=reader.claim("terminal"),
            started_at=reader.number_or_none("started_at"),
            state=reader.text("state"),
            exit=None if exit is None else Exit.read(exit),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """`target` is where a symbolic link leads."""

    name: str
    type: EntryType
    mode: int
    size: int
    modified_at: float
    uid: int
    gid: int
    target: str

    @property
    def is_directory(self) -> bool:
        return self.type == "directory"

    @classmethod
    def read(cls, told: Any) -> FileEntry:
        reader = Reader(told)
        return cls(
            name=reader.text("name"),
            type=reader.one_of("type", ("file", "directory", "symlink", "other")),
            mode=reader.whole("mode"),
            size=reader.whole("size"),
            modified_at=reader.number("modified_at"),
            uid=reader.whole("uid"),
            gid=reader.whole("gid"),
            target=reader.text("target"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A rename is told of the old name; the new one is created. After an overflow some changes were not told."""

    kind: ChangeKind
    name: str

    @classmethod
    def read(cls, told: Any) -> FileChange:
        reader = Reader(told)
        kinds: tuple[ChangeKind, ...] = (
            "created", "written", "removed", "renamed", "attributes", "overflow",
        )  # fmt: skip
        return cls(kind=reader.one_of("kind", kinds), name=reader.text("name"))


class PublishedPort(NamedTuple):
    """A port of the sandbox, and where the server's machine passes it on."""

    guest: int
    address: str
    host: int

    @property
    def url(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{address}:{self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortList:
    listening: Sequence[int]
    published: Sequence[PublishedPort]

    @classmethod
    def read(cls, told: Any) -> PortList:
        reader = Reader(told)
        return cls(
            listening=[Reader({"port": one}).whole("port") for one in reader.items("listening")],
            published=[
                PublishedPort(one.whole("guest"), one.text("address"), one.whole("host"))
                for one in map(Reader, reader.items("published"))
            ],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    tag: str
    id: str
    sandbox: str
    image: str
    created_at: float

    @classmethod
    def read(cls, told: Any) -> Snapshot:
        reader = Reader(told)
        return cls(
            tag=reader.text("tag"),
            id=reader.text("id"),
            sandbox=reader.text("sandbox"),
            image=reader.text("image"),
            created_at=reader.number("created_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    mode: str
    allow: Sequence[str]
    deny: Sequence[str]

    @classmethod
    def read(cls, told: Any) -> NetworkPolicy:
        reader = Reader(told)
        return cls(mode=reader.text("mode"), allow=reader.texts("allow"), deny=reader.texts("deny"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A process that runs one piece of code after the other; what one leaves behind, the next one finds."""

    id: str
    language: str
    workdir: str

    @classmethod
    def read(cls, told: Any) -> Context:
        reader = Reader(told)
        names = ("id", "language", "workdir")
        return cls(**{name: reader.text(name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """A value that code showed, in the forms it has. `is_main`: it is that of the last expression."""

    is_main: bool
    forms: Mapping[str, Any]

    @property
    def text(self) -> str | None:
        return self._form("text")

    @property
    def html(self) -> str | None:
        return self._form("html")

    @property
    def markdown(self) -> str | None:
        return self._form("markdown")

    @property
    def svg(self) -> str | None:
        return self._form("svg")

    @property
    def png(self) -> bytes | None:
        return self._picture("png")

    @property
    def jpeg(self) -> bytes | None:
        return self._picture("jpeg")

    @property
    def json(self) -> Any:
        return self.forms.get("json")

    @property
    def chart(self) -> Mapping[str, Any] | None:
        """The figures behind a plot: its type, title, axes and elements."""
        found = self.forms.get("chart")
        return found if isinstance(found, dict) else None

    def _form(self, name: str) -> str | None:
        found = self.forms.get(name)
        return found if isinstance(found, str) else None

    def _picture(self, name: str) -> bytes | None:
        """Forms come out of the sandbox: one that is no base64 is no picture."""
        try:
            return base64.b64decode(self._form(name) or "", validate=False) or None
        except (binascii.Error, ValueError):
            return None

    @classmethod
    def read(cls, told: Any) -> CodeResult:
        reader = Reader(told)
        return cls(is_main=reader.claim("is_main"), forms=reader.table("forms"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeError:
    """The exception that the code raised. That is a result, and no error of the sandbox."""

    name: str
    value: str
    traceback: str

    @classmethod
    def read(cls, told: Any) -> CodeError:
        reader = Reader(told)
        return cls(**{name: reader.text(name) for name in ("name", "value", "traceback")})


@dataclass(slots=True, kw_only=True)
class Execution:
    """What a piece of code did. `count` is how many its context has run so far."""

    results: list[CodeResult] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    error: CodeError | None = None
    count: int = 0

    @property
    def text(self) -> str | None:
        """Of the last expression, if it has a value."""
        return next((one.text for one in self.results if one.is_main), None)
