"""Signing in to a registry: answers its challenges with a token or a login, and keeps tokens while they last."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from crucible.errors import RegistryBroken, RegistryDenied
from crucible.images.oci.addresses import BadUrl, Url, parse_url
from crucible.images.oci.challenges import Challenge
from crucible.images.oci.credentials import Credentials
from crucible.images.oci.transport import Request, Response

_MAX_TOKEN_ANSWER_BYTES = 1 << 20
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,65536}")
_DEFAULT_LIFE_S = 60
_LONGEST_LIFE_S = 3600
_MARGIN_S = 10
_CLIENT = "crucible"

Send = Callable[[Request], Response]


class Authorization:
    """Of one registry. Safe to use from several threads: they share the tokens."""

    def __init__(
        self,
        registry: str,
        *,
        credentials: Callable[[], Credentials | None],
        send: Send,
        may_use: Callable[[Url], bool],
    ) -> None:
        self._registry = registry
        self._find = credentials
        self._send = send
        self._may_use = may_use
        self._headers: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def header(self, scope: str) -> str:
        """What was given for this scope and still holds; else nothing."""
        value, until = self._headers.get(scope, ("", 0.0))
        return value if time.monotonic() < until else ""

    def answer(self, challenges: tuple[Challenge, ...], scope: str, refused: str) -> str:
        """The header for the next try. `refused` is the one that was sent and did not do.

        Raises RegistryDenied when there is nothing (else) to answer with.
        """
        with self._lock:
            current = self.header(scope)
            if current and current != refused:
                return current  # another thread has been here
            value, life = self._make(challenges, scope)
            if value == refused:
                raise RegistryDenied(self._registry, _what(scope))
            self._headers[scope] = value, time.monotonic() + life
            return value

    def _make(self, challenges: tuple[Challenge, ...], scope: str) -> tuple[str, float]:
        credentials = self._find()
        for challenge in challenges:
            if challenge.scheme == "bearer" and challenge.parameters.get("realm"):
                if credentials and credentials.registry_token:
                    return _bearer(self._registry, credentials.registry_token), _LONGEST_LIFE_S
                return self._token(challenge.parameters, scope, credentials)
        wants_login = any(challenge.scheme == "basic" for challenge in challenges)
        if wants_login and credentials and credentials.username:
            return credentials.basic, _LONGEST_LIFE_S
        raise RegistryDenied(self._registry, _what(scope))

    def _token(
        self, asked: Mapping[str, str], scope: str, credentials: Credentials | None
    ) -> tuple[str, float]:
        request = self._token_request(asked, scope, credentials)
        with self._send(request) as response:
            if response.status in (400, 401, 403):
                raise RegistryDenied(self._registry, _what(scope))
            if response.status != 200:
                raise self._broken(f"its token service answers {response.status}")
            data = response.read(_MAX_TOKEN_ANSWER_BYTES)
        try:
            document = json.loads(data or b"")
            token = document.get("token") or document.get("access_token")
            life = document.get("expires_in") or _DEFAULT_LIFE_S
        except (ValueError, RecursionError, AttributeError):
            token = life = None
        if not isinstance(token, str) or type(life) is not int:
            raise self._broken("its token service gives no token")
        return _bearer(self._registry, token), max(0, min(life, _LONGEST_LIFE_S) - _MARGIN_S)

    def _token_request(
        self, asked: Mapping[str, str], scope: str, credentials: Credentials | None
    ) -> Request:
        """The realm may be on another host; it gets the login for this registry and no other."""
        try:
            realm = parse_url(asked["realm"])
        except BadUrl as error:
            raise self._broken(f"its token service: {error}") from None
        if not self._may_use(realm):
            raise self._broken(f"its token service {realm.authority} is not reached over TLS")
        service = {"service": asked["service"]} if asked.get("service") else {}
        scope = scope or asked.get("scope", "")
        if credentials and credentials.identity_token:
            form = {"grant_type": "refresh_token", "client_id": _CLIENT, "scope": scope, **service}
            form["refresh_token"] = credentials.identity_token
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            return Request(
                method="POST", url=realm, headers=kind, body=urlencode(form).encode("ascii")
            )
        headers = {}
        fields = [*service.items(), *(("scope", one) for one in scope.split())]
        if credentials and credentials.username:
            headers["Authorization"] = credentials.basic
            fields.append(("account", credentials.username))
        joint = "&" if "?" in realm.target else "?"
        target = f"{realm.target}{joint}{urlencode(fields)}"
        url = Url(scheme=realm.scheme, host=realm.host, port=realm.port, target=target)
        return Request(method="GET", url=url, headers=headers)

    def _broken(self, why: str) -> RegistryBroken:
        return RegistryBroken(self._registry, why)


def _bearer(registry: str, token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise RegistryBroken(registry, "its token holds characters that no token has")
    return f"Bearer {token}"


def _what(scope: str) -> str:
    """`repository:library/python:pull` → what a person asked for."""
    words = scope.split(":")
    return f"access to {words[1]}" if len(words) > 2 else "access"
