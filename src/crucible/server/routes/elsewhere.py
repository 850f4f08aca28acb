"""Signing in elsewhere: the browser is sent there, and comes back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse

from crucible.errors import CrucibleError, Forbidden, IdentityRefused, RouteMissing, SignUpClosed
from crucible.server.access import Mode
from crucible.server.auth import FOR_ANYBODY, TheDomain
from crucible.server.cookies import is_secure
from crucible.server.domain import Domain
from crucible.server.oidc import UNDER_WAY_S, Identity, Oidc
from crucible.server.routes import PREFIX
from crucible.server.routes.signing import SIGNUP_PLAN
from crucible.server.signed import address_of, begin_attempt, need_mode, sign_in_browser

router = APIRouter(prefix=f"{PREFIX}/auth/oidc", tags=["signing in"])

MARK = "crucible_elsewhere"
# Where it leads is said here and nowhere else: no address comes from the request.
HOME = "/"
SIGN_IN = "/sign-in"
ProviderId = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,40}$")]


@router.get(
    "/{id}/begin",
    status_code=303,
    dependencies=[FOR_ANYBODY],
    operation_id="beginElsewhere",
    response_class=RedirectResponse,
)
async def begin(id: ProviderId, request: Request, domain: TheDomain) -> RedirectResponse:
    """For a browser: on to where people sign in."""
    oidc = _oidc(domain, id)
    try:
        begin_attempt(request, domain)
        departure = await oidc.begin(_back(request, domain, id))
    except CrucibleError as error:
        return _refused(error)
    response = RedirectResponse(departure.url, status_code=303)
    response.set_cookie(
        MARK,
        departure.mark,
        max_age=int(UNDER_WAY_S),
        path=f"{PREFIX}/auth/oidc",
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )
    return response


@router.get(
    "/{id}/back",
    status_code=303,
    dependencies=[FOR_ANYBODY],
    operation_id="backFromElsewhere",
    response_class=RedirectResponse,
)
async def back(id: ProviderId, request: Request, domain: TheDomain) -> RedirectResponse:
    """For a browser that comes back: signed in and on to the application, or to the sign-in page with a code."""
    oidc = _oidc(domain, id)
    try:
        identity = await oidc.finish(request.query_params, request.cookies.get(MARK, ""))
        user = await _user(domain, identity)
    except CrucibleError as error:
        return _refused(error)
    domain.attempts.succeeded(address_of(request))
    response = RedirectResponse(HOME, status_code=303)
    response.delete_cookie(MARK, path=f"{PREFIX}/auth/oidc")
    await sign_in_browser(request, response, domain, user)
    return response


async def _user(domain: Domain, identity: Identity) -> str:
    """Known by who issued it and what it is called there; a name or an address alone makes nobody somebody else."""
    logins = (await domain.people.get()).logins
    account = await logins.find_identity(identity.issuer, identity.subject)
    if account is None:
        if not domain.access.is_signup_open:
            raise SignUpClosed
        account = await logins.add_identity(
            identity.issuer, identity.subject, identity.name, plan=SIGNUP_PLAN
        )
    if account.is_disabled:
        raise IdentityRefused("this user is disabled")
    return account.id


def _oidc(domain: Domain, id: str) -> Oidc:
    need_mode(domain, Mode.ACCOUNTS)
    settings = domain.access.oidc
    if settings is None or settings.id != id:
        raise RouteMissing
    if domain.oidc is None:
        domain.oidc = Oidc(settings)
    return domain.oidc


def _back(request: Request, domain: Domain, id: str) -> str:
    """At the public address, if one is set; else under the name that the browser called, which is one of ours."""
    if public := domain.access.public_url:
        return f"{public}{PREFIX}/auth/oidc/{id}/back"
    host = request.headers.get("host", "")
    if not host:
        raise Forbidden("The request has no Host")
    scheme = "https" if is_secure(request) else "http"
    return f"{scheme}://{host}{PREFIX}/auth/oidc/{id}/back"


def _refused(error: CrucibleError) -> RedirectResponse:
    return RedirectResponse(f"{SIGN_IN}?problem={error.code}", status_code=303)
