"""Which ports of a sandbox can be reached from where, as text: `[ADDRESS:][HOST:]GUEST`."""

from __future__ import annotations

from typing import NamedTuple

from crucible.errors import BadSetting

LOOPBACK = "127.0.0.1"
MOST_PORTS = 64


class Port(NamedTuple):
    """`host` 0 is any that is free."""

    address: str
    host: int
    guest: int

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.host}:{self.guest}"


def parse_port(text: str) -> Port:
    """Without an address it is this machine's loopback alone; without a port of the host, the same one."""
    rest, _, guest = text.rpartition(":")
    address, host = "", rest
    if ":" in rest or "." in rest or "[" in rest:
        address, _, host = rest.rpartition(":")
        if not address or address.endswith(":"):
            raise _no_port(text)
    found = Port(_address(text, address), _number(text, host or guest), _number(text, guest))
    if found.guest == 0:
        raise _no_port(text)
    return found


def _address(text: str, address: str) -> str:
    if not address:
        return LOOPBACK
    if address == "localhost":
        return LOOPBACK
    import ipaddress

    try:
        return str(ipaddress.ip_address(address.removeprefix("[").removesuffix("]")))
    except ValueError:
        raise _no_port(text) from None


def _number(text: str, number: str) -> int:
    if not (number.isascii() and number.isdecimal() and len(number) <= 5 and int(number) < 65536):
        raise _no_port(text)
    return int(number)


def _no_port(text: str) -> BadSetting:
    return BadSetting(
        f"{text!r} names no port", hint="Write 8080, 9000:80, 0:80 or 0.0.0.0:9000:80"
    )
