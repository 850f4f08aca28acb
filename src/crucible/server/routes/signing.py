"""Signing up, in and out: besides the pages, all that nobody needs to be known for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from crucible.errors import (
    BrowserMissing,
    Forbidden,
    SignInRefused,
    SignUpClosed,
    Unsupported,
)
from crucible.server.access import Mode
from crucible.server.auth import FOR_ANYBODY, OWNER, SIGNED_IN, TheCaller, TheDomain
from crucible.server.callers import LOCAL
from crucible.server.cookies import clear_cookie, given_cookie
from crucible.server.domain import Domain
from crucible.server.links import LIFETIME_S
from crucible.server.models.people import (
    AuthTold,
    BrowserList,
    BrowserTold,
    LinkCode,
    LinkTold,
    NewPassword,
    Nothing,
    SignIn,
    SignUp,
)
from crucible.server.passage import passage_of
from crucible.server.routes import PREFIX
from crucible.server.signed import (
    auth_told,
    begin_attempt,
    link_url,
    need_mode,
    needs_code,
    sign_in_browser,
)

router = APIRouter(prefix=f"{PREFIX}/auth", tags=["signing in"])

# What who signs up by themselves may spend, until an administrator gives another plan.
SIGNUP_PLAN = "free"
BrowserId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


@router.get("", dependencies=[FOR_ANYBODY], operation_id="getAuth")
async def get(request: Request, domain: TheDomain, caller: TheCaller) -> AuthTold:
    """For everybody: who the caller is, and how to come in."""
    return await auth_told(request, domain, caller, given_cookie(request) if caller.session else "")


@router.post("/sign-up", status_code=201, dependencies=[FOR_ANYBODY], operation_id="signUp")
async def sign_up(
    asked: SignUp, request: Request, response: Response, domain: TheDomain
) -> AuthTold:
    """The first account is the administrator's. Where others could come first it takes the printed code as well."""
    need_mode(domain, Mode.ACCOUNTS)
    # Whether it succeeds or not: nobody needs many accounts.
    begin_attempt(request, domain)
    logins = (await domain.people.get()).logins
    if not await logins.has_any():
        if needs_code(request, domain):
            domain.links.redeem(asked.code)
        account = await logins.add_first(asked.name, asked.password)
    elif domain.access.is_signup_open:
        account = await logins.add(asked.name, asked.password, plan=SIGNUP_PLAN)
    else:
        raise SignUpClosed
    return await _enter(request, response, domain, account.id)


@router.post("/sign-in", dependencies=[FOR_ANYBODY], operation_id="signIn")
async def sign_in(
    asked: SignIn, request: Request, response: Response, domain: TheDomain
) -> AuthTold:
    """Wrong names and wrong passwords are refused alike, after the same work."""
    need_mode(domain, Mode.ACCOUNTS)
    attempt = begin_attempt(request, domain, asked.name)
    account = await (await domain.people.get()).logins.known(asked.name, asked.password)
    if account is None:
        raise SignInRefused
    attempt.succeeded()
    return await _enter(request, response, domain, account.id)


@router.post("/link", dependencies=[FOR_ANYBODY], operation_id="enterByLink")
async def enter(
    asked: LinkCode, request: Request, response: Response, domain: TheDomain
) -> AuthTold:
    """With the code of the link that the server printed, as the machine's own user."""
    need_mode(domain, Mode.LOCAL)
    attempt = begin_attempt(request, domain)
    domain.links.redeem(asked.code)
    attempt.succeeded()
    return await _enter(request, response, domain, LOCAL)


@router.post("/links", status_code=201, dependencies=[OWNER], operation_id="createLink")
async def give_link(domain: TheDomain) -> LinkTold:
    """Another one-time link, for who has this machine: over its own socket alone."""
    url = await link_url(domain)
    if not url:
        raise Unsupported(
            "No browser reaches this program: it has no HTTP address",
            hint="Start one with `crucible serve`",
        )
    return LinkTold(url=url, lifetime_s=LIFETIME_S)


@router.post("/sign-out", dependencies=[FOR_ANYBODY], operation_id="signOut")
async def sign_out(
    asked: Nothing, request: Request, response: Response, domain: TheDomain, caller: TheCaller
) -> AuthTold:
    """The cookie is worth nothing from now on, wherever it was copied to."""
    if caller.session:
        await (await domain.people.get()).sessions.end(caller.user, caller.session)
        await domain.visits.look(passage_of(request))
    clear_cookie(response, request)
    return await auth_told(request, domain, None)


@router.post("/password", status_code=204, dependencies=[SIGNED_IN], operation_id="changePassword")
async def change_password(
    asked: NewPassword, request: Request, domain: TheDomain, caller: TheCaller
) -> None:
    """Signs the user out everywhere else."""
    if not caller.session or caller.user == LOCAL:
        raise Forbidden("Only a user who is signed in with a password has one to change")
    attempt = begin_attempt(request, domain, f"id {caller.user}")
    logins = (await domain.people.get()).logins
    if not await logins.matches(caller.user, asked.old):
        raise SignInRefused
    attempt.succeeded()
    await logins.set_password(caller.user, asked.new, keeps_session=caller.session)
    await domain.visits.look(passage_of(request))


@router.get("/browsers", dependencies=[SIGNED_IN], operation_id="listBrowsers")
async def browsers(domain: TheDomain, caller: TheCaller) -> BrowserList:
    """Where the caller is signed in, the newest first."""
    found = await (await domain.people.get()).sessions.of(caller.user)
    return BrowserList(items=[BrowserTold.of(one, caller.session) for one in found])


@router.delete(
    "/browsers/{id}", status_code=204, dependencies=[SIGNED_IN], operation_id="signOutBrowser"
)
async def sign_out_browser(
    id: BrowserId, request: Request, domain: TheDomain, caller: TheCaller
) -> None:
    """What is open there ends."""
    if not await (await domain.people.get()).sessions.end(caller.user, id):
        raise BrowserMissing(id)
    await domain.visits.look(passage_of(request))


async def _enter(request: Request, response: Response, domain: Domain, user: str) -> AuthTold:
    cookie = await sign_in_browser(request, response, domain, user)
    caller = await domain.people.caller(domain.access.mode, cookie)
    return await auth_told(request, domain, caller, cookie)
