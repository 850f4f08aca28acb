"""IP addresses: which are of the public internet, and what the others are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Kind(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    SHARED = "carrier-grade NAT"
    METADATA = "cloud metadata"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    EMBEDDED = "an IPv4 address in IPv6 clothes"


Classifier = Callable[[Address], Kind]

# What the flag `+private` of a rule opens. The others need a rule with the address itself.
NEIGHBOURS: Final = frozenset({Kind.PRIVATE, Kind.LOOPBACK, Kind.LINK_LOCAL, Kind.SHARED})

# The first that holds an address is what it is.
_RANGES: Final = tuple(
    (ip_network(text), kind)
    for kind, texts in (
        (
            Kind.METADATA,
            "169.254.169.254 169.254.170.2 169.254.170.23 169.254.169.253 100.100.100.200"
            " 168.63.129.16 192.0.0.192 fd00:ec2::254 fd00:ec2::253 fd00:ec2::23 fd20:ce::254",
        ),
        (Kind.LOOPBACK, "127.0.0.0/8 ::1/128"),
        (Kind.PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"),
        (Kind.LINK_LOCAL, "169.254.0.0/16 fe80::/10"),
        (Kind.SHARED, "100.64.0.0/10"),
        (Kind.MULTICAST, "224.0.0.0/4 ff00::/8"),
        (
            Kind.EMBEDDED,
            "::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 2002::/16 2001::/32",
        ),
        (
            Kind.RESERVED,
            "0.0.0.0/8 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24"
            " 203.0.113.0/24 240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20",
        ),
        (Kind.EMBEDDED, "::/96"),
        # All that is outside of 2000::/3; `::/0` itself would let a rule for everything name it.
        (
            Kind.RESERVED,
            "::/8 100::/8 200::/7 400::/6 800::/5 1000::/4 4000::/3 6000::/3 8000::/3 a000::/3"
            " c000::/3 e000::/4 f000::/5 f800::/6 fe00::/9",
        ),
    )
    for text in texts.split()
)


def parse_address(text: str) -> Address | None:
    """An address as everybody writes it; None for other spellings and for one with a zone."""
    if len(text) > 45 or "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def kind_of(address: Address) -> Kind:
    found = special_range(address)
    return Kind.PUBLIC if found is None else found[1]


def special_range(address: Address) -> tuple[Network, Kind] | None:
    for network, kind in _RANGES:
        if address.version == network.version and address in network:
            return network, kind
    return None


def within(inner: Network, outer: Network) -> bool:
    if isinstance(inner, IPv4Network):
        return isinstance(outer, IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def disguises(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 addresses that a translator on the way could make of it."""
    yield address
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    if kind_of(address) is not Kind.EMBEDDED:
        # ISATAP carries one in the host part of any prefix.
        if (bits >> 32) & 0xFDFFFFFF == 0x5EFE:
            yield IPv4Address(bits & 0xFFFFFFFF)
        return
    yield IPv4Address(bits & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _LOCAL_NAT64:
        yield IPv4Address(((bits >> 48) & 0xFFFF0000) | ((bits >> 40) & 0xFFFF))


_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
