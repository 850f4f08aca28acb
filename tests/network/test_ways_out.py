"""How the host gets out: its resolver, its dialling, its proxies; and HTTP/2 on the way."""

from __future__ import annotations

import asyncio
import base64
import socket

import h2.config
import h2.connection
import h2.events
import pytest
from tests.conftest import Run
from tests.network.authority import root_text, server_context
from tests.network.world import World, a_world, close, echo, exchange, web

from crucible.errors import BadSetting
from crucible.network.addresses import Address, parse_address
from crucible.network.dial import dial
from crucible.network.events import Outcome
from crucible.network.policy import Policy
from crucible.network.proxies import Proxies, Upstream
from crucible.network.resolver import HostResolver, ResolveFailed

A, PROXY = "93.184.216.34", "10.1.1.1"


def address(text: str) -> Address:
    found = parse_address(text)
    assert found is not None
    return found


async def http2_server(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    seen: list[dict[str, str]] | None = None,
) -> None:
    """Answers every stream with the authority it named; adds the head to what was seen."""
    made = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    )
    made.initiate_connection()
    writer.write(made.data_to_send())
    heads: dict[int, dict[str, str]] = {}
    try:
        while data := await reader.read(65536):
            for event in made.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    heads[event.stream_id] = {str(name): str(text) for name, text in event.headers}
                    if seen is not None:
                        seen.append(heads[event.stream_id])
                elif isinstance(event, h2.events.DataReceived):
                    made.acknowledge_received_data(
                        event.flow_controlled_length or 0, event.stream_id
                    )
                elif isinstance(event, h2.events.StreamEnded):
                    answer = heads[event.stream_id][":authority"].encode()
                    made.send_headers(event.stream_id, [(":status", "200")])
                    made.send_data(event.stream_id, answer, end_stream=True)
            writer.write(made.data_to_send())
            await writer.drain()
    except OSError:
        return
    finally:
        await close(writer)


async def ask_http2(world: World, name: str, *authorities: str) -> list[bytes]:
    """One stream after the other on one connection; ends with what came before the connection did."""
    reader, writer = await world.open(name, 80)
    made = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    made.initiate_connection()
    answers: list[bytes] = []
    try:
        for number, authority in enumerate(authorities):
            made.send_headers(
                1 + 2 * number,
                [
                    (":method", "GET"),
                    (":path", "/"),
                    (":scheme", "http"),
                    (":authority", authority),
                ],
                end_stream=True,
            )
            writer.write(made.data_to_send())
            while len(answers) == number:
                data = await reader.read(65536)
                if not data:
                    return answers
                answers += [
                    event.data or b""
                    for event in made.receive_data(data)
                    if isinstance(event, h2.events.DataReceived)
                ]
    except ConnectionError:
        return answers
    finally:
        await close(writer)
    return answers


async def test_every_stream_of_http2_in_clear_is_held_to_the_name(run: Run) -> None:
    async with a_world(Policy.parse("allowlist", ["good.example"])) as world:
        world.hosts["good.example"] = [A]
        await world.serve(http2_server, (A, 80))
        asked = ("good.example", "good.example:80", "evil.example", "good.example")
        answers = await ask_http2(world, "good.example", *asked)
        assert answers == [b"good.example", b"good.example:80"]
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert event.protocol == "h2c"
        assert "`evil.example`" in event.reason
        world.gateway.policy = world.gateway.policy.allowing("good.example+unchecked")
        answers = await ask_http2(world, "good.example", *asked)
        assert answers[2] == b"evil.example"


async def test_a_name_is_looked_up_by_the_hosts_resolver(run: Run) -> None:
    assert address("127.0.0.1") in await HostResolver().resolve("localhost")


async def test_own_hosts_come_before_the_hosts_resolver(run: Run) -> None:
    resolver = HostResolver({"good.example": [A, "::1"]})
    assert await resolver.resolve("good.example") == (address(A), address("::1"))


async def test_a_name_without_addresses_says_so(run: Run) -> None:
    with pytest.raises(ResolveFailed, match="cannot be resolved"):
        await HostResolver().resolve("a" * 64)


async def test_a_lookup_that_hangs_is_given_up(run: Run) -> None:
    with pytest.raises(ResolveFailed, match="within 0 s"):
        await HostResolver(deadline_s=0).resolve("localhost")


async def test_the_next_address_is_tried_when_one_refuses(run: Run) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    stream, dialled = await dial([address("127.0.0.2"), address("127.0.0.1")], port)
    assert str(dialled) == "127.0.0.1"
    await stream.write(b"x")
    assert await stream.read() == b"x"
    await stream.close()
    server.close()


async def test_no_address_that_answers_is_an_error(run: Run) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await dial([address("127.0.0.1")], closed.getsockname()[1])
    with pytest.raises(OSError, match="no address"):
        await dial([], 80)


def test_proxies_are_read_as_other_programs_read_them() -> None:
    proxies = Proxies.of(
        {
            "HTTPS_PROXY": "http://me:p%40ss@proxy.example:3128",
            "http_proxy": "web.example",
            "NO_PROXY": "localhost, .inner.example,10.0.0.0/8,other.example:8443",
        }
    )
    secret = b"Basic " + base64.b64encode(b"me:p@ss")
    assert proxies.for_rest == Upstream(host="proxy.example", port=3128, credentials=secret)
    assert "p@ss" not in repr(proxies)
    assert proxies.choose("x.example", 80) == Upstream(host="web.example", port=80)
    assert proxies.choose("inner.example", 443) is None
    assert proxies.choose("deep.inner.example", 443) is None
    assert proxies.choose("dinner.example", 443) is not None
    assert proxies.choose("10.2.3.4", 443) is None
    assert proxies.choose("other.example", 8443) is None
    assert proxies.choose("other.example", 443) is not None
    assert (
        Proxies.of({"ALL_PROXY": "http://p.example", "no_proxy": "*"}).choose("x.example", 1)
        is None
    )


@pytest.mark.parametrize("text", ["socks5://p.example:1080", "http://:99999", "ftp://x", "http://"])
def test_a_proxy_that_cannot_be_used_is_not_gone_around(text: str) -> None:
    with pytest.raises(BadSetting):
        Proxies.of({"HTTPS_PROXY": text})


class Tunnels:
    """A proxy as companies have them: knows names of its own, tunnels, forwards, may want a password."""

    def __init__(self, world: World, *, refuses: int = 0) -> None:
        self.world = world
        self.refuses = refuses
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return
        self.heads.append(head)
        method, target, _ = head.split(b" ", 2)
        if self.refuses:
            writer.write(b"HTTP/1.1 %d No\r\n\r\n" % self.refuses)
        elif method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\nfirst ")
            await echo(reader, writer)
            return
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(target), target))
        await close(writer)


def through(host: str = PROXY) -> Proxies:
    upstream = Upstream(host=host, port=3128, credentials=b"Basic abc")
    return Proxies(for_web=upstream, for_rest=upstream, exceptions=("direct.example",))


async def test_the_hosts_proxy_is_asked_for_a_tunnel_to_the_address_that_was_judged(
    run: Run,
) -> None:
    async with a_world(Policy.parse("full"), proxies=through()) as world:
        world.hosts |= {"good.example": [A], "inner.example": ["10.0.0.1"]}
        proxy = Tunnels(world)
        await world.serve(proxy, (PROXY, 3128))
        assert await exchange(world, "good.example", 7, b"hello") == b"first hello"
        assert proxy.heads[0].startswith(f"CONNECT {A}:7 HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic abc\r\n" in proxy.heads[0]
        assert await exchange(world, "inner.example", 7, b"hello") == b""
        assert await exchange(world, "unknown.example", 7, b"hello") == b""
        assert len(proxy.heads) == 1


async def test_a_name_that_a_rule_vouches_for_is_left_to_the_proxy(run: Run) -> None:
    policy = Policy.parse("allowlist", ["known.example:7"])
    async with a_world(policy, proxies=through()) as world:
        proxy = Tunnels(world)
        await world.serve(proxy, (PROXY, 3128))
        assert await exchange(world, "known.example", 7, b"hello") == b"first hello"
        assert proxy.heads[0].startswith(b"CONNECT known.example:7 HTTP/1.1\r\n")


async def test_plain_requests_go_through_the_hosts_proxy_in_its_own_form(run: Run) -> None:
    async with a_world(Policy.parse("allowlist", ["good.example"]), proxies=through()) as world:
        world.hosts["good.example"] = [A]
        proxy = Tunnels(world)
        await world.serve(proxy, (PROXY, 3128))
        request = b"GET /x HTTP/1.1\r\nHost: good.example\r\n\r\n"
        assert (await exchange(world, "good.example", 80, request)).endswith(
            b"http://good.example/x"
        )
        assert b"Proxy-Authorization: Basic abc\r\n" in proxy.heads[0]
        forged = b"GET http://evil.example/x HTTP/1.1\r\nHost: good.example\r\n\r\n"
        assert b"403" in await exchange(world, "good.example", 80, forged)
        assert len(proxy.heads) == 1


async def test_exceptions_go_out_directly_and_refusals_of_a_proxy_are_told(run: Run) -> None:
    policy = Policy.parse("allowlist", ["direct.example", "good.example", "good.example:7"])
    async with a_world(policy, proxies=through()) as world:
        world.hosts |= {"direct.example": [A], "good.example": [A]}
        proxy = Tunnels(world, refuses=407)
        await world.serve(proxy, (PROXY, 3128))
        await world.serve(web, (A, 80), (A, 443))
        await world.serve(echo, (A, 7))
        request = b"GET /x HTTP/1.1\r\nHost: direct.example\r\nConnection: close\r\n\r\n"
        assert b"for direct.example" in await exchange(world, "direct.example", 80, request)
        assert proxy.heads == []
        assert await exchange(world, "good.example", 443, b"x") == b""
        event = await world.event(2)
        assert event.outcome is Outcome.FAILED
        assert "407" in event.reason
        assert await exchange(world, "good.example", 7, b"x") == b"x"


async def test_a_proxy_over_tls_is_verified(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = Upstream(host="proxy.example", port=3128, is_tls=True)
    policy = Policy.parse("allowlist", ["good.example:7"])
    async with a_world(policy, proxies=Proxies(for_rest=upstream)) as world:
        world.hosts |= {"good.example": [A], "proxy.example": [PROXY]}
        await world.serve(Tunnels(world), (PROXY, 3128), tls=server_context("proxy.example"))
        assert await exchange(world, "good.example", 7, b"hello") == b""
        assert (await world.event()).outcome is Outcome.FAILED
        bundle = tmp_path_factory.mktemp("ca") / "ca.pem"
        bundle.write_text(root_text())
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
        reader, writer = await world.open("good.example", 7)
        writer.write(b"hello")
        assert await reader.readexactly(11) == b"first hello"
        await close(writer)
