"""What a sandbox can be made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


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
    budget_tokens: int
    budget_usd: float
    idle_timeout_s: float
    read_only: bool
    drop_capabilities: bool
    accept_labels: bool
