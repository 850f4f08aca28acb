"""The doors of the resident program: HTTP over TCP and over a socket of our own, in the owner's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import struct
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from crucible.errors import BadSetting, DoorTaken, MalformedRequest
from crucible.server.access import LOOPBACK, Access, Mode, OidcSettings
from crucible.server.app import build_app, own_wire
from crucible.server.domain import Domain
from crucible.server.doorway import E2bDomain
from crucible.server.gate import Gate, Rules
from crucible.server.journal import Journal
from crucible.server.problems import MEDIA_TYPE, problem
from crucible.server.tls import Certificate, TlsFiles
from crucible.server.tracing import load_tracing
from crucible.server.wire import Wire
from crucible.values import dataclass

SOCKET_NAME = "http.sock"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7070
DRAIN_S = 5.0
HEADERS_S = 20.0
KEEP_ALIVE_S = 75
_BACKLOG = 512
_LOOK_AGAIN_S = 0.02
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where TCP callers come in, with `tls` by HTTPS alone. With port 0 any free one is taken."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    needs_token: bool = True
    host_names: Collection[str] = ()
    requests_per_second: int = 200
    tls: TlsFiles | None = None
    e2b: E2bDomain | None = None
    has_accounts: bool = False
    is_signup_open: bool = False
    oidc: OidcSettings | None = None
    public_url: str = ""

    @property
    def access(self) -> Access:
        mode = Mode.ACCOUNTS if self.has_accounts else Mode.LOCAL
        return Access(
            mode=mode if self.needs_token else Mode.OPEN,
            is_signup_open=self.is_signup_open,
            is_loopback=self.host in LOOPBACK,
            oidc=self.oidc,
            public_url=self.public_url,
        )

    @property
    def public_names(self) -> tuple[str, ...]:
        return (urlsplit(self.public_url).hostname or "",) if self.public_url else ()

    def __post_init__(self) -> None:
        if not self.needs_token and self.public_url:
            raise BadSetting(
                f"Whoever reaches {self.public_url} would be let in without being known",
                hint="Leave out --no-auth, or CRUCIBLE_PUBLIC_URL",
            )
        if not self.needs_token and self.has_accounts:
            raise BadSetting(
                "With accounts nobody comes in without being known",
                hint="Leave out --no-auth, or --accounts",
            )
        if not self.needs_token and self.host not in LOOPBACK:
            raise BadSetting(
                f"Callers from elsewhere than this machine need a token, and {self.host!r} lets them in",
                hint="Leave out --no-auth, or --host",
            )


class HttpDoors:
    """What the owner is handed: opened with it, drained before it leaves."""

    def __init__(
        self,
        domain: Domain,
        *,
        address: Address | None = None,
        wires: Sequence[Wire] = (),
        journal: Journal | None = None,
    ) -> None:
        self.domain = domain
        self.app = build_app(domain)
        self.url = ""
        self._wires = (*wires, own_wire(self.app))
        self._journal = journal or Journal(tracing=load_tracing())
        self.app.state.journal = self._journal
        self._address = address
        # What is wrong with its files shall be known before anything is opened.
        tls = address.tls if address is not None else None
        self._certificate = Certificate(tls) if tls is not None else None
        self._listeners: list[_Listener] = []
        self._taking_up: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listens on the socket in the state directory and, if there is an address, on TCP."""
        home = self.domain.manager.config.home
        await self._serve(_unix_socket(home), Rules(trusts_peer=True))
        if self._address is not None:
            address = self._address
            sock = _tcp_socket(address)
            self.url = _url(sock, "http" if self._certificate is None else "https")
            self.domain.url = address.public_url or _browser_url(self.url, address)
            rules = Rules(
                needs_token=address.needs_token,
                host_names=frozenset(
                    name.lower()
                    for name in (address.host, *address.host_names, *address.public_names)
                ),
                public_url=address.public_url,
                requests_per_second=address.requests_per_second,
                domain=address.e2b.name if address.e2b is not None else "",
            )
            await self._serve(sock, rules, self._certificate)
        for wire in self._wires:
            if wire.begin is not None:
                wire.begin()
        self._taking_up = asyncio.create_task(self.domain.engine.take_up())

    @property
    def is_busy(self) -> bool:
        is_asked = any(listener.is_busy for listener in self._listeners)
        return is_asked or self.domain.engine.is_busy

    async def drain(self) -> None:
        """Takes no more connections and waits a while for the answers that are under way."""
        self.domain.is_ready = False
        (self.domain.manager.config.home / SOCKET_NAME).unlink(missing_ok=True)
        if self._taking_up is not None:
            await asyncio.gather(self._taking_up, return_exceptions=True)
        # Those who follow a session leave when its engine does.
        engine = self.domain.engine.close()
        await asyncio.gather(engine, *(listener.drain() for listener in self._listeners))
        self._listeners.clear()
        await self.domain.visits.close()
        await self.domain.books.close()
        await self.domain.people.close()
        await asyncio.to_thread(self._journal.close)

    async def _serve(
        self, sock: socket.socket, rules: Rules, certificate: Certificate | None = None
    ) -> None:
        gate = Gate(self.app, self.domain, self._wires, self._journal, rules)
        self._listeners.append(await _Listener.open(_config(gate), sock, certificate))


class _Listener:
    """uvicorn's protocol without its server, which looks ten times a second whether it is to leave."""

    def __init__(self, server: asyncio.Server, state: ServerState) -> None:
        self._server = server
        self._state = state

    @classmethod
    async def open(
        cls, config: uvicorn.Config, sock: socket.socket, certificate: Certificate | None = None
    ) -> _Listener:
        config.load()
        state = ServerState()
        options: dict[str, Any] = {}
        if certificate is not None:
            options = {
                "ssl": certificate.context,
                "ssl_handshake_timeout": HEADERS_S,
                "ssl_shutdown_timeout": DRAIN_S,
            }
        server = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(config=config, server_state=state, app_state={}), sock=sock, **options
        )
        return cls(server, state)

    @property
    def is_busy(self) -> bool:
        return bool(self._state.tasks)

    async def drain(self) -> None:
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._state.connections or self._state.tasks:  # noqa: ASYNC110 - not ours to wake us
                    await asyncio.sleep(_LOOK_AGAIN_S)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._state.connections):
            connection.transport.abort()


class _Protocol(HttpToolsProtocol):
    """Hangs up on who is another user than we are, and on who does not come out with a request."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock.family == socket.AF_UNIX and _peer_uid(sock) != os.getuid():
            transport.abort()
            return
        self._patience = self.loop.call_later(HEADERS_S, transport.abort)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._patience is None:
            self._patience = self.loop.call_later(HEADERS_S, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._be_patient()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or an address that is too long, is refused in the words of all other refusals."""
        error = MalformedRequest("What was sent is no HTTP request, or its address is too long")
        body = bytes(problem(error, secrets.token_hex(8)).body)
        head = (
            "HTTP/1.1 400 Bad Request\r\n"
            f"content-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\n"
            "x-content-type-options: nosniff\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Protocol,
        ws="websockets-sansio",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        ws_max_size=1 << 20,
        # A few bytes would become many messages, all of which lie here before the first is taken.
        ws_per_message_deflate=False,
    )


def _peer_uid(sock: Any) -> int:
    _, uid, _ = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(uid)


def _url(sock: socket.socket, scheme: str) -> str:
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _browser_url(url: str, address: Address) -> str:
    """By a name, so that no port of a sandbox, which is at an address, is sent the cookie: ports make no difference."""
    scheme, _, place = url.partition("://")
    port = place.rpartition(":")[2]
    names = [name for name in address.host_names if not name.startswith("*")]
    is_here = address.host in (*LOOPBACK, "0.0.0.0", "::")  # noqa: S104 - which is not bound here
    return (
        f"{scheme}://{names[0]}:{port}"
        if names
        else f"{scheme}://localhost:{port}"
        if is_here
        else url
    )


def _unix_socket(home: Path) -> socket.socket:
    path = home / SOCKET_NAME
    at = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        sock.bind(f"/proc/self/fd/{at}/{SOCKET_NAME}")
        path.chmod(0o600)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    finally:
        os.close(at)
    return sock


def _tcp_socket(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, number, _, place = found[0]
        sock = socket.socket(family, kind, number)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except (OSError, OverflowError) as error:
        raise DoorTaken(address.host, address.port, str(error)) from None
    return sock
