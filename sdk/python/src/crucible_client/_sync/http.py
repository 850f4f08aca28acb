"""Requests and their answers: bounded, timed, tried again where that is safe, and every failure one of our errors."""

# Made of the file of this name in `_async` by scripts/python_sdk.py; `make docs` writes it anew.

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from crucible_client import __version__
from crucible_client._sync.transport import LIMITS, make_transport
from crucible_client._sync.waiting import beside, sleep
from crucible_client.address import Address
from crucible_client.errors import (
    BadAnswer,
    ConnectionLost,
    CrucibleError,
    NoAnswer,
    ServerUnreachable,
    from_problem,
)
from crucible_client.events import Event, EventDecoder, parse_json, parse_object
from crucible_client.reading import Reader

API = "/api/v1"
LARGEST_ANSWER = 64 << 20
LARGEST_PROBLEM = 1 << 20
LARGEST_CONTENT = 1 << 30
MOST_PAGES = 1000
LARGEST_PAGE = 500
CONNECT_S = 10.0
# Streams of events have a beat every fifteen seconds.
SILENCE_S = 60.0
TRIES = 3
LONGEST_PAUSE_S = 5.0
_BUSY = (429, 503)
_SAFE = frozenset(("GET", "HEAD"))

Content = bytes | Iterator[bytes]


class Http:
    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._has_reached = False
        self._client = httpx.Client(
            base_url=address.url,
            headers={
                "User-Agent": f"crucible-client/{__version__}",
                "Accept-Encoding": "identity",
                **address.headers,
            },
            transport=make_transport(address),
            limits=LIMITS,
            # A proxy is for servers elsewhere: one on this machine speaks plain HTTP.
            trust_env=address.url.startswith("https:"),
        )

    def close(self) -> None:
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        content: Content | None = None,
        content_type: str | None = None,
        is_keyed: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer's JSON, or None if it has none. `is_keyed`: the server does it once, however often it is sent."""
        headers = {"Idempotency-Key": secrets.token_hex(16)} if is_keyed else {}
        if content_type is not None:
            headers["Content-Type"] = content_type
        request = self._request(method, path, json, params, content, headers, timeout_s)
        is_safe = method in _SAFE or is_keyed
        for attempt in range(1, TRIES + 1):
            try:
                with self._sent(request) as response:
                    body = _whole(response, LARGEST_ANSWER)
                return parse_json(body) if body else None
            except ConnectionLost:
                if not is_safe or attempt == TRIES:
                    raise
                sleep(0.1 * attempt)
        raise AssertionError("unreachable")

    def pages(
        self, path: str, *, params: Mapping[str, Any] | None = None, most: int | None = None
    ) -> list[Any]:
        """The items of a list, from its first page to its last; no more of them than `most`."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            asked = {**(params or {}), "cursor": cursor}
            if most is not None:
                asked["limit"] = max(1, min(LARGEST_PAGE, most - len(found)))
            page = Reader(self.call("GET", path, params=asked))
            found += page.items("items")
            cursor = page.text_or_none("next")
            if cursor is None or (most is not None and len(found) >= most):
                return found[:most]
        raise BadAnswer(f"The server's list has more than {MOST_PAGES} pages")

    def whole(self, path: str, *, params: Mapping[str, Any] | None = None) -> bytes:
        """The answer's bytes, as they are."""
        request = self._request("GET", path, None, params, None, {}, None)
        with self._sent(request) as response:
            return _whole(response, LARGEST_CONTENT)

    @contextmanager
    def pieces(
        self, path: str, *, params: Mapping[str, Any] | None = None
    ) -> Iterator[Iterator[bytes]]:
        """An answer's bytes as they come."""
        request = self._request("GET", path, None, params, None, {}, SILENCE_S)
        with self._sent(request) as response:
            yield _pieces(response)

    def events(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        last: str | None = None,
    ) -> Generator[Event]:
        """Events until the answer ends; one that tells of an error raises it."""
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        request = self._request(method, path, json, params, None, headers, SILENCE_S)
        decoder = EventDecoder()
        with self._sent(request) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith("text/event-stream"):
                raise BadAnswer(f"The server answered with {kind[:80]!r}, not with events")
            for piece in _pieces(response):
                for event in decoder.feed(piece):
                    if event.kind == "error":
                        raise from_problem(event.data)
                    yield event

    def _request(
        self,
        method: str,
        path: str,
        json: Any,
        params: Mapping[str, Any] | None,
        content: Content | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> httpx.Request:
        patience = self.timeout_s if timeout_s is None else timeout_s
        return self._client.build_request(
            method,
            f"{API}{path}",
            json=json,
            params=_written(params or {}),
            content=content,
            headers=headers,
            timeout=httpx.Timeout(patience, connect=CONNECT_S, pool=None),
        )

    @contextmanager
    def _sent(self, request: httpx.Request) -> Iterator[httpx.Response]:
        """An answer that says yes. Whatever it is asked for was not done if nobody was reached, or it was refused."""
        response = self._try(request)
        try:
            if response.headers.get("content-encoding", "identity") != "identity":
                # A few bytes could become many: it was asked for none.
                raise BadAnswer("The server's answer is compressed")
            if response.status_code >= 300:
                raise _problem(response)
            yield response
        except httpx.HTTPError as error:
            raise _translated(error, self.address) from error
        finally:
            response.close()

    def _try(self, request: httpx.Request) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            self._reach(is_first=attempt == 1)
            try:
                response = self._client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if attempt == TRIES:
                    raise _translated(error, self.address) from error
                sleep(0.1 * attempt)
                continue
            except httpx.HTTPError as error:
                raise _translated(error, self.address) from error
            pause = _pause(response)
            if pause is None or attempt == TRIES or not _can_go_again(request):
                return response
            response.close()
            sleep(pause)

    def _reach(self, *, is_first: bool) -> None:
        reach = self.address.reach
        if reach is not None and not (self._has_reached and is_first):
            beside(reach)
            self._has_reached = True


def _whole(response: httpx.Response, most: int) -> bytes:
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > most:
            raise BadAnswer(f"The server's answer is larger than {most} bytes")
    return bytes(body)


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    for piece in response.iter_bytes():
        yield piece


def _problem(response: httpx.Response) -> CrucibleError:
    try:
        told = parse_object(_whole(response, LARGEST_PROBLEM))
    except BadAnswer:
        told = {}
    if "code" not in told:
        return BadAnswer(
            f"The server answered with status {response.status_code} and no word of why",
            hint=f"Is {response.request.url.copy_with(path='/')} a Crucible server?",
            status=response.status_code,
        )
    return from_problem(told, response.status_code)


def _translated(error: httpx.HTTPError, address: Address) -> CrucibleError:
    why = str(error)[:300] or type(error).__name__
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return ServerUnreachable(
                f"No server answers at {address.shown}: {why}",
                hint="Start one with `crucible serve`, or name another with CRUCIBLE_URL",
            )
        case httpx.TimeoutException():
            return NoAnswer(f"The server at {address.shown} did not answer in time")
        case httpx.DecodingError() | httpx.TooManyRedirects():
            return BadAnswer(f"The server's answer cannot be read: {why}")
        case _:
            return ConnectionLost(f"The connection to {address.shown} was lost: {why}")


def _pause(response: httpx.Response) -> float | None:
    """How long the server asks us to wait; it has done nothing."""
    told = response.headers.get("retry-after", "")
    if response.status_code not in _BUSY or not told.isascii() or not told.isdecimal():
        return None
    seconds = float(told[:10])
    return seconds if seconds <= LONGEST_PAUSE_S else None


def _can_go_again(request: httpx.Request) -> bool:
    """A body that came from an iterator is used up."""
    return "transfer-encoding" not in request.headers


def _written(params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in params.items()
        if value is not None
    }
