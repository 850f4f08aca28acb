"""What a server tells of sandboxes, files, ports and snapshots. All of it is checked for shape when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from crucible_client.reading import Reader

EntryType = Literal["file", "directory", "symlink", "other"]
ChangeKind = Literal["created", "written", "removed", "renamed", "attributes", "overflow"]


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
