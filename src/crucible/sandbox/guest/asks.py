"""What a guest says that a program wants to reach, checked for shape. It is not trusted for that."""

from __future__ import annotations

import re
import socket
from typing import Final

from crucible.errors import ProtocolBroken
from crucible.network.outlet import Ask
from crucible.wire.answers import AskRecord

MAX_NAME: Final = 253
_NAME: Final = re.compile(rb"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\Z")


def checked(record: AskRecord) -> Ask:
    if record.name and (len(record.name) > MAX_NAME or not _NAME.match(record.name)):
        raise ProtocolBroken("a connection is asked for by a name that no host can have")
    if not record.port:
        raise ProtocolBroken("a connection is asked for to port 0")
    family = socket.AF_INET if len(record.address) == 4 else socket.AF_INET6
    return Ask(
        number=record.number,
        name=record.name.decode("ascii"),
        address=socket.inet_ntop(family, record.address),
        port=record.port,
    )
