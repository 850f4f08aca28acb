"""What OpenSandbox's clients send and get for the life of a sandbox, and what that is here."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from crucible import system
from crucible.errors import BadSetting, Unsupported
from crucible.sandbox.expiry import expires_at
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import LARGEST_TIMEOUT_S
from crucible.server.models import base
from crucible.server.models.base import Text, Texts, Variables
from crucible.server.models.sandboxes import Settings
from crucible.server.wires.moments import moment
from crucible.server.wires.settings import settings_of

# What keeps a container alive that has nothing to do: a machine needs nothing for that.
IDLE = ["tail", "-f", "/dev/null"]
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_CPU = re.compile(r"(\d{1,6})(m?)\Z", re.ASCII)
_MEMORY = re.compile(r"(\d{1,15})(Ki|Mi|Gi|k|M|G|)\Z", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_STATES = {
    "creating": "Pending",
    "starting": "Pending",
    "running": "Running",
    "paused": "Paused",
    "stopping": "Stopping",
    "removing": "Stopping",
    "broken": "Failed",
}


class Asked(base.Asked):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Told(base.Told):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Image(Asked):
    uri: Annotated[str, Field(min_length=1, max_length=512)]
    auth: dict[str, Any] | None = None


class Platform(Asked):
    os: str
    arch: str


class NetworkRule(Asked):
    action: Literal["allow", "deny"]
    target: Annotated[str, Field(max_length=300)]


class NetworkPolicy(Asked):
    default_action: Literal["allow", "deny"] = "deny"
    egress: Annotated[list[NetworkRule], Field(max_length=1000)] = []

    def as_settings(self) -> dict[str, Any]:
        rules = {
            action: [rule.target for rule in self.egress if rule.action == action]
            for action in ("allow", "deny")
        }
        if self.default_action == "allow":
            return {"network": "full", "deny": rules["deny"]}
        mode = "allowlist" if rules["allow"] else "off"
        return {"network": mode, **rules}


class NewSandbox(Asked):
    """Fields that we cannot honour are known, so that their refusal says why."""

    image: Image | None = None
    timeout: Annotated[int, Field(ge=1, le=int(LARGEST_TIMEOUT_S))] | None = None
    resource_limits: Variables = {}
    env: Variables = {}
    entrypoint: Texts = IDLE
    platform: Platform | None = None
    network_policy: NetworkPolicy | None = None
    secure_access: bool = False
    snapshot_id: Text | None = None
    template_id: Text | None = None
    resource_requests: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None
    credential_proxy: dict[str, Any] | None = None
    volumes: list[Any] | None = None
    extensions: dict[str, Any] | None = None

    def as_settings(self) -> Settings:
        """Raises Unsupported for what OpenSandbox can and we cannot."""
        self._refuse()
        if self.image is None:
            raise BadSetting("A sandbox needs an image")
        given: dict[str, Any] = {
            "image": self.image.uri,
            "environment": self.env,
            "ttl_s": float(self.timeout or 0),
            **_sizes(self.resource_limits),
        }
        if self.network_policy is not None:
            given.update(self.network_policy.as_settings())
        return settings_of(given)

    def _refuse(self) -> None:
        for name, value, hint in (
            ("snapshotId", self.snapshot_id, "Restore it with `crucible snapshot restore`"),
            ("templateId", self.template_id, "Name an image"),
            ("resourceRequests", self.resource_requests, "Use resourceLimits"),
            ("metadata", self.metadata, "Keep it beside the sandbox's id"),
            ("lifecycle", self.lifecycle, "Run what is needed as a command"),
            ("volumes", self.volumes, "Write the files, or use `crucible create --volume`"),
            ("extensions", self.extensions, "Leave them out"),
            ("image.auth", self.image and self.image.auth, "Log in with a registry's own tools"),
        ):
            if value:
                raise Unsupported(f"{name} cannot be given", hint=hint)
        if self.credential_proxy and self.credential_proxy.get("enabled"):
            raise Unsupported(
                "credentialProxy cannot be given", hint="Use `crucible create --secret`"
            )
        if self.entrypoint != IDLE:
            raise Unsupported(
                "A sandbox has no entry process of its own",
                hint="Leave the entrypoint out, and run it as a background command",
            )
        if self.platform is not None and self.platform != _own_platform(self.platform):
            raise Unsupported(
                f"This machine runs linux on {system.machine()} alone", hint="Leave platform out"
            )


class Renewal(Asked):
    expires_at: datetime


class Status(Told):
    state: str
    message: str


class Created(Told):
    id: str
    status: Status
    created_at: str
    entrypoint: list[str]
    expires_at: str | None = None

    @classmethod
    def of(cls, record: SandboxRecord) -> Created:
        return cls(**_facts(record))


class Sandbox(Created):
    image: dict[str, str]

    @classmethod
    def of(cls, record: SandboxRecord) -> Sandbox:
        return cls(**_facts(record), image={"uri": record.spec.image})


class Pagination(Told):
    page: int
    page_size: int
    total_items: int
    total_pages: int
    has_next_page: bool


class Sandboxes(Told):
    items: list[Sandbox]
    pagination: Pagination

    @classmethod
    def of(cls, records: list[SandboxRecord], page: int, page_size: int) -> Sandboxes:
        pages = math.ceil(len(records) / page_size)
        shown = records[(page - 1) * page_size : page * page_size]
        return cls(
            items=[Sandbox.of(record) for record in shown],
            pagination=Pagination(
                page=page,
                page_size=page_size,
                total_items=len(records),
                total_pages=pages,
                has_next_page=page < pages,
            ),
        )


class Renewed(Told):
    expires_at: str


class Endpoint(Told):
    """`headers` must be in every request to it."""

    endpoint: str
    headers: dict[str, str]


def state_of(record: SandboxRecord) -> str:
    return _STATES.get(record.state, "Terminated")


def _facts(record: SandboxRecord) -> dict[str, Any]:
    end = expires_at(record)
    return {
        "id": record.name,
        "status": Status(state=state_of(record), message=record.note),
        "created_at": moment(record.created_at),
        "entrypoint": IDLE,
        "expires_at": None if end is None else moment(end),
    }


def _sizes(limits: dict[str, str]) -> dict[str, int]:
    """`cpu` and `memory` as Kubernetes writes them; processors are whole here."""
    sizes = {}
    for name, text in limits.items():
        if name == "cpu" and (match := _CPU.match(text)):
            sizes["cpus"] = math.ceil(int(match[1]) / (1000 if match[2] else 1))
        elif name == "memory" and (match := _MEMORY.match(text)):
            sizes["memory_mib"] = math.ceil(int(match[1]) * _UNITS[match[2]] / (1 << 20))
        elif name in ("cpu", "memory"):
            raise BadSetting(
                f"{text[:64]!r} is no amount of {name}", hint="Write 2, 500m, 512Mi or 2Gi"
            )
        else:
            raise Unsupported(f"There is no limit {name[:64]!r}", hint="Limit cpu and memory")
    return sizes


def _own_platform(asked: Platform) -> Platform:
    is_own = _ARCHITECTURES.get(asked.arch, asked.arch) == system.machine()
    return Platform(os="linux", arch=asked.arch if is_own else "")
