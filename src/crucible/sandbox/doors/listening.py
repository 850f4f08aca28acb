"""Where programs in a sandbox listen, as its kernel tells it."""

from __future__ import annotations

import contextlib

from crucible.sandbox.session import Files

_LARGEST_TABLE = 1 << 20
_LISTENING = b"0A"
# The agent's own ends of the way out, as the kernel writes 198.18.0.2 and 2001:2::2.
_AGENTS_OWN = (b"020012C6", b"02000120000000000000000002000000")


async def listening_ports(files: Files) -> list[int]:
    ports: set[int] = set()
    for path in (b"/proc/1/net/tcp", b"/proc/1/net/tcp6"):
        ports |= _listening(await _read_some(files, path))
    return sorted(ports)


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
