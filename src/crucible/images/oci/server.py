"""One registry's HTTP service: finds out how it is spoken to, follows redirects, signs in, tries again.

Knows nothing of images: paths go in, answers come out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime

from crucible.errors import (
    RegistryBroken,
    RegistryBusy,
    RegistryDenied,
    RegistryUnreachable,
    RegistryUntrusted,
)
from crucible.images.oci.addresses import BadUrl, Url, is_loopback, split_host
from crucible.images.oci.authorization import Authorization
from crucible.images.oci.challenges import parse_challenges
from crucible.images.oci.credentials import Credentials
from crucible.images.oci.settings import RegistrySettings
from crucible.images.oci.timed_socket import FilePart
from crucible.images.oci.transport import (
    ConnectionFailed,
    NoConnection,
    NotTls,
    Request,
    Response,
    Transport,
    Untrusted,
)

_MAX_REDIRECTS = 5
# Where nobody answers, more tries seldom help.
_CONNECTIONS = 3
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_TRIED_AGAIN = frozenset((408, 429, 500, 502, 503, 504))
_API_HOSTS = {"docker.io": "registry-1.docker.io"}

Pause = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question. `scope` is what a token must allow; `path` may be a whole address the server gave.

    One that is not worth waiting for is asked only once.
    """

    method: str
    path: str | Url
    scope: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | FilePart | None = None
    on_sent: Callable[[int], None] | None = None
    is_worth_waiting: bool = True


class Server:
    """`name` is the registry's as people write it: logins and messages go by it."""

    def __init__(
        self,
        name: str,
        *,
        transport: Transport,
        settings: RegistrySettings,
        credentials: Callable[[], Credentials | None],
        pause: Pause,
        is_plain: bool = False,
    ) -> None:
        self.name = name
        self._patience = settings.patience
        self._transport = transport
        self._insecure = settings.insecure | ({name} if is_plain else frozenset())
        self._scheme = "http" if is_plain else "https"
        self._host, self._port = split_host(_API_HOSTS.get(name, name))
        self._pause = pause
        self._authorization = Authorization(
            name,
            credentials=credentials,
            send=lambda request: self._patiently(
                lambda: self._follow(request), self._patience.attempts
            ),
            may_use=self._may_use,
        )

    def ask(self, ask: Ask) -> Response:
        """The answer, whatever its status is once signing in and trying again are done with."""
        attempts = self._patience.attempts if ask.is_worth_waiting else 1
        return self._patiently(lambda: self._signed(ask), attempts)

    def url(self, path: str) -> Url:
        port = self._port or {"http": 80, "https": 443}[self._scheme]
        return Url(scheme=self._scheme, host=self._host, port=port, target=path)

    def located(self, response: Response) -> Url:
        """Where the answer's Location leads; back to TLS where only a proxy forgot that it was there."""
        asked, location = response.url, response.headers.get("Location")
        if not location:
            raise RegistryBroken(self.name, "it points elsewhere without saying where")
        try:
            url = asked.joined(location)
        except BadUrl as error:
            raise RegistryBroken(self.name, f"it points elsewhere: {error}") from None
        if asked.scheme == "https" and url.scheme == "http" and url.host == asked.host:
            url = replace(url, scheme="https", port=asked.port)
        if not self._may_use(url):
            raise RegistryBroken(self.name, f"it points to {url.authority} without TLS")
        return url

    def _patiently(self, attempt: Callable[[], Response], attempts: int) -> Response:
        """Asks again while that may help, after the pause the server asks for or a growing one."""
        pause_s = self._patience.first_pause_s
        for left in range(attempts - 1, -1, -1):
            wait_s = 0.0
            try:
                response = attempt()
                if response.status not in _TRIED_AGAIN:
                    return response
                wait_s = _retry_after(response)
                response.close()
                if not left or wait_s > self._patience.longest_pause_s:
                    raise RegistryBusy(self.name, response.status, wait_s)
            except Untrusted as error:
                raise RegistryUntrusted(self.name, str(error)) from None
            except ConnectionFailed as error:
                is_gone = isinstance(error, NoConnection) and attempts - left >= _CONNECTIONS
                if not left or is_gone:
                    raise RegistryUnreachable(self.name, str(error)) from None
            self._pause(wait_s or pause_s * random.uniform(0.7, 1.3))  # noqa: S311
            pause_s = min(pause_s * 2, self._patience.longest_pause_s)
        raise RegistryUnreachable(self.name, "no attempt was allowed")

    def _signed(self, ask: Ask) -> Response:
        sent = self._authorization.header(ask.scope)
        response = self._follow(self._request(ask, sent))
        # An answer from somewhere else is not the registry's to challenge with.
        if response.status != 401 or response.url.origin != self.url("/").origin:
            return response
        challenges = parse_challenges(response.headers.get_all("WWW-Authenticate") or [])
        response.close()
        given = self._authorization.answer(challenges, ask.scope, sent)
        response = self._follow(self._request(ask, given))
        if response.status == 401:
            response.close()
            raise RegistryDenied(self.name, _what(ask))
        return response

    def _request(self, ask: Ask, authorization: str) -> Request:
        url = self.url(ask.path) if isinstance(ask.path, str) else ask.path
        headers = dict(ask.headers)
        if authorization and url.origin == self.url("/").origin:
            headers["Authorization"] = authorization
        return Request(
            method=ask.method, url=url, headers=headers, body=ask.body, on_sent=ask.on_sent
        )

    def _follow(self, request: Request) -> Response:
        """Goes where the answers point, a few times; to another server without what we are known by."""
        for _ in range(_MAX_REDIRECTS + 1):
            response = self._send(request)
            if response.status not in _REDIRECTS or request.method not in ("GET", "HEAD"):
                return response
            with response:
                url = self.located(response)
            headers = dict(request.headers)
            if url.origin != request.url.origin:
                headers.pop("Authorization", None)
            request = replace(request, url=url, headers=headers)
        raise RegistryBroken(self.name, f"more than {_MAX_REDIRECTS} redirects")

    def _send(self, request: Request) -> Response:
        try:
            return self._transport.send(request)
        except (NotTls, NoConnection) as error:
            if isinstance(error, NoConnection) and (self._port or request.url.scheme == "http"):
                raise
            plain = replace(request.url, scheme="http", port=self._port or 80)
            if request.url.host != self._host or not self._may_use(plain):
                raise
            # It may be spoken to in plain HTTP, and that is all it speaks.
            self._scheme = "http"
            return self._transport.send(replace(request, url=plain))

    def _may_use(self, url: Url) -> bool:
        """Plain HTTP is for hosts that were named for it, and from this host to itself."""
        if url.scheme == "https" or url.authority in self._insecure:
            return True
        return is_loopback(url.host) and is_loopback(self._host)


def _retry_after(response: Response) -> float:
    """Seconds, or a date. What cannot be read counts as nothing."""
    text = (response.headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0


def _what(ask: Ask) -> str:
    words = ask.scope.split(":")
    return f"access to {words[1]}" if len(words) > 2 else "access"
