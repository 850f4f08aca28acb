"""What a new session is like: what its caller says, and where that says nothing, what the user has set."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crucible.agent.options import SessionOptions, options_from_json
from crucible.errors import Forbidden
from crucible.server.callers import Caller
from crucible.server.domain import Domain
from crucible.server.models.agent import SessionWanted
from crucible.server.tokens import Scope

if TYPE_CHECKING:
    from crucible.conversations.settings import Provider, UserSettings

_PROVIDERS = {"auto": "auto", "local": "local_microvm", "remote": "remote_e2b"}
# What the user's settings speak of within a session's sandbox.
_EGRESS = {"network", "hosts"}


async def session_options(domain: Domain, asked: SessionWanted, caller: Caller) -> SessionOptions:
    """Raises Forbidden for a directory or secrets of the host that the caller may not read."""
    if asked.sandbox.directory and not caller.scope.includes(Scope.ADMIN):
        raise Forbidden("Files of the host need a token with scope 'admin'")
    if asked.sandbox.secrets and not caller.scope.includes(Scope.ADMIN):
        # Whoever chooses the host reads the value there.
        raise Forbidden("Secrets of the host need a token with scope 'admin'")
    settings = await (await domain.books.get()).settings.get(caller.user)
    return options_from_json({**merged(asked, settings, _skills(domain)), "user": caller.user})


def merged(asked: SessionWanted, settings: UserSettings, skills: list[str]) -> dict[str, Any]:
    """A section that the caller names is the caller's alone; of the sandbox, egress is one and the rest another."""
    fields: dict[str, Any] = asked.model_dump()
    given = asked.model_fields_set
    fields["models"] = {name: one for name, one in fields["models"].items() if one is not None}
    if "models" not in given:
        fields["models"] = {name: one for name, one in asdict(settings.models).items() if one}
    for name in ("policy", "budget"):
        if name not in given:
            fields[name] = {**fields[name], **asdict(getattr(settings, name))}
    if "skills" not in given and settings.skills_off:
        fields["skills"] = [name for name in skills if name not in settings.skills_off]
    fields["sandbox"] |= where(settings.provider)
    if not asked.sandbox.model_fields_set & _EGRESS:
        fields["sandbox"] |= asdict(settings.egress)
    return fields


def where(provider: Provider) -> dict[str, str]:
    """As a sandbox is told where it may run. What the user has not chosen is as the machine has it."""
    never = {"fallback": "never"} if provider.strict else {}
    if not provider.mode:
        return never
    found = {"provider": _PROVIDERS[provider.mode], **never}
    if provider.mode == "local" and provider.strict is False:
        found["fallback"] = "remote"
    return found


def _skills(domain: Domain) -> list[str]:
    from crucible.agent.skills.shelf import Shelf

    return [skill.name for skill in Shelf(domain.manager.config.home).all()]
