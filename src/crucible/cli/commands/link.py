"""`link`: another way into the application for a browser of this machine's user."""

from __future__ import annotations

from crucible.cli.grammar import JSON, Arguments, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_WAIT_S = 30.0
_LARGEST = 1 << 16


def link(arguments: Arguments) -> int:
    """The address goes to standard output."""
    from crucible.cli import render
    from crucible.config import load_config

    found = _ask(load_config().home)
    if arguments.flag("json"):
        render.show_json({"url": found["url"], "lifetime_s": found["lifetime_s"]})
        return 0
    render.say(str(found["url"]))
    if "#" in str(found["url"]):
        render.tell(f"It is good once, and for {found['lifetime_s'] / 60:g} minutes")
    return 0


def _ask(home: Path) -> dict[str, Any]:
    import json

    from crucible.client.answers import ServiceError
    from crucible.errors import EXIT_REFUSED, ServerMissing

    try:
        status, data = _post(home)
        told = json.loads(data)
    except (OSError, ValueError):
        raise ServerMissing from None
    if status == 201 and isinstance(told, dict):
        return told
    raise ServiceError(
        told["message"], hint=told["hint"], code=told["code"], exit_status=EXIT_REFUSED
    )


def _post(home: Path) -> tuple[int, bytes]:
    import http.client
    import socket

    path = home / "http.sock"

    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(_WAIT_S)
            self.sock.connect(str(path))

    connection = Connection("localhost")
    try:
        connection.request("POST", "/api/v1/auth/links")
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST)
    finally:
        connection.close()


COMMANDS = (
    Command(
        "link",
        run=link,
        options=(JSON,),
        notes="""\
For the server of this state directory, whose socket shows that it is you. The link signs one
browser in, once and within ten minutes. With accounts it leads to the first sign-up, and when
somebody has signed up, to the sign-in page.""",
        examples=(("crucible link", "open what it prints in a browser"),),
    ),
)
