"""What an administrator does to users, with all that hangs on them: over HTTP, and from the command line."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from crucible.server.people import OpenPeople, scope_of
from crucible.server.store import Store
from crucible.server.tokens import revoke_all
from crucible.values import dataclass

if TYPE_CHECKING:
    from crucible.accounts.logins import Account

_RANDOM_BYTES = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """`password` is the one that was made up, None if one was given."""

    account: Account
    password: str | None


async def add(people: OpenPeople, name: str, password: str | None, *, role: str, plan: str) -> Made:
    from crucible.accounts.logins import Role

    made = None if password is not None else _made_up()
    account = await people.logins.add(name, password or made, role=Role(role), plan=plan)
    return Made(account=account, password=made)


async def change(
    people: OpenPeople,
    store: Store,
    id: str,
    *,
    role: str | None = None,
    plan: str | None = None,
    is_disabled: bool | None = None,
) -> Account:
    from crucible.accounts.logins import Changes, Role

    wanted = Changes(role=None if role is None else Role(role), plan=plan, is_disabled=is_disabled)
    account = await people.logins.change(id, wanted)
    if account.is_disabled:
        revoke_all(store, id)
    else:
        revoke_all(store, id, above=scope_of(account))
    return account


async def remove(people: OpenPeople, store: Store, id: str) -> None:
    await people.logins.remove(id)
    revoke_all(store, id)
    await people.forget_settings(id)


async def reset(people: OpenPeople, id: str) -> str:
    password = _made_up()
    await people.logins.set_password(id, password)
    return password


def _made_up() -> str:
    return secrets.token_urlsafe(_RANDOM_BYTES)
