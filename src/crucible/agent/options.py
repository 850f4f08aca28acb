"""What a session is asked to be: frozen, kept with the session, and read back from JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from crucible.agent.models.base import Effort, Purpose
from crucible.errors import BadSetting, suggestion

_LONGEST_SYSTEM = 200_000
_LONGEST_TITLE = 200
_MOST_LABELS = 64
_LONGEST_MODEL = 256
_MOST_ITERATIONS = 1000
_LONGEST_APPROVAL_S = 7 * 24 * 3600.0
_MOST_SECRETS = 32
_LONGEST_SECRET = 512
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}:[A-Za-z0-9*._:!#$&'+^`|~-]+", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxWish:
    """The sandbox that a session opens on first need. What is empty or 0 is left to the sandbox room's defaults.

    `directory` is one of this host whose files are copied into the workspace; `network` is `none` or `full`, and
    `hosts` are the only ones that may be reached otherwise. `provider` and `fallback` say where it may run.
    `secrets` are `NAME:HOST[:HEADER]`: names of variables of the program that holds the sandboxes, never their values.
    """

    image: str = ""
    network: str = "none"
    hosts: tuple[str, ...] = ()
    directory: str = ""
    memory_mib: int = 0
    cpus: int = 0
    disk_mib: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    fallback: str = ""
    secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_secrets(self.secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRules:
    """Rules such as `bash(git push*)`. Deny wins over ask, ask over allow.

    Without a match, `default` says what happens: `risk` asks about what is at least as severe as `ask_from`.
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    default: str = "risk"
    ask_from: str = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a session may spend in all; None is without a limit."""

    tokens: int | None = None
    usd: float | None = None
    sandbox_s: float | None = None
    iterations: int | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWish:
    """A snapshot of the sandbox before each step; the `keep` newest stay."""

    is_on: bool = False
    keep: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """`tools`, `skills` and `mcp` are names, or patterns with `*`, of what the session may use; None is everything."""

    user: str = "local"
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    models: Mapping[Purpose, str] = field(default_factory=dict)
    thinking: Effort = "off"
    tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None
    policy: PolicyRules = field(default_factory=PolicyRules)
    budget: Limits = field(default_factory=Limits)
    sandbox: SandboxWish = field(default_factory=SandboxWish)
    checkpoints: CheckpointWish = field(default_factory=CheckpointWish)
    memory: bool = True
    max_iterations: int = 16
    approval_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        _check(self)


def changed(options: SessionOptions, changes: Mapping[str, Any]) -> SessionOptions:
    """With some fields replaced, as `configure` does; who a session belongs to does not change."""
    known = {one.name for one in fields(SessionOptions)}
    for name in changes:
        if name not in known:
            raise BadSetting(
                f"A session has no setting {name[:80]!r}", hint=suggestion(name, sorted(known))
            )
    if changes.get("user", options.user) != options.user:
        raise BadSetting("A session's user cannot be changed", hint="Create another session")
    return options_from_json({**options_to_json(options), **_plain(changes)})


def options_to_json(options: SessionOptions) -> dict[str, Any]:
    return asdict(options)


def options_from_json(value: Any) -> SessionOptions:
    """Raises BadSetting for what is no session's options."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(SessionOptions).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(one) for one in first["loc"])
        raise BadSetting(f"The session's {where or 'options'}: {first['msg']}") from None


def with_rule(options: SessionOptions, pattern: str) -> SessionOptions:
    """What `always` says to an approval. A policy that is full stays as it is: it is asked again then."""
    from crucible.agent.permissions.policy import MAX_RULES

    policy = options.policy
    count = len(policy.allow) + len(policy.ask) + len(policy.deny)
    if pattern in policy.allow or count >= MAX_RULES:
        return options
    policy = replace(policy, allow=(*policy.allow, pattern))
    return replace(options, policy=policy)


def _plain(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else value
        for name, value in changes.items()
    }


def _check_secrets(secrets: tuple[str, ...]) -> None:
    """What is wrong is said without it: somebody may have written a value."""
    if len(secrets) > _MOST_SECRETS:
        raise BadSetting(f"There are more than {_MOST_SECRETS} secrets")
    for text in secrets:
        if len(text) > _LONGEST_SECRET or not _SECRET.fullmatch(text):
            raise BadSetting(
                "A secret of a session is no NAME:HOST[:HEADER]",
                hint="Its value is not written here: it is the variable NAME of the program that holds the sandboxes",
            )


def _check(options: SessionOptions) -> None:
    if not _USER.fullmatch(options.user):
        raise BadSetting(f"{options.user[:80]!r} is no name of a user")
    if len(options.system) > _LONGEST_SYSTEM:
        raise BadSetting(f"The system prompt is longer than {_LONGEST_SYSTEM} characters")
    if len(options.title) > _LONGEST_TITLE:
        raise BadSetting(f"The title is longer than {_LONGEST_TITLE} characters")
    if len(options.labels) > _MOST_LABELS:
        raise BadSetting(f"There are more than {_MOST_LABELS} labels")
    if not 1 <= options.max_iterations <= _MOST_ITERATIONS:
        raise BadSetting(f"max_iterations is {options.max_iterations}, not 1 to {_MOST_ITERATIONS}")
    if not 0 < options.approval_timeout_s <= _LONGEST_APPROVAL_S:
        raise BadSetting(f"approval_timeout_s is {options.approval_timeout_s:g}, not 0 to a week")
    if not 1 <= options.checkpoints.keep <= 64:
        raise BadSetting(f"{options.checkpoints.keep} checkpoints cannot be kept, only 1 to 64")
    for model in options.models.values():
        if not model or len(model) > _LONGEST_MODEL or not model.isprintable():
            raise BadSetting(f"{model[:80]!r} names no model")
