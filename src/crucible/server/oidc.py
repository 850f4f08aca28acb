"""Signing in elsewhere, by OpenID Connect: the authorization code with PKCE, a state, a nonce, and a verified token.

What is under way is kept in memory: whoever comes back after a restart begins again. Signatures are checked by
joserfc, and only those that take another's private key; nothing of a token is believed before that.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from crucible.errors import IdentityRefused
from crucible.server.access import LOOPBACK, OidcSettings
from crucible.values import dataclass

if TYPE_CHECKING:
    import httpx

UNDER_WAY_S = 600.0
MOST_UNDER_WAY = 1000
LARGEST_ANSWER = 256 << 10
_WAIT_S = 10.0
_KNOWN_S = 3600.0
# Keys are asked for again when a token names one that is not known, but not for every such token.
_KEYS_AGAIN_S = 30.0
_LEEWAY_S = 60
_LONGEST = 4096
_ALGORITHMS = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who somebody is elsewhere. Only `issuer` and `subject` say so; `name` is what they like to be called."""

    issuer: str
    subject: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Where the browser is sent, and what it keeps until it is back."""

    url: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnderWay:
    nonce: str
    verifier: str
    mark: str
    redirect: str
    expires_at: float


class Oidc:
    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._under_way: OrderedDict[str, _UnderWay] = OrderedDict()
        self._known: dict[str, Any] = {}
        self._known_until = 0.0
        self._keys: dict[str, Any] = {}
        self._keys_at = 0.0

    async def begin(self, redirect: str) -> Departure:
        """Raises IdentityRefused if the other side cannot be reached or is not as it should be."""
        known = await self._discovered()
        state = secrets.token_urlsafe(32)
        way = _UnderWay(
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            mark=secrets.token_urlsafe(32),
            redirect=redirect,
            expires_at=time.monotonic() + UNDER_WAY_S,
        )
        self._under_way[state] = way
        while len(self._under_way) > MOST_UNDER_WAY:
            self._under_way.popitem(last=False)
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect,
            "scope": "openid profile email",
            "state": state,
            "nonce": way.nonce,
            "code_challenge": _challenge(way.verifier),
            "code_challenge_method": "S256",
        }
        place = str(known["authorization_endpoint"])
        url = f"{place}{'&' if '?' in place else '?'}{urlencode(query)}"
        return Departure(url=url, mark=way.mark)

    async def finish(self, query: Mapping[str, str], mark: str) -> Identity:
        """What the browser came back with, once. `mark` is what it kept. Raises IdentityRefused."""
        way = self._under_way.pop(query.get("state", ""), None)
        if way is None or way.expires_at <= time.monotonic():
            raise IdentityRefused("it was not begun here, is over already, or took too long")
        if not hmac.compare_digest(mark.encode(), way.mark.encode()):
            raise IdentityRefused("it was begun in another browser")
        if query.get("iss", self._settings.issuer) != self._settings.issuer:
            raise IdentityRefused("the answer is of another issuer")
        code = query.get("code", "")
        if query.get("error") or not 0 < len(code) <= _LONGEST:
            raise IdentityRefused("the other side did not allow it")
        token = await self._redeemed(code, way)
        claims = await self._verified(token, way.nonce)
        name = claims.get("preferred_username") or claims.get("email") or "user"
        return Identity(
            issuer=self._settings.issuer, subject=str(claims["sub"])[:256], name=str(name)[:200]
        )

    async def _discovered(self) -> dict[str, Any]:
        if time.monotonic() < self._known_until:
            return self._known
        issuer = self._settings.issuer
        found = await self._fetched(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise IdentityRefused("the issuer calls itself by another name")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            _check_place(found.get(name))
        self._known, self._known_until = found, time.monotonic() + _KNOWN_S
        return found

    async def _redeemed(self, code: str, way: _UnderWay) -> str:
        known = await self._discovered()
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": way.redirect,
            "code_verifier": way.verifier,
            "client_id": settings.client_id,
        }
        login = None
        methods = known.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if settings.client_secret and "client_secret_basic" in methods:
            login = (settings.client_id, settings.client_secret)
        elif settings.client_secret:
            form["client_secret"] = settings.client_secret
        told = await self._fetched(str(known["token_endpoint"]), form, login)
        token = told.get("id_token")
        if not isinstance(token, str):
            raise IdentityRefused("the other side gave no identity")
        return token

    async def _verified(self, token: str, nonce: str) -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        wanted = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = dict(await self._decoded(token))
            wanted.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError):
            raise IdentityRefused("its token is not valid") from None
        is_ours = claims.get("azp", self._settings.client_id) == self._settings.client_id
        if not is_ours or not isinstance(claims["sub"], str) or not claims["sub"]:
            raise IdentityRefused("its token is not for this server")
        return claims

    async def _decoded(self, token: str) -> Mapping[str, Any]:
        """With the keys that are known; if that fails, with fresh ones, for those are changed now and then."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        if not self._keys:
            await self._learn_keys()
        try:
            return jwt.decode(token, KeySet.import_key_set(self._keys), _ALGORITHMS).claims  # type: ignore[arg-type]
        except (JoseError, ValueError):
            if time.monotonic() - self._keys_at < _KEYS_AGAIN_S:
                raise
        await self._learn_keys()
        return jwt.decode(token, KeySet.import_key_set(self._keys), _ALGORITHMS).claims  # type: ignore[arg-type]

    async def _learn_keys(self) -> None:
        found = await self._fetched(str((await self._discovered())["jwks_uri"]))
        if not isinstance(found.get("keys"), list):
            raise IdentityRefused("the issuer has no keys")
        self._keys, self._keys_at = found, time.monotonic()

    async def _fetched(
        self,
        url: str,
        form: dict[str, str] | None = None,
        login: tuple[str, str] | None = None,
    ) -> dict[str, Any]:
        """Redirects are not followed. What is wrong is told without what was sent."""
        import httpx

        try:
            async with httpx.AsyncClient(timeout=_WAIT_S, auth=login) as client:
                request = client.build_request(
                    "GET" if form is None else "POST",
                    url,
                    data=form,
                    headers={"Accept": "application/json"},
                )
                answer = await client.send(request, stream=True)
                data = await _body(answer)
        except (httpx.HTTPError, httpx.InvalidURL):
            raise IdentityRefused("the other side cannot be reached") from None
        return _object(answer.status_code, data)


async def _body(answer: httpx.Response) -> bytes:
    data = bytearray()
    try:
        async for piece in answer.aiter_bytes():
            data += piece
            if len(data) > LARGEST_ANSWER:
                raise IdentityRefused("the other side answers too much")
    finally:
        await answer.aclose()
    return bytes(data)


def _object(status: int, data: bytes) -> dict[str, Any]:
    import json

    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if status != 200 or not isinstance(found, dict):
        raise IdentityRefused("the other side refused, or answers what is not JSON")
    return found


def _check_place(url: object) -> None:
    """Passwords and codes go there: in the clear only to this very machine."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    except ValueError:
        is_safe = False
    if not is_safe:
        raise IdentityRefused("the issuer names an address without TLS")


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
