"""What a user asks for, checked once: names, sizes, limits. No machine is known here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crucible.config import PROVIDERS
from crucible.errors import BadName, BadSetting
from crucible.sandbox.isolation import Isolation, parse_isolation
from crucible.sandbox.profiles import DEFAULT_PROFILE, NETWORK_MODES, find_profile
from crucible.values import dataclass, field

MEMORY_TIERS_MIB = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
DEFAULT_MEMORY_MIB = 512
DEFAULT_DISK_MIB = 8192
SMALLEST_DISK_MIB = 256
LARGEST_DISK_MIB = 1 << 20
LARGEST_CPUS = 16
DEFAULT_RUN_TIMEOUT_S = 3600.0
LARGEST_TIMEOUT_S = 30 * 24 * 3600.0
MOST_RULES = 1000
MOST_PROCESSES = 1 << 20
LARGEST_OUTPUT_MIB = 1 << 20
DEFAULT_CONNECTIONS = 256
FALLBACKS = ("", "remote", "never")
MOST_CONNECTIONS = 4096
LARGEST_BUDGET = 10**15
SMALLEST_BUDGET_USD = 0.000001

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_SIZE = re.compile(r"(\d{1,9})\s*(?:([KMGT])(?:i?B)?)?\Z", re.IGNORECASE | re.ASCII)
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|m|h|d|)\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """`secrets` are names and the hosts they are bound to, never values.

    `processes` and `output_mib` are of each command, and 0 is no limit, as it is for the two times.

    `images` are further ones, by the name under which commands run in them.

    `provider` is where it runs, and `fallback` whether it may go elsewhere; "" is as this host has it.

    `budget_tokens` and `budget_usd` are what its programs may spend on calls of models in all, and 0 is no limit;
    `charges` are further budgets that those calls count for, such as `session:ID`.

    `after_create` is run inside after the first start: words, or a script for the shell as its only one.
    """

    image: str = "base"
    images: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int = DEFAULT_MEMORY_MIB
    cpus: int = 1
    disk_mib: int = DEFAULT_DISK_MIB
    backend: str = "auto"
    provider: str = ""
    fallback: str = ""
    min_isolation: Isolation = Isolation.SOFTWARE_VM
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    profile: str = DEFAULT_PROFILE
    network: str = "off"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    include_credentials: bool = False
    after_create: tuple[str, ...] = ()
    processes: int = 0
    output_mib: int = 0
    connections: int = DEFAULT_CONNECTIONS
    idle_timeout_s: float = 0.0
    ttl_s: float = 0.0
    read_only: bool = False
    drop_capabilities: bool = False
    budget_tokens: int = 0
    budget_usd: float = 0.0
    charges: tuple[str, ...] = ()

    @property
    def has_budget(self) -> bool:
        return bool(self.budget_tokens or self.budget_usd or self.charges)

    def __post_init__(self) -> None:
        if not 1 <= self.cpus <= LARGEST_CPUS:
            raise BadSetting(
                f"{self.cpus} processors cannot be given", hint=f"Ask for 1 to {LARGEST_CPUS}"
            )
        if not SMALLEST_DISK_MIB <= self.disk_mib <= LARGEST_DISK_MIB:
            raise BadSetting(
                f"A disk of {self.disk_mib} MiB cannot be given",
                hint=f"Ask for {SMALLEST_DISK_MIB}M to {LARGEST_DISK_MIB >> 10}G",
            )
        if self.network not in NETWORK_MODES:
            raise BadSetting(
                f"The network cannot be {self.network!r}",
                hint=f"Use one of {', '.join(NETWORK_MODES)}",
            )
        if self.provider and self.provider not in PROVIDERS:
            raise BadSetting(
                f"There is no provider {self.provider[:80]!r}",
                hint=f"Use one of {', '.join(PROVIDERS)}",
            )
        if self.fallback not in FALLBACKS:
            raise BadSetting(
                f"The fallback cannot be {self.fallback[:80]!r}", hint="Use 'remote' or 'never'"
            )
        if self.backend != "auto" and self.provider:
            self._refuse_contradiction()
        find_profile(self.profile)
        if self.images:
            from crucible.images.composing import check_parts

            check_parts(self.images)
        if self.mounts:
            from crucible.sandbox.mounts import check_mounts

            check_mounts(self.mounts)
        for name, value, most in (
            ("processes", self.processes, MOST_PROCESSES),
            ("output_mib", self.output_mib, LARGEST_OUTPUT_MIB),
            ("connections", self.connections, MOST_CONNECTIONS),
            ("idle_timeout_s", self.idle_timeout_s, LARGEST_TIMEOUT_S),
            ("ttl_s", self.ttl_s, LARGEST_TIMEOUT_S),
            ("budget_tokens", self.budget_tokens, LARGEST_BUDGET),
            ("budget_usd", self.budget_usd, LARGEST_BUDGET / 1_000_000),
        ):
            if not 0 <= value <= most:
                raise BadSetting(f"The limit {name!r} cannot be {value!r}", hint=f"Use 0 to {most}")
        if self.charges:
            from crucible.accounts.scopes import check_scope

            for scope in self.charges:
                check_scope(scope)
        if 0 < self.budget_usd < SMALLEST_BUDGET_USD:
            raise BadSetting(
                f"A budget of {self.budget_usd:g} USD cannot be given",
                hint=f"The smallest is {SMALLEST_BUDGET_USD:f}",
            )
        object.__setattr__(self, "memory_mib", memory_tier(self.memory_mib))

    def _refuse_contradiction(self) -> None:
        is_remote = self.backend == "remote_e2b"
        if self.provider != "auto" and is_remote != (self.provider == "remote_e2b"):
            raise BadSetting(
                f"Backend {self.backend!r} is none of provider {self.provider!r}",
                hint="Name one of the two",
            )


_KINDS: Mapping[str, type] = {
    "image": str, "images": dict, "memory_mib": int, "cpus": int, "disk_mib": int, "backend": str,
    "provider": str, "fallback": str, "min_isolation": str, "environment": dict,
    "workdir": str, "user": str, "profile": str,
    "network": str, "allow": list, "deny": list, "ports": list, "secrets": list, "mounts": list,
    "include_credentials": bool, "after_create": list,
    "processes": int, "output_mib": int, "connections": int, "idle_timeout_s": float, "ttl_s": float,
    "read_only": bool, "drop_capabilities": bool,
    "budget_tokens": int, "budget_usd": float, "charges": list,
}  # fmt: skip


def parse_spec(values: Mapping[str, Any]) -> SandboxSpec:
    """A spec from JSON of a client, a record or a snapshot that came from elsewhere."""
    for name, value in values.items():
        kind = _KINDS.get(name)
        if kind is None:
            raise BadSetting(f"A sandbox has no setting {name!r}")
        taken = (int, float) if kind is float else kind
        if not isinstance(value, taken) or (kind in (int, float) and isinstance(value, bool)):
            raise BadSetting(f"The setting {name!r} cannot be {value!r}")
    environment = values.get("environment", {})
    if not all(isinstance(value, str) for value in environment.values()):
        raise BadSetting("A variable of the environment is not text")
    if not all(isinstance(value, str) for value in values.get("images", {}).values()):
        raise BadSetting("The name of a further image is not text")
    given = dict(values)
    for name in ("allow", "deny", "ports", "secrets", "mounts", "after_create", "charges"):
        texts = given.get(name, [])
        if not all(isinstance(text, str) for text in texts) or len(texts) > MOST_RULES:
            raise BadSetting(f"The setting {name!r} is not a list of at most {MOST_RULES} texts")
        given[name] = tuple(texts)
    if "min_isolation" in given:
        given["min_isolation"] = parse_isolation(given["min_isolation"])
    return SandboxSpec(**given)


def memory_tier(wanted_mib: int) -> int:
    """The smallest tier that holds what was asked for: there is one template per tier."""
    if wanted_mib < MEMORY_TIERS_MIB[0]:
        raise BadSetting(
            f"{wanted_mib} MiB of memory is too little for a machine",
            hint=f"The minimum is {MEMORY_TIERS_MIB[0]}M",
        )
    for tier in MEMORY_TIERS_MIB:
        if wanted_mib <= tier:
            return tier
    raise BadSetting(
        f"{wanted_mib} MiB of memory is more than a sandbox can have",
        hint=f"The maximum is {MEMORY_TIERS_MIB[-1] >> 10}G",
    )


def check_name(name: str, of: str = "sandbox") -> str:
    if not _NAME.match(name):
        raise BadName(name, of)
    return name


def parse_size_mib(text: str) -> int:
    """`512M`, `2G`, `1024` (MiB)."""
    match = _SIZE.match(text.strip())
    if match is None:
        raise BadSetting(f"{text!r} is not a size", hint="Write it like 512M or 2G")
    number, unit = int(match[1]), (match[2] or "").upper()
    if unit == "K":
        return number >> 10
    return number * {"": 1, "M": 1, "G": 1024, "T": 1 << 20}[unit]


def parse_duration_s(text: str) -> float | None:
    """`30`, `1.5s`, `10m`, `2h`; `0` and `none` mean no limit."""
    if text.strip() in ("0", "none"):
        return None
    match = _DURATION.match(text.strip())
    if match is None:
        raise BadSetting(f"{text!r} is not a duration", hint="Write it like 30s, 10m, 2h or none")
    seconds = (
        float(match[1]) * {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
    )
    if not 0.001 <= seconds <= LARGEST_TIMEOUT_S:
        raise BadSetting(f"A time limit of {text!r} is out of range", hint="At most 30d")
    return seconds


def parse_environment(pairs: list[str]) -> dict[str, str]:
    environment = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or "\0" in pair:
            raise BadSetting(f"{pair!r} is not NAME=VALUE", hint="Write --env NAME=VALUE")
        environment[key] = value
    return environment
