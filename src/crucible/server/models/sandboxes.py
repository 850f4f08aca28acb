"""Sandboxes as they are asked for and told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr

from crucible.network.secrets import Secret
from crucible.sandbox.doors.secrets import bindings, parse_given
from crucible.sandbox.isolation import Isolation
from crucible.sandbox.profiles import find_profile
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import (
    LARGEST_BUDGET,
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
_OF_PROFILES = {"network", "read_only", "drop_capabilities"}


class SecretValue(Asked):
    """A value that goes into requests to its host, and never into the sandbox. It is written down nowhere."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    value: Annotated[SecretStr, Field(max_length=1 << 14)]
    host: Annotated[str, Field(min_length=1, max_length=300)]
    header: Annotated[str, Field(max_length=64)] = ""


class Settings(Asked):
    """What a sandbox is made of. What is not given is as `crucible create` has it."""

    image: Annotated[str, Field(min_length=1, max_length=512)] = "base"
    images: Annotated[dict[str, str], Field(max_length=15)] = Field(
        default={},
        description="Further images beside it, by the name that a command's `image` takes",
    )
    memory_mib: Annotated[int, Field(ge=MEMORY_TIERS_MIB[0], le=MEMORY_TIERS_MIB[-1])] = 512
    cpus: Annotated[int, Field(ge=1, le=LARGEST_CPUS)] = 1
    disk_mib: Annotated[int, Field(ge=SMALLEST_DISK_MIB, le=LARGEST_DISK_MIB)] = 8192
    backend: Annotated[str, Field(max_length=63)] = "auto"
    provider: Literal["", "auto", "local_microvm", "remote_e2b"] = Field(
        default="", description="Where it runs; as the server is set if it is not given"
    )
    fallback: Literal["", "remote", "never"] = Field(
        default="", description="Whether it may run elsewhere when no machine of the server works"
    )
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
    secrets: Annotated[list[SecretValue], Field(max_length=100)] = []
    mounts: Texts = []
    include_credentials: bool = False
    after_create: Texts = []
    processes: Annotated[int, Field(ge=0, le=MOST_PROCESSES)] = 0
    output_mib: Annotated[int, Field(ge=0, le=LARGEST_OUTPUT_MIB)] = 0
    connections: Annotated[int, Field(ge=0, le=MOST_CONNECTIONS)] = 256
    budget_tokens: Annotated[int, Field(ge=0, le=LARGEST_BUDGET)] = Field(
        default=0,
        description="Tokens that its programs may spend on calls of models; 0 is no limit",
    )
    budget_usd: Annotated[float, Field(ge=0, le=LARGEST_BUDGET / 1_000_000)] = Field(
        default=0.0, description="USD that its programs may spend on calls of models; 0 is no limit"
    )
    idle_timeout_s: Seconds = 0.0
    ttl_s: Seconds = 0.0
    read_only: bool | None = None
    drop_capabilities: bool | None = None
    accept_labels: bool = Field(
        default=False,
        description="Give the image what its labels ask for; else they only take from the sandbox",
    )

    def settled(self) -> set[str]:
        """What the caller has set, and labels of the image leave alone. A profile that is chosen sets its fields."""
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        return given | (_OF_PROFILES if "profile" in given else set())

    def as_spec(self) -> SandboxSpec:
        profile = find_profile(self.profile)
        given = self.model_dump(
            mode="json", exclude={"secrets", "accept_labels"}, exclude_unset=True, exclude_none=True
        )
        usual = {
            "network": profile.network,
            "read_only": profile.is_read_only,
            "drop_capabilities": profile.drops_capabilities,
        }
        return parse_spec({**usual, **given, "secrets": list(bindings(self.given_secrets()))})

    def given_secrets(self) -> list[Secret]:
        return parse_given(
            [
                {**one.model_dump(exclude={"value"}), "value": one.value.get_secret_value()}
                for one in self.secrets
            ]
        )


class NewSandbox(Asked):
    """Without a name it gets one."""

    name: Name | None = None
    settings: Settings = Settings()
    start: bool = True
    lease_s: Annotated[float, Field(ge=4, le=3600)] | None = Field(
        default=None, description="Once it runs it lives so much longer, unless it is held"
    )
    host_directory: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="A directory of the server's machine to copy in; scope admin"
    )


class Sandbox(Told):
    id: str
    name: str
    state: State
    settings: dict[str, Any]
    image_digest: str
    backend: str
    isolation: str = Field(description="The boundary that is really used")
    placed: str = Field(description="Why it runs where it runs")
    created_at: float
    started_at: float | None
    note: str = Field(description="Why it is in the state it is in, if that needs a word")
    notices: list[str] = Field(
        default=[], description="When it is made: what became of the labels of its image"
    )

    @classmethod
    def of(cls, record: SandboxRecord, notices: Sequence[str] = ()) -> Sandbox:
        spec = asdict(record.spec)
        names = ("id", "name", "state", "image_digest", "backend", "isolation", "placed",
                 "created_at", "started_at", "note")  # fmt: skip
        return cls(
            settings={
                key: list(value) if isinstance(value, tuple) else value
                for key, value in spec.items()
            },
            notices=list(notices),
            **{name: getattr(record, name) for name in names},
        )
