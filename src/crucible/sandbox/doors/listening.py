"""Where programs in a sandbox listen, as its kernel tells it, and offering what they open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Set

from crucible.sandbox.doors.notices import Notices
from crucible.sandbox.session import Files

_LARGEST_TABLE = 1 << 20
_LISTENING = b"0A"
_LOOK_EVERY_S = 2.0
# The agent's own ends of the way out, as the kernel writes 198.18.0.2 and 2001:2::2.
_AGENTS_OWN = (b"020012C6", b"02000120000000000000000002000000")


async def listening_ports(files: Files) -> list[int]:
    ports: set[int] = set()
    for path in (b"/proc/1/net/tcp", b"/proc/1/net/tcp6"):
        ports |= _listening(await _read_some(files, path))
    return sorted(ports)


async def offer_ports(
    files: Files, notices: Notices, published: Set[int], offered: set[int], name: str
) -> None:
    """Tells of every port that a program opens, until cancelled. `name` is "" for a temporary sandbox.

    `offered` are those that were told already, by whoever watched: a server may be quicker than the first look.
    """
    while True:
        found = await listening_ports(files)
        offered.intersection_update(found)
        for port in found:
            if port in published or port in offered:
                continue
            offered.add(port)
            how = f"`crucible open {name} {port}`" if name else f"-p {port}"
            notices.tell(f"ports: {port} was opened in the sandbox; reach it with {how}")
        await asyncio.sleep(_LOOK_EVERY_S)


async def _read_some(files: Files, path: bytes) -> bytes:
    """The beginning of a file: the guest may say that it has no end."""
    text = b""
    async for data in files.read(path, length=_LARGEST_TABLE):
        text += data
        if len(text) >= _LARGEST_TABLE:
            break
    return text


def _listening(table: bytes) -> set[int]:
    ports = set()
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 3 and words[3] == _LISTENING:
            address, _, port = words[1].rpartition(b":")
            if address not in _AGENTS_OWN:
                with contextlib.suppress(ValueError):
                    ports.add(int(port, 16))
    return ports
