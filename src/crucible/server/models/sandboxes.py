"""Sandboxes as they are asked for and told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from crucible.sandbox.isolation import Isolation
from crucible.sandbox.profiles import find_profile
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import (
    LARGEST_CPUS,
    LARGEST_DISK_MIB,
    LARGEST_OUTPUT_MIB,
    LARGEST_TIMEOUT_S,
    MEMORY_TIERS_MIB,
    MOST_CONNECTIONS,
    MOST_PROCESSES,
    SMALLEST_DISK_MIB,
    SandboxSpec,
    parse_spec,
)
from crucible.server.models.base import Asked, Name, Text, Texts, Told, Variables
from crucible.values import asdict

State = Literal[
    "creating", "created", "starting", "running", "paused", "stopping", "stopped", "broken", "removing"
]  # fmt: skip
Seconds = Annotated[float, Field(ge=0, le=LARGEST_TIMEOUT_S)]


class Settings(Asked):
    """What a sandbox is made of. What is not given is as `crucible create` has it."""

    image: Annotated[str, Field(min_length=1, max_length=512)] = "base"
    memory_mib: Annotated[int, Field(ge=MEMORY_TIERS_MIB[0], le=MEMORY_TIERS_MIB[-1])] = 512
    cpus: Annotated[int, Field(ge=1, le=LARGEST_CPUS)] = 1
    disk_mib: Annotated[int, Field(ge=SMALLEST_DISK_MIB, le=LARGEST_DISK_MIB)] = 8192
    backend: Annotated[str, Field(max_length=63)] = "auto"
    min_isolation: Isolation = Isolation.SOFTWARE_VM
    environment: Variables = {}
    workdir: Text = ""
    user: Annotated[str, Field(max_length=256)] = ""
    profile: Annotated[str, Field(max_length=63)] = "moderate"
    network: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="off, allowlist or full; as the profile says if it is not given"
    )
    allow: Texts = []
    deny: Texts = []
    ports: Texts = []
    secrets: Texts = []
    mounts: Texts = []
    include_credentials: bool = False
    after_create: Texts = []
    processes: Annotated[int, Field(ge=0, le=MOST_PROCESSES)] = 0
    output_mib: Annotated[int, Field(ge=0, le=LARGEST_OUTPUT_MIB)] = 0
    connections: Annotated[int, Field(ge=0, le=MOST_CONNECTIONS)] = 256
    idle_timeout_s: Seconds = 0.0
    ttl_s: Seconds = 0.0
    read_only: bool | None = None
    drop_capabilities: bool | None = None

    def as_spec(self) -> SandboxSpec:
        profile = find_profile(self.profile)
        given = self.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        usual = {
            "network": profile.network,
            "read_only": profile.is_read_only,
            "drop_capabilities": profile.drops_capabilities,
        }
        return parse_spec({**usual, **given})


class NewSandbox(Asked):
    """Without a name it gets one."""

    name: Name | None = None
    settings: Settings = Settings()
    start: bool = True


class Sandbox(Told):
    id: str
    name: str
    state: State
    settings: dict[str, Any]
    image_digest: str
    backend: str
    isolation: str = Field(description="The boundary that is really used")
    created_at: float
    started_at: float | None
    note: str = Field(description="Why it is in the state it is in, if that needs a word")

    @classmethod
    def of(cls, record: SandboxRecord) -> Sandbox:
        spec = asdict(record.spec)
        names = ("id", "name", "state", "image_digest", "backend", "isolation", "created_at",
                 "started_at", "note")  # fmt: skip
        return cls(
            settings={
                key: list(value) if isinstance(value, tuple) else value
                for key, value in spec.items()
            },
            **{name: getattr(record, name) for name in names},
        )
