"""One rule of a network policy, from the text that a person writes.

github.com   *.github.com   api.example.com:8443   db.corp.example:5432+private
203.0.113.7  10.0.0.0/8:22,8000-8010   [2001:db8::1]:443   [2001:db8::]/32   @git   @registries
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final

from crucible.errors import BadSetting
from crucible.network.addresses import Address, Network, parse_address, special_range, within
from crucible.network.names import MAX_NAME, normal_name

MAX_RULE: Final = 512
WEB_PORTS: Final = ((80, 80), (443, 443))
ANY_PORT: Final = ((1, 65535),)
FLAGS: Final = ("private", "unchecked")

_SET: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_PORT: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_URL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^/@]*@)?([^/?#]+)")

PortRanges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What it is about is exactly one of `name`, `suffix` (".example.com"), `network` and `set_name`.

    `ports` is empty when none were written: then an allowing rule means those of the web, a denying one all.
    `reaches_private` lets a name resolve to a neighbour's address; `is_unchecked` lets a connection
    say another name (SNI, Host) than the one that was asked for.
    """

    text: str
    name: str = ""
    suffix: str = ""
    network: Network | None = None
    set_name: str = ""
    ports: PortRanges = ()
    reaches_private: bool = False
    is_unchecked: bool = False

    def covers_name(self, name: str) -> bool:
        if self.name:
            return name == self.name
        return bool(self.suffix) and name.endswith(self.suffix)

    def covers_address(self, address: Address) -> bool:
        if self.network is None or self.network.version != address.version:
            return False
        return address in self.network

    def names_address(self, address: Address) -> bool:
        """Covers it, and was meant to: `0.0.0.0/0` is not about 10.0.0.1, `10.0.0.0/16` is."""
        if self.network is None or not self.covers_address(address):
            return False
        special = special_range(address)
        return special is None or self.reaches_private or within(self.network, special[0])

    def covers_port(self, port: int, default: PortRanges) -> bool:
        return any(low <= port <= high for low, high in self.ports or default)


def parse_rule(text: str) -> Rule:
    """Raises BadSetting, with a rule that would be right where one can be guessed."""
    written = text.strip()
    if not written or len(written) > MAX_RULE:
        raise _bad(text, hint="Write a host name, such as `github.com`")
    body, *flags = written.split("+")
    for flag in flags:
        if flag not in FLAGS:
            raise _bad(text, hint=f"What can follow a plus sign: {', '.join(FLAGS)}")
    target, ports_text = _split(text, body)
    ports = _ports(text, ports_text)
    rule = _target(text, target, ports, set(flags))
    if flags and rule.set_name:
        raise _bad(text, hint=f"A set has no flags; write `@{rule.set_name}`")
    return rule


def _target(text: str, target: str, ports: PortRanges, flags: set[str]) -> Rule:
    private, unchecked = "private" in flags, "unchecked" in flags
    tail = _ports_text(ports) + "".join(f"+{flag}" for flag in FLAGS if flag in flags)
    if target.startswith("@"):
        set_name = target[1:].lower()
        if not _SET.fullmatch(set_name):
            raise _bad(text, hint="A set is `@git`, `@models` or `@registries`")
        return Rule(text=f"@{set_name}{tail}", set_name=set_name, ports=ports)
    if (network := _network(text, target)) is not None:
        written = str(network.network_address) if network.num_addresses == 1 else str(network)
        if network.version == 6 and ports:
            written = f"[{network.network_address}]" + written[len(str(network.network_address)) :]
        return Rule(
            text=written + tail,
            network=network,
            ports=ports,
            reaches_private=private,
            is_unchecked=unchecked,
        )
    is_suffix = target.startswith("*.")
    name = normal_name(target[2:] if is_suffix else target)
    if name is None:
        raise _bad(text, hint=_guess(target))
    return Rule(
        text=("*." if is_suffix else "") + name + tail,
        name="" if is_suffix else name,
        suffix="." + name if is_suffix else "",
        ports=ports,
        reaches_private=private,
        is_unchecked=unchecked,
    )


def _split(text: str, body: str) -> tuple[str, str]:
    """The target and what is behind its colon, if anything."""
    if (url := _URL.match(body)) is not None:
        raise _bad(text, hint=f"Leave scheme and path away: `{url[1]}`")
    if body.startswith("["):
        inner, bracket, rest = body[1:].partition("]")
        length, colon, ports = rest.partition(":")
        if not bracket or (length and not length.startswith("/")):
            raise _bad(text, hint="Write an IPv6 address with a port as `[2001:db8::1]:443`")
        return inner + length, ports if colon else ""
    if body.count(":") > 1:
        return body, ""
    target, colon, ports = body.partition(":")
    if colon and not ports:
        raise _bad(text, hint=f"Name a port behind the colon, or leave it away: `{target}`")
    return target, ports


def _ports(text: str, written: str) -> PortRanges:
    if not written:
        return ()
    if written == "*":
        return ANY_PORT
    ranges = []
    for part in written.split(","):
        match = _PORT.fullmatch(part)
        low = int(match[1]) if match else 0
        high = int(match[2]) if match and match[2] else low
        if not 1 <= low <= high <= 65535:
            raise _bad(
                text, hint="Ports are numbers from 1 to 65535: `host:22`, `host:80,443`, `host:*`"
            )
        ranges.append((low, high))
    return tuple(sorted(set(ranges)))


def _ports_text(ports: PortRanges) -> str:
    if not ports:
        return ""
    if ports == ANY_PORT:
        return ":*"
    return ":" + ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ports)


def _network(text: str, target: str) -> Network | None:
    address, slash, length = target.partition("/")
    parsed = parse_address(address)
    if parsed is None:
        return None
    if not slash:
        return ip_network(parsed)
    if not re.fullmatch(r"[0-9]{1,3}", length) or int(length) > parsed.max_prefixlen:
        raise _bad(text, hint=f"Behind the slash stands a number from 0 to {parsed.max_prefixlen}")
    network = ip_network(f"{parsed}/{length}", strict=False)
    if network.network_address != parsed:
        raise _bad(text, hint=f"The network that holds it is `{network}`")
    return network


def _guess(target: str) -> str:
    if target in ("*", "*.*"):
        return "To reach every public host, use the mode `full`"
    host, slash, _ = target.partition("/")
    if slash and normal_name(host):
        return f"Leave the path away: `{host}`"
    parts = target.strip("*").strip(".")
    if "*" in target and (name := normal_name(parts)):
        return f"A star stands for whole labels at the beginning: `*.{name}`"
    if len(target) > MAX_NAME:
        return f"A host name has at most {MAX_NAME} characters"
    return "Write a host name (`github.com`), `*.suffix`, an address, or a set (`@git`)"


def _bad(text: str, *, hint: str) -> BadSetting:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return BadSetting(f"{shown!r} is not a network rule", hint=hint)
