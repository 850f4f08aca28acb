"""Users, for who administers them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from crucible.server import administering
from crucible.server.auth import MAY_ADMINISTER_USERS, TheDomain
from crucible.server.models.people import (
    MadePassword,
    MadeUser,
    NewUser,
    UserChanges,
    UserFacts,
    UserList,
)
from crucible.server.passage import passage_of
from crucible.server.routes import PREFIX

router = APIRouter(prefix=f"{PREFIX}/users", tags=["users"], dependencies=[MAY_ADMINISTER_USERS])

UserId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


@router.get("", operation_id="listUsers")
async def list_all(domain: TheDomain) -> UserList:
    from crucible.accounts.plans import plans

    found = await (await domain.people.get()).logins.all()
    return UserList(items=[UserFacts.of(account) for account in found], plans=list(plans()))


@router.post("", status_code=201, operation_id="createUser")
async def create(asked: NewUser, domain: TheDomain) -> MadeUser:
    made = await administering.add(
        await domain.people.get(), asked.name, asked.password, role=asked.role, plan=asked.plan
    )
    return MadeUser(**UserFacts.of(made.account).model_dump(), password=made.password)


@router.patch("/{id}", operation_id="changeUser")
async def change(id: UserId, asked: UserChanges, domain: TheDomain, request: Request) -> UserFacts:
    """Who is disabled is signed out everywhere, and has no tokens any more."""
    account = await administering.change(
        await domain.people.get(),
        domain.store,
        id,
        role=asked.role,
        plan=asked.plan,
        is_disabled=asked.disabled,
    )
    await domain.visits.look(passage_of(request))
    return UserFacts.of(account)


@router.delete("/{id}", status_code=204, operation_id="removeUser")
async def remove(id: UserId, domain: TheDomain, request: Request) -> None:
    """With all sessions and tokens. Sandboxes stay, for the machine's own user to look after."""
    await administering.remove(await domain.people.get(), domain.store, id)
    await domain.visits.look(passage_of(request))


@router.post("/{id}/password", operation_id="resetPassword")
async def reset(id: UserId, domain: TheDomain, request: Request) -> MadePassword:
    """A new one, told once. The user is signed out everywhere."""
    password = await administering.reset(await domain.people.get(), id)
    await domain.visits.look(passage_of(request))
    return MadePassword(password=password)
