"""From a decision to a connection: resolve once, judge every address, dial one of those and no other.

With a proxy of the host's own, the proxy dials. It is told the address that was judged, or, when a rule is about the
name, the name: then the person who wrote the rule vouches for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crucible.network.addresses import Address, parse_address
from crucible.network.dial import Dialer, dial
from crucible.network.outlet import ByteStream
from crucible.network.policy import Decision
from crucible.network.proxies import Proxies, TunnelRefused, Upstream, tunnel
from crucible.network.resolver import HostResolver, ResolveFailed, Resolver

WEB_PORTS: Final = (80, 443)

Decide = Callable[[str, str, int], Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """`address` is what was dialled, "" when a proxy of the host dials. `forward` is set when `stream` leads to a
    proxy that wants whole requests instead of a tunnel."""

    stream: ByteStream
    address: str
    decision: Decision
    forward: Upstream | None = None


class Denied(Exception):
    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.decision = decision


class Reach:
    def __init__(
        self,
        *,
        resolver: Resolver | None = None,
        dialer: Dialer = dial,
        proxies: Proxies | None = None,
    ) -> None:
        self._resolver = resolver or HostResolver()
        self._dialer = dialer
        self._proxies = proxies or Proxies()

    async def __call__(self, name: str, address: str, port: int, decide: Decide) -> Reached:
        """For a name or an address that was allowed as such. Raises Denied, and OSError if nobody answers."""
        upstream = self._proxies.choose(name or address, port)
        decision = decide(name, address, port)
        try:
            allowed, decision = await self._judged(name, address, port, decide)
        except ResolveFailed:
            if upstream is None or not decision.is_explicit:
                raise
            allowed = []
        if upstream is None:
            stream, dialled = await self._dialer(allowed, port)
            return Reached(stream=stream, address=str(dialled), decision=decision)
        target = name if decision.is_explicit and name else str(allowed[0])
        return await self._by_proxy(upstream, target, port, decision, allowed)

    async def _judged(
        self, name: str, address: str, port: int, decide: Decide
    ) -> tuple[list[Address], Decision]:
        """The addresses that may be dialled, all others left out."""
        literal = parse_address(address) if address else None
        found = (literal,) if literal is not None else await self._resolver.resolve(name)
        allowed: list[Address] = []
        refusal = decision = decide(name, address, port)
        for candidate in found:
            verdict = decide(name, str(candidate), port)
            if verdict.allowed:
                allowed.append(candidate)
                decision = verdict
            else:
                refusal = verdict
        if not allowed:
            raise Denied(refusal) if found else ResolveFailed(f"`{name}` has no address")
        return allowed, decision

    async def _by_proxy(
        self,
        upstream: Upstream,
        target: str,
        port: int,
        decision: Decision,
        allowed: list[Address],
    ) -> Reached:
        stream = await self._to_proxy(upstream)
        if port == 80 and decision.is_checked:
            return Reached(stream=stream, address="", decision=decision, forward=upstream)
        try:
            tunnelled = await tunnel(stream, upstream, target, port)
        except TunnelRefused:
            await stream.close()
            if port in WEB_PORTS or not allowed:
                raise
            # Proxies often carry the web only; programs of this host would go past it as well.
            direct, dialled = await self._dialer(allowed, port)
            return Reached(stream=direct, address=str(dialled), decision=decision)
        except BaseException:
            await stream.abort()
            raise
        return Reached(stream=tunnelled, address="", decision=decision)

    async def _to_proxy(self, upstream: Upstream) -> ByteStream:
        """The host's own setting, so no policy of a sandbox is asked."""
        literal = parse_address(upstream.host)
        found = [literal] if literal else list(await self._resolver.resolve(upstream.host))
        stream, _ = await self._dialer(found, upstream.port)
        if not upstream.is_tls:
            return stream
        from crucible.network.tls import TlsStream, client_context

        secure = TlsStream(stream, client_context(), server_name=upstream.host)
        try:
            await secure.shake_hands()
        except BaseException:
            await stream.abort()
            raise
        return secure
