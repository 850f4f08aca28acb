"""From what a session wishes for to the sandbox that it works in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crucible.accounts.scopes import session_scope, user_scope
from crucible.agent.options import SandboxWish, SessionOptions
from crucible.agent.places.opening import SandboxRoom, Wanted, name_of
from crucible.agent.places.sandbox import SandboxWorkplace
from crucible.errors import BadSetting
from crucible.network.rules import parse_rule
from crucible.network.secrets import parse_secret
from crucible.sandbox import seeding
from crucible.sandbox.doors.secrets import bindings
from crucible.sandbox.spec import SandboxSpec, check_name
from crucible.values import replace

# A sandbox that nobody used for so long is stopped, and started again with its files when it is needed.
IDLE_S = 3600.0
_MODES = {"none": "off", "full": "full"}


class SandboxPlaces:
    """Gives each session its workplace: a sandbox of its own, called after it.

    `environment` has the values of the secrets that sessions name. They go to the gateway's memory and nowhere else.
    """

    def __init__(self, room: SandboxRoom, environment: Mapping[str, str] | None = None) -> None:
        self._room = room
        self._environment = environment or {}

    def check(self, options: SessionOptions) -> None:
        """Raises BadSetting or PathRefused for what no sandbox can be."""
        spec_of(options.sandbox)
        for text in options.sandbox.hosts:
            parse_rule(text)
        for text in options.sandbox.secrets:
            parse_secret(text, self._environment)
        if options.sandbox.directory:
            seeding.check_source(Path(options.sandbox.directory))

    def workplace(
        self, session: str, options: SessionOptions, *, had_sandbox: bool
    ) -> SandboxWorkplace:
        # Its directory is not looked at again: a sandbox that has its copy needs it no more.
        name = check_name(name_of(session))
        wanted = wanted_of(options, charges_of(session, options), self._environment)
        return SandboxWorkplace(self._room, name, wanted, had_sandbox=had_sandbox)


def wanted_of(
    options: SessionOptions,
    charges: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Wanted:
    """A secret whose variable is not set any more is left out: its placeholder is then of no use."""
    source, known = options.sandbox.directory, environment or {}
    return Wanted(
        spec=replace(spec_of(options.sandbox), charges=charges),
        host_directory=str(Path(source).resolve()) if source else None,
        secrets=[
            parse_secret(text, known)
            for text in options.sandbox.secrets
            if known.get(text.partition(":")[0])
        ],
        checkpoints=options.checkpoints.keep,
        owner=options.user,
    )


def charges_of(session: str, options: SessionOptions) -> tuple[str, ...]:
    """What programs in the sandbox spend on calls of models counts for the session and its user, whose plan may limit
    it even where the session has no budget."""
    return session_scope(session), user_scope(options.user)


def spec_of(wish: SandboxWish) -> SandboxSpec:
    """Raises BadSetting for what the sandbox room cannot give."""
    mode = _MODES.get(wish.network)
    if mode is None:
        raise BadSetting(f"The network cannot be {wish.network[:80]!r}", hint="Use none or full")
    sizes = {"memory_mib": wish.memory_mib, "cpus": wish.cpus, "disk_mib": wish.disk_mib}
    fields: dict[str, Any] = {name: value for name, value in sizes.items() if value}
    if wish.image:
        fields["image"] = wish.image
    if (wish.hosts or wish.secrets) and mode == "off":
        mode = "allowlist"
    return SandboxSpec(
        network=mode,
        allow=tuple(wish.hosts),
        secrets=_bound(wish.secrets),
        environment=dict(wish.environment),
        idle_timeout_s=IDLE_S,
        provider=wish.provider,
        fallback=wish.fallback,
        **fields,
    )


def _bound(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """As sandboxes write them down, whatever the values are."""
    names = {text.partition(":")[0]: "no value" for text in secrets}
    return bindings([parse_secret(text, names) for text in secrets])
