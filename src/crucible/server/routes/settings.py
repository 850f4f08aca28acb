"""What the caller's user has set: looked at, changed, tried out. New sessions begin with it."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from starlette.responses import StreamingResponse

from crucible.errors import BadRequest, UserMissing
from crucible.server.auth import MAY_READ, MAY_RUN, TheCaller, TheDomain
from crucible.server.callers import Caller
from crucible.server.defaults import merged, where
from crucible.server.domain import Domain
from crucible.server.models.agent import SessionWanted
from crucible.server.models.settings import (
    LONGEST_KEY,
    AppearanceTold,
    EgressTold,
    KeyGiven,
    ModelProviderTold,
    ModelsTold,
    ProviderTold,
    RulesTold,
    SessionBudgetTold,
    SettingsChanges,
    SettingsTold,
    SkillTold,
    SpentTold,
)
from crucible.server.probing import probe
from crucible.server.routes import PREFIX
from crucible.server.routes.commands import EVENTS
from crucible.server.streaming import EventStream
from crucible.server.tokens import Scope

if TYPE_CHECKING:
    from crucible.agent.models.settings import ModelsSettings
    from crucible.agent.skills.shelf import Skill
    from crucible.books import Books
    from crucible.conversations.settings import UserSettings

router = APIRouter(prefix=PREFIX, tags=["settings"])

ProviderName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
_MODES: dict[str, Literal["auto", "local", "remote"]] = {
    "auto": "auto",
    "local_microvm": "local",
    "remote_e2b": "remote",
}
_MICRO = 1_000_000


@router.get("/settings", dependencies=[MAY_READ], operation_id="getSettings")
async def get(domain: TheDomain, caller: TheCaller) -> SettingsTold:
    books = await domain.books.get()
    return await _told(domain, caller, books, await books.settings.get(caller.user))


@router.patch("/settings", dependencies=[MAY_RUN], operation_id="changeSettings")
async def change(asked: SettingsChanges, domain: TheDomain, caller: TheCaller) -> SettingsTold:
    """All of it or nothing. Sessions that are there stay as they are."""
    from crucible.agent.options import options_from_json
    from crucible.conversations.settings import changed_by

    books = await domain.books.get()
    before = await books.settings.get(caller.user)
    skills = await asyncio.to_thread(_skills, domain)
    changes = _changes(asked, before, {skill.name for skill in skills})
    # A session that begins with this must be one that there can be.
    fields = merged(SessionWanted(), changed_by(before, changes), [one.name for one in skills])
    options = options_from_json({**fields, "user": caller.user})
    (await domain.engine.get()).check(options)
    after = await books.settings.change(caller.user, changes)
    if asked.memory is not None:
        await books.memory.set_enabled(caller.user, asked.memory)
    return await _told(domain, caller, books, after)


@router.put(
    "/settings/keys/{provider}",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="setModelKey",
)
async def set_key(
    provider: ProviderName, asked: KeyGiven, domain: TheDomain, caller: TheCaller
) -> None:
    """For the models of this user's sessions, before that of the machine. It is kept sealed and told to nobody."""
    _check_provider(await asyncio.to_thread(_model_settings), provider)
    key = asked.key.get_secret_value().strip()
    if not key or len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise BadRequest("This is no key: it is empty, too long or has odd characters")
    await (await domain.books.get()).settings.set_key(caller.user, provider, key)


@router.delete(
    "/settings/keys/{provider}",
    status_code=204,
    dependencies=[MAY_RUN],
    operation_id="removeModelKey",
)
async def remove_key(provider: ProviderName, domain: TheDomain, caller: TheCaller) -> None:
    """Whether there was one or not, there is none afterwards."""
    await (await domain.books.get()).settings.drop_key(caller.user, provider)


@router.post(
    "/settings/probe",
    dependencies=[MAY_RUN],
    operation_id="probeSettings",
    response_class=StreamingResponse,
    responses=EVENTS,
)
async def try_out(domain: TheDomain, caller: TheCaller, request: Request) -> EventStream:
    """A real sandbox, where the settings say: `stage` events for create, write, run, read and remove, then `done`."""
    settings = await (await domain.books.get()).settings.get(caller.user)
    told = probe(domain, caller, where(settings.provider), request.state.request_id)
    return EventStream(_one_at_a_time(domain, caller, told))


async def _one_at_a_time(domain: Domain, caller: Caller, told: Any) -> Any:
    async with domain.turn(f"probe for {caller.user}"), aclosing(told) as events:
        async for one in events:
            yield one


def _changes(asked: SettingsChanges, before: UserSettings, skills: set[str]) -> dict[str, Any]:
    given = asked.model_dump(exclude_unset=True)
    found: dict[str, Any] = {}
    for name in ("provider", "models", "egress"):
        if fields := given.get(name):
            # What is null there is as if it were not named.
            found[name] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in fields.items()
                if value is not None
            }
    if fields := given.get("policy"):
        found["policy"] = {key: tuple(value) for key, value in fields.items()}
    if fields := given.get("budget"):
        found["budget"] = fields
    if asked.skills:
        unknown = sorted(set(asked.skills) - skills)
        if unknown:
            raise BadRequest(f"There is no skill {unknown[0]!r}")
        off = set(before.skills_off) & skills
        off |= {name for name, on in asked.skills.items() if not on}
        found["skills_off"] = tuple(sorted(off - {n for n, on in asked.skills.items() if on}))
    if asked.appearance is not None:
        found["theme"] = asked.appearance.theme
    return found


async def _told(
    domain: Domain, caller: Caller, books: Books, settings: UserSettings
) -> SettingsTold:
    from crucible.accounts.scopes import user_scope

    engine = await domain.engine.get()
    known = await asyncio.to_thread(_model_settings)
    skills = await asyncio.to_thread(_skills, domain)
    sums = (await books.budgets.spent(user_scope(caller.user))).spent.as_row()
    config = domain.manager.config
    provider, strict = settings.provider, settings.provider.strict
    return SettingsTold(
        provider=ProviderTold(
            mode=provider.mode or _MODES[config.provider],
            strict=not config.falls_back if strict is None else strict,
        ),
        models=ModelsTold(
            agent=settings.models.agent,
            chat=settings.models.chat,
            memory=settings.models.memory,
            used=await _used(engine, caller, settings),
        ),
        model_providers=_providers(known, await books.settings.has_keys(caller.user), caller),
        budget=SessionBudgetTold.model_validate(settings.budget, from_attributes=True),
        plan=await _plan(books, caller.user),
        spent=SpentTold.model_validate({**sums, "usd": sums["usd"] / _MICRO}),
        egress=EgressTold(network=settings.egress.network, hosts=list(settings.egress.hosts)),
        policy=RulesTold.model_validate(settings.policy, from_attributes=True),
        skills=[
            SkillTold(
                name=one.name,
                description=one.document.description,
                on=one.name not in settings.skills_off,
                origin=one.origin,
            )
            for one in skills
        ],
        memory=(await books.memory.settings(caller.user)).user,
        appearance=AppearanceTold(theme=settings.theme),
    )


async def _used(engine: Any, caller: Caller, settings: UserSettings) -> dict[str, str]:
    usual = await engine.default_models(caller.user)
    main = settings.models.agent
    return {name: getattr(settings.models, name) or main or one for name, one in usual.items()}


def _providers(
    known: ModelsSettings, own: frozenset[str], caller: Caller
) -> list[ModelProviderTold]:
    is_admin = caller.scope.includes(Scope.ADMIN)
    told = []
    for name, provider in known.providers.items():
        origin: Literal["settings", "environment", "none"] = "none"
        if name in own:
            origin = "settings"
        elif name in known.keys:
            origin = "environment"
        told.append(
            ModelProviderTold(
                name=name,
                has_key=origin != "none",
                key_from=origin,
                needs_key=provider.needs_key,
                base_url=known.addresses.get(name, provider.base_url) if is_admin else "",
            )
        )
    return told


async def _plan(books: Books, user: str) -> str:
    try:
        return (await books.users.find(user)).plan
    except UserMissing:
        return ""


def _check_provider(known: ModelsSettings, name: str) -> None:
    if name not in known.providers:
        raise BadRequest(f"There is no provider {name!r}")


def _model_settings() -> ModelsSettings:
    from crucible.agent.models.settings import load_settings

    return load_settings(dict(os.environ))


def _skills(domain: Domain) -> list[Skill]:
    from crucible.agent.skills.shelf import Shelf

    return Shelf(domain.manager.config.home).all()
