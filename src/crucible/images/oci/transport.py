"""One HTTP request to one server and its answer: TLS or not, through a proxy or not, never without end.

Built on http.client for the grammar of HTTP; what it lacks is here: a deadline over the whole of an answer's head,
and a pace that a body must keep.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from crucible.images.oci.addresses import Url
from crucible.images.oci.proxies import ProxyRefused, open_tunnel, proxy_for
from crucible.images.oci.settings import Patience
from crucible.images.oci.timed_socket import CHUNK_BYTES, Clock, Connection, FilePart, Sending
from crucible.images.oci.trust import Trust

_AGENT = "crucible"


class ConnectionFailed(Exception):
    """The exchange did not come about or broke off. Trying again may help."""


class NoConnection(ConnectionFailed):
    """Nobody answers there at all."""


class NotTls(ConnectionFailed):
    """The server's first bytes are not TLS's."""


class Ended(Exception):
    """The transport was ended by its owner while this was under way."""


class Untrusted(Exception):
    """The server's certificate does not hold. Trying again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    url: Url
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | FilePart | None = field(default=None, repr=False)
    on_sent: Callable[[int], None] | None = field(default=None, repr=False)


class Transport:
    """Opens a connection for each request. Safe to use from several threads."""

    def __init__(self, patience: Patience, trust: Trust) -> None:
        self._patience = patience
        self._trust = trust
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def send(self, request: Request) -> Response:
        """Whatever status it has, the answer's head; its body is read by the caller. Redirects are not followed."""
        connection = self._connect(request.url)
        try:
            return self._exchange(request, connection)
        except BaseException:
            self._forget(connection.socket)
            raise

    def end(self) -> None:
        """Breaks every exchange that is under way, and lets no other begin."""
        with self._lock:
            self._ended.set()
            for connection in self._open:
                # Not TLS's own shutdown, which would change the object under its reader's hands.
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def pause(self, seconds: float) -> None:
        """Sleeps, but not past the end."""
        if self._ended.wait(seconds):
            raise Ended

    def _connect(self, url: Url) -> Connection:
        proxy = proxy_for(url)
        clock = Clock(self._patience)
        place = (proxy.host, proxy.port) if proxy else (url.host, url.port)
        try:
            plain = socket.create_connection(place, timeout=self._patience.connect_s)
        except (OSError, UnicodeError) as error:
            raise NoConnection(_words(error)) from None
        self._remember(plain)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if url.scheme == "http":
                return Connection(socket=plain, clock=clock, proxy=proxy)
            if proxy:
                open_tunnel(plain, proxy, url, clock.wait)
            secured = self._secure(plain, url, clock)
            return Connection(socket=secured, clock=clock, proxy=None)
        except (OSError, ProxyRefused) as error:
            self._forget(plain)
            raise ConnectionFailed(_words(error)) from None
        except BaseException:
            self._forget(plain)
            raise

    def _secure(self, plain: socket.socket, url: Url, clock: Clock) -> ssl.SSLSocket:
        plain.settimeout(min(clock.wait(), self._patience.connect_s))
        try:
            secured = self._trust.context(url.authority).wrap_socket(
                plain, server_hostname=url.host
            )
        except ssl.SSLCertVerificationError as error:
            raise Untrusted(error.verify_message or "its certificate does not hold") from None
        except (ssl.SSLError, ConnectionResetError) as error:
            raise NotTls(f"it does not speak TLS ({_words(error)})") from None
        self._forget(plain, is_moved=True)
        self._remember(secured)
        return secured

    def _exchange(self, request: Request, connection: Connection) -> Response:
        url, proxy = request.url, connection.proxy
        client = http.client.HTTPConnection(url.host, url.port)
        client.auto_open = 0
        client.sock = connection
        headers = {
            "Host": url.authority,
            "User-Agent": _AGENT,
            "Accept-Encoding": "identity",
            "Connection": "close",
            **request.headers,
        }
        if request.method not in ("GET", "HEAD"):
            headers["Content-Length"] = str(_length(request.body))
        if proxy and proxy.authorization:
            headers["Proxy-Authorization"] = proxy.authorization
        target = str(url) if proxy else url.target
        try:
            with _opened(request) as body:
                client.request(request.method, target, body=body, headers=headers)
            connection.clock.restart()
            answer = client.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(_words(error)) from None
        return Response(url, answer, connection.clock, lambda: self._forget(connection.socket))

    def _remember(self, connection: socket.socket) -> None:
        with self._lock:
            if self._ended.is_set():
                connection.close()
                raise Ended
            self._open.add(connection)

    def _forget(self, connection: socket.socket, *, is_moved: bool = False) -> None:
        with self._lock:
            self._open.discard(connection)
        if not is_moved:
            connection.close()


class Response:
    """An answer whose body is still to be read. Closed by its `with`."""

    def __init__(
        self, url: Url, answer: http.client.HTTPResponse, clock: Clock, close: Callable[[], None]
    ) -> None:
        self.url = url
        self.status = answer.status
        self.headers = answer.headers
        self.length = answer.length  # what the server says the body has, if it says
        self._answer = answer
        self._clock = clock
        self._close = close

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._answer.close()
        self._close()

    def read(self, limit: int) -> bytes | None:
        """The whole body under the exchange's deadline; None when it is longer than `limit`."""
        if self.length is not None and self.length > limit:
            return None
        data = bytearray()
        while len(data) <= limit:
            chunk = self._piece(limit + 1 - len(data))
            if not chunk and self.length not in (None, len(data)):
                raise ConnectionFailed("its answer broke off")
            if not chunk:
                return bytes(data)
            data += chunk
        return None

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes, under no deadline but at a pace. Ends early when the server does."""
        self._clock.keep_pace()
        while chunk := self._piece(CHUNK_BYTES):
            self._clock.count(len(chunk))
            yield chunk

    def _piece(self, size: int) -> bytes:
        try:
            return self._answer.read1(size)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ConnectionFailed(_words(error)) from None


@contextmanager
def _opened(request: Request) -> Iterator[bytes | Sending | None]:
    if not isinstance(request.body, FilePart):
        yield request.body
        return
    with request.body.path.open("rb") as stream:
        yield Sending(stream, request.body, request.on_sent or _ignore)


def _ignore(size: int) -> None:
    """Nobody counts what was sent."""


def _length(body: bytes | FilePart | None) -> int:
    return body.length if isinstance(body, FilePart) else len(body or b"")


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return "it took too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."
