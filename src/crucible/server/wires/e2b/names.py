"""Names beneath the server's domain, as E2B's clients build them: `api`, and `PORT-ID` for a port of a sandbox."""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection

from crucible.server.doorway import E2bDomain
from crucible.values import dataclass

CONTROL = "api"
# What E2B's own programs in a sandbox listen on: here nothing does, and the routes of this wire answer.
ENVD_PORT = 49983
CODE_PORT = 49999
HTTPS_PORT = 443
_INSIDE = re.compile(r"([1-9][0-9]{0,4})-([a-z0-9][a-z0-9-]{0,60})\Z")
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The control plane, or a port of a sandbox."""

    sandbox: str = ""
    port: int = 0

    @property
    def is_control(self) -> bool:
        return not self.sandbox

    @property
    def is_guests_own(self) -> bool:
        """A port at which a program of the sandbox's user may listen."""
        return not self.is_control and self.port not in (ENVD_PORT, CODE_PORT)


def place_of(label: str) -> Place | None:
    """The name is a caller's word and may say anything; whether there is such a sandbox is asked later."""
    if label == CONTROL:
        return Place()
    match = _INSIDE.match(label)
    if match is None or int(match[1]) > _LARGEST_PORT:
        return None
    return Place(sandbox=match[2], port=int(match[1]))


def called_place(connection: HTTPConnection) -> Place | None:
    """What the request's own name means; None if it did not come by such a name."""
    place: Place | None = getattr(connection.state, "place", None)
    return place


def told_domain(connection: HTTPConnection, domain: E2bDomain | None) -> str | None:
    """What clients put behind a port and an id: with the port by which they come in, if it is not the usual one."""
    if domain is None:
        return None
    if domain.port:
        port = domain.port
    elif called_place(connection) is not None:
        port = connection.url.port or HTTPS_PORT
    else:
        server = connection.scope.get("server")
        port = (server[1] if server else None) or HTTPS_PORT
    return domain.name if port == HTTPS_PORT else f"{domain.name}:{port}"
