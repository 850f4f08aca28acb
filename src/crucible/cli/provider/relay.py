"""`microvmctl connect`: the owner's socket over standard input and output, for a Crucible on another host.

First comes one line that says who is here; it begins with what the other side chose, so that it is found behind
whatever a login shell has to say. From then on the bytes are those of `client/protocol.py`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from typing import Any

from crucible.cli.provider import lines
from crucible.cli.provider.requests import STDIN
from crucible.errors import BadSetting, CrucibleError

_NONCE = re.compile(r"[0-9a-f]{16,64}\Z")
_PIECE = 1 << 16


def relay(nonce: str) -> int:
    if not _NONCE.match(nonce):
        raise BadSetting("--nonce must be 16 to 64 hexadecimal digits")
    line = f"\n{nonce} {json.dumps(_facts(), separators=(',', ':'))}\n"
    _write_all(lines.STDOUT, line.encode())
    # The owner's patience for a request begins with the connection to it.
    first = os.read(STDIN, _PIECE)
    if not first:
        return lines.FINE
    from crucible.cli.service import owner

    try:
        connection = owner().connect()
    except CrucibleError as error:
        from crucible.client.protocol import json_frame

        _write_all(lines.STDOUT, json_frame({"error": error.as_fields()}))
        return lines.status_of(error)
    connection.sendall(first)
    threading.Thread(target=_inward, args=(connection,), daemon=True).start()
    while data := connection.recv(_PIECE):
        _write_all(lines.STDOUT, data)
    return lines.FINE


def _facts() -> dict[str, Any]:
    """A worker that cannot run sandboxes says so here, and why."""
    import crucible
    from crucible.cli.provider.verbs import host_facts
    from crucible.client.protocol import LENDING
    from crucible.wire.generation import GENERATION

    facts: dict[str, Any] = {
        "contract": lines.CONTRACT,
        "crucible": crucible.__version__,
        "lending": LENDING,
        "generation": GENERATION,
    }
    try:
        return {**facts, **host_facts()}
    except CrucibleError as error:
        return {**facts, "missing": error.as_fields()}


def _inward(connection: socket.socket) -> None:
    try:
        while data := os.read(STDIN, _PIECE):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction tells it


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
