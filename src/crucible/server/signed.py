"""What it takes to sign a browser in, and what is told of who is."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from crucible.errors import Forbidden, UserMissing
from crucible.server import hosts
from crucible.server.access import LOOPBACK, Mode
from crucible.server.attempts import Attempts
from crucible.server.callers import LOCAL, Caller
from crucible.server.cookies import csrf_of, given_cookie, set_cookie
from crucible.server.domain import Domain
from crucible.server.models.people import AuthTold, Provider, UserTold
from crucible.server.passage import passage_of
from crucible.server.tokens import Scope
from crucible.values import dataclass

# What a forwarding server adds: the caller is not the one that the socket tells of.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    attempts: Attempts
    address: str
    name: str

    def succeeded(self) -> None:
        self.attempts.succeeded(self.address, self.name)


def begin_attempt(request: Request, domain: Domain, name: str = "") -> Attempt:
    """Raises TooManyAttempts before anything costly is done."""
    attempt = Attempt(
        attempts=domain.attempts, address=address_of(request), name=name.strip().lower()
    )
    domain.attempts.begin(attempt.address, attempt.name)
    return attempt


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def need_mode(domain: Domain, mode: Mode) -> None:
    """Raises Forbidden."""
    if domain.access.mode is not mode:
        raise Forbidden(
            f"People do not come in this way here: the server's mode is {domain.access.mode.value!r}",
            hint="GET /api/v1/auth tells how",
        )


def needs_code(request: Request, domain: Domain) -> bool:
    """Whether others than this machine's own programs could be the first to sign up."""
    is_near = (
        domain.access.is_loopback
        and not domain.access.public_url
        and address_of(request) in LOOPBACK
        and hosts.is_loopback(request)
        and not any(name in request.headers for name in _FORWARDED)
    )
    return not is_near


async def sign_in_browser(request: Request, response: Response, domain: Domain, user: str) -> str:
    """A new session each time: what the browser came with, perhaps from somebody else, ends. Its text, for a cookie."""
    from crucible.accounts.web_sessions import LONGEST_S

    people = await domain.people.get()
    before = given_cookie(request)
    if before and (known := await people.sessions.find(before)) is not None:
        await people.sessions.end(known.user, known.id)
        await domain.visits.look(passage_of(request))
    browser = request.headers.get("user-agent", "")
    _, text = await people.sessions.open(user, browser=browser, address=address_of(request))
    set_cookie(response, request, text, LONGEST_S)
    return text


async def auth_told(
    request: Request, domain: Domain, caller: Caller | None, cookie: str = ""
) -> AuthTold:
    """`cookie` is that with which the caller is signed in."""
    access = domain.access
    user = await _user(domain, caller) if caller is not None and caller.user else None
    is_first = False
    if access.mode is Mode.ACCOUNTS:
        is_first = not await (await domain.people.get()).logins.has_any()
    return AuthTold(
        mode=access.mode,
        signed_in=user is not None,
        user=user,
        signup=is_first or (access.mode is Mode.ACCOUNTS and access.is_signup_open),
        needs_code=is_first and needs_code(request, domain),
        oidc=[] if access.oidc is None else [Provider(id=access.oidc.id, label=access.oidc.label)],
        csrf=csrf_of(cookie) if cookie and user is not None else None,
    )


async def link_url(domain: Domain) -> str:
    """With a fresh code in the fragment, which browsers send to no server. "" if no browser reaches us."""
    if not domain.url:
        return ""
    if domain.access.mode is Mode.LOCAL:
        return f"{domain.url}/enter#{domain.links.give()}"
    if domain.access.mode is Mode.ACCOUNTS:
        if await (await domain.people.get()).logins.has_any():
            return f"{domain.url}/sign-in"
        return f"{domain.url}/sign-up#{domain.links.give()}"
    return f"{domain.url}/"


async def _user(domain: Domain, caller: Caller) -> UserTold | None:
    if caller.user == LOCAL:
        role = "admin" if caller.scope.includes(Scope.ADMIN) else "user"
        return UserTold.model_validate({"id": LOCAL, "name": LOCAL, "role": role, "plan": ""})
    try:
        account = await (await domain.people.get()).logins.find(caller.user)
    except UserMissing:
        return None
    return UserTold(id=account.id, name=account.name, role=account.role.value, plan=account.plan)
