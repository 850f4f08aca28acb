"""The gateway over real sockets against real servers: what is allowed works, what is not is refused until it is."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from collections.abc import Awaitable, Callable

import pytest
from tests.conftest import Run
from tests.network.authority import client_context, server_context
from tests.network.hellos import made_hello, real_hello, record, server_name
from tests.network.world import World, a_world, close, echo, exchange, web

from crucible.network.carrier import told
from crucible.network.dial import SocketStream
from crucible.network.events import FOLD_S, MOST_APART, Event, Folding, Outcome
from crucible.network.gateway import Limits
from crucible.network.policy import Policy
from crucible.network.rules import parse_rule

A, B, C = "93.184.216.34", "93.184.216.35", "2606:2800:220:1::1"


def allowlist(*rules: str) -> Policy:
    return Policy.parse("allowlist", rules)


def get(host: str, target: str = "/") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()


async def fill(world: World) -> None:
    """Two names on one machine, as on any shared host, and one elsewhere."""
    world.hosts |= {
        "good.example": [A],
        "evil.example": [A],
        "far.example": [B],
        "six.example": [C],
    }
    await world.serve(web, (A, 80), (B, 80), (C, 80), (A, 8080))
    await world.serve(echo, (A, 7), (B, 7))
    tls = server_context("good.example", "evil.example")
    await world.serve(web, (A, 443), (B, 443), tls=tls)


async def talk_tls(
    world: World, name: str, *, said: str | None, address: str = "", data: bytes | None = None
) -> bytes:
    """Asks for one name, and says another (or none) in the hello and in the request."""
    context = client_context(checks_name=False)
    sock = world.outlet.connect(name, 443, address)
    try:
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=context, server_hostname=said or "", ssl_handshake_timeout=60
        )
    except (OSError, ssl.SSLError):
        return b""
    writer.write(data or get(said or name))
    answer = await reader.read()
    await close(writer)
    return answer


async def test_an_allowed_name_is_reached_and_told_of(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        answer = await exchange(world, "good.example", 80, get("good.example"))
        assert answer.endswith(b"for good.example]")
        event = await world.event()
        assert (event.outcome, event.name, event.address) == (Outcome.ALLOWED, "good.example", A)
        assert (event.port, event.rule, event.protocol) == (80, "good.example", "http")
        assert event.bytes_up == len(get("good.example"))
        assert event.bytes_down == len(answer)
        assert event.duration_s >= 0


@pytest.mark.parametrize("port", [80, 22], ids=["by an answer", "by a reset"])
async def test_a_refusal_is_told_of_before_the_program_can_see_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    """Or the command would end, and whoever waits for it be gone, before there is anything to say."""
    told_by_then = []

    def counted(call: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def counting(*args: object) -> None:
            told_by_then.append(len(world.events))
            await call(*args)

        return counting

    async with a_world(allowlist("good.example")) as world:
        monkeypatch.setattr(SocketStream, "write", counted(SocketStream.write))
        monkeypatch.setattr(SocketStream, "abort", counted(SocketStream.abort))
        await exchange(world, "evil.example", port, get("evil.example"))
        assert (await world.event()).outcome is Outcome.DENIED
        assert set(told_by_then) == {1}


async def test_a_name_that_is_not_allowed_is_not_even_resolved(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        answer = await exchange(world, "secret-data.evil.example", 80, get("evil.example"))
        assert b"403 Forbidden" in answer
        assert b"crucible network allow box secret-data.evil.example" in answer
        assert world.lookups == []
        assert world.dialled == []
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert "crucible network allow box secret-data.evil.example" in event.hint
        assert "--allow secret-data.evil.example" in event.hint


async def test_a_refused_name_is_reached_with_the_rule_of_the_hint(run: Run) -> None:
    async with a_world(allowlist()) as world:
        await fill(world)
        assert await talk_tls(world, "good.example", said="good.example") == b""
        event = await world.event()
        rule = event.hint.split("`")[1].removeprefix("crucible network allow box ")
        world.gateway.policy = world.gateway.policy.allowing(rule)
        assert b"200 OK" in await talk_tls(world, "good.example", said="good.example")


async def test_nothing_is_reached_while_the_network_is_off(run: Run) -> None:
    async with a_world(Policy()) as world:
        await fill(world)
        assert b"403" in await exchange(world, "good.example", 80, get("good.example"))
        assert await exchange(world, "", 80, get(A), address=A) != b""
        assert world.dialled == []


@pytest.mark.parametrize("address", [A, C])
async def test_an_address_is_reached_only_by_a_rule_with_it(run: Run, address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    async with a_world(allowlist("good.example", "six.example")) as world:
        await fill(world)
        assert b"403" in await exchange(world, "", 80, get(host), address=address)
        world.gateway.policy = world.gateway.policy.allowing(address)
        assert b"200 OK" in await exchange(world, "", 80, get(host), address=address)


@pytest.mark.parametrize(
    "inner",
    [
        "127.0.0.1",
        "10.0.0.7",
        "169.254.3.4",
        "192.168.0.1",
        "100.64.1.1",
        "::1",
        "fe80::5",
        "fd00::7",
    ],
)
@pytest.mark.parametrize("mode", ["allowlist", "full"])
async def test_a_name_that_leads_inside_is_refused_until_it_may(
    run: Run, inner: str, mode: str
) -> None:
    policy = Policy.parse(mode, ["rebound.example"])
    async with a_world(policy) as world:
        await fill(world)
        world.hosts["rebound.example"] = [inner]
        world.servers[inner, 80] = world.servers[A, 80]
        answer = await exchange(world, "rebound.example", 80, get("rebound.example"))
        assert b"403" in answer
        assert b"rebound.example+private" in answer
        assert world.dialled == []
        world.gateway.policy = policy.allowing("rebound.example+private")
        answer = await exchange(world, "rebound.example", 80, get("rebound.example"))
        assert b"200 OK" in answer


@pytest.mark.parametrize("inner", ["169.254.169.254", "fd00:ec2::254", "::ffff:7f00:1", "0.0.0.0"])
async def test_metadata_and_disguises_need_their_own_address_in_a_rule(
    run: Run, inner: str
) -> None:
    policy = Policy.parse("full", ["rebound.example+private"])
    async with a_world(policy) as world:
        await fill(world)
        world.hosts["rebound.example"] = [inner]
        world.servers[inner, 80] = world.servers[A, 80]
        assert b"403" in await exchange(world, "rebound.example", 80, get("rebound.example"))
        assert b"403" in await exchange(world, "", 80, get("x.example"), address=inner)
        assert world.dialled == []
        world.gateway.policy = policy.allowing(inner)
        answer = await exchange(world, "rebound.example", 80, get("rebound.example"))
        assert b"200 OK" in answer


async def test_only_addresses_that_were_judged_are_dialled(run: Run) -> None:
    async with a_world(Policy.parse("full")) as world:
        await fill(world)
        world.hosts["mixed.example"] = ["10.0.0.1", A, "127.0.0.1"]
        answer = await exchange(world, "mixed.example", 80, get("mixed.example"))
        assert b"200 OK" in answer
        assert world.dialled == [f"{A}:80"]
        assert world.lookups == ["mixed.example"]


async def test_the_server_name_of_tls_is_the_one_that_was_asked(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        assert b"200 OK" in await talk_tls(world, "good.example", said="good.example")
        assert (await world.event()).protocol == "tls"


@pytest.mark.parametrize("said", ["evil.example", "sub.good.example", None])
@pytest.mark.parametrize("mode", ["allowlist", "full"])
async def test_a_forged_or_missing_server_name_is_refused_until_the_rule_says_unchecked(
    run: Run, mode: str, said: str | None
) -> None:
    policy = Policy.parse(mode, ["good.example", "evil.example"])
    async with a_world(policy) as world:
        await fill(world)
        assert await talk_tls(world, "good.example", said=said) == b""
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert "server name of TLS" in event.reason
        assert "good.example+unchecked" in event.hint
        world.gateway.policy = policy.allowing("good.example+unchecked")
        assert b"200 OK" in await talk_tls(world, "good.example", said=said)


async def test_in_full_a_hello_may_name_nobody_but_not_somebody_else(run: Run) -> None:
    async with a_world(Policy.parse("full")) as world:
        await fill(world)
        assert b"200 OK" in await talk_tls(world, "good.example", said=None)
        assert await talk_tls(world, "good.example", said="evil.example") == b""


async def test_tls_to_an_address_may_name_what_is_allowed_and_nothing_else(run: Run) -> None:
    async with a_world(allowlist(A, "good.example")) as world:
        await fill(world)
        assert b"200 OK" in await talk_tls(world, "", said=None, address=A, data=get(A))
        assert b"200 OK" in await talk_tls(world, "", said="good.example", address=A)
        assert await talk_tls(world, "", said="evil.example", address=A) == b""
        assert (await world.event(3)).outcome is Outcome.DENIED
        world.gateway.policy = world.gateway.policy.allowing("evil.example")
        assert b"200 OK" in await talk_tls(world, "", said="evil.example", address=A)


@pytest.mark.parametrize(
    "flight",
    [
        made_hello(server_name(b"good.example", b"evil.example")),
        made_hello(server_name(b"good.example"), server_name(b"evil.example")),
        made_hello(server_name(b"good.example")) + made_hello(server_name(b"evil.example")),
        made_hello(server_name(b"good.example")) + record(b"x", 23) + made_hello(server_name(b"evil.example")),
        b"\x80\x2e\x01\x03\x01" + bytes(43),
        b"\x16\x03\x01\x00\x05hello",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + real_hello("good.example"),
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12) + real_hello("good.example"),
    ],
)  # fmt: skip
async def test_first_flights_that_play_tricks_are_refused(run: Run, flight: bytes) -> None:
    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        await exchange(world, "good.example", 7, flight)
        event = await world.event()
        assert event.outcome is Outcome.DENIED, event.reason


async def test_a_hello_in_many_small_pieces_is_understood(run: Run) -> None:
    flight = real_hello("good.example")
    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        reader, writer = await world.open("good.example", 7)
        for at in range(0, len(flight), 50):
            writer.write(flight[at : at + 50])
            await writer.drain()
            await asyncio.sleep(0)
        assert await reader.readexactly(len(flight)) == flight
        await close(writer)


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("evil.example"),
        get("good.example", "http://evil.example/"),
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: good.example\r\nHost: evil.example\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\nHost: evil.example\n\n",
        b"get\t/ http/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /\r\n",
    ],
)
@pytest.mark.parametrize("port", [80, 8080])
async def test_a_request_for_another_host_is_refused_with_a_reason(
    run: Run, request_bytes: bytes, port: int
) -> None:
    async with a_world(allowlist(f"good.example:{port}")) as world:
        await fill(world)
        answer = await exchange(world, "good.example", port, request_bytes)
        assert b"403 Forbidden" in answer
        assert b"200 OK" not in answer
        assert (await world.event()).outcome is Outcome.DENIED


async def test_a_request_for_another_host_passes_once_the_rule_says_unchecked(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        answer = await exchange(world, "good.example", 80, get("evil.example"))
        assert b"good.example+unchecked" in answer
        world.gateway.policy = world.gateway.policy.allowing("good.example+unchecked")
        answer = await exchange(world, "good.example", 80, get("evil.example"))
        assert b"for evil.example]" in answer


async def test_every_request_on_a_connection_is_judged(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        reader, writer = await world.open("good.example", 80)
        first = b"GET /1 HTTP/1.1\r\nHost: good.example\r\n\r\n"
        writer.write(first)
        assert b"200 OK" in await reader.readuntil(b"]")
        writer.write(first + get("evil.example"))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"for evil.example]")
        await close(writer)
        assert "`evil.example`" in (await world.event()).reason


async def test_an_upgrade_that_was_not_granted_frees_nothing(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        upgrade = b"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        answer = await exchange(world, "good.example", 80, upgrade + get("evil.example"))
        assert b"for evil.example]" not in answer
        assert (await world.event()).outcome is Outcome.DENIED


async def test_an_upgrade_that_was_granted_is_a_stream_of_its_own(run: Run) -> None:
    async def granting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        await echo(reader, writer)

    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        await world.serve(granting, (A, 80))
        reader, writer = await world.open("good.example", 80)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x05hello")
        assert await reader.readexactly(7) == b"\x81\x05hello"
        await close(writer)


async def test_an_upgrade_to_http2_in_clear_is_not_passed_on(run: Run) -> None:
    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        request = (
            b"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        )
        answer = await exchange(world, "good.example", 7, request)
        assert answer == b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"


async def test_a_redirect_to_a_forbidden_host_leads_nowhere(run: Run) -> None:
    async def redirecting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 302 Found\r\nLocation: http://far.example/\r\nContent-Length: 0\r\n\r\n"
        )
        await close(writer)

    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        await world.serve(redirecting, (A, 80))
        assert b"far.example" in await exchange(world, "good.example", 80, get("good.example"))
        assert b"403" in await exchange(world, "far.example", 80, get("far.example"))
        world.gateway.policy = world.gateway.policy.allowing("far.example")
        assert b"200 OK" in await exchange(world, "far.example", 80, get("far.example"))


async def test_a_server_that_speaks_first_is_heard(run: Run) -> None:
    async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        writer.write(b"you said " + await reader.readline())
        await close(writer)

    async with a_world(allowlist("good.example:22")) as world:
        await fill(world)
        await world.serve(banner, (A, 22))
        reader, writer = await world.open("good.example", 22)
        assert await reader.readline() == b"SSH-2.0-test\r\n"
        writer.write(b"SSH-2.0-client\r\n")
        assert await reader.read() == b"you said SSH-2.0-client\r\n"
        await close(writer)
        assert (await world.event()).protocol == "tcp"


@pytest.mark.parametrize(
    "data",
    [b"ping", b"\0\0\0\x08\x04\xd2\x16\x2f", b"EHLO x\r\n", b"\x85\x01", b"*1\r\n$4\r\nPING\r\n"],
)
async def test_other_protocols_pass_at_once_and_both_ways(run: Run, data: bytes) -> None:
    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        reader, writer = await world.open("good.example", 7)
        for _ in range(3):
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
        writer.write_eof()
        assert await reader.read() == b""
        await close(writer)
        assert (await world.event()).bytes_down == 3 * len(data)


async def test_port_80_is_for_http(run: Run) -> None:
    async with a_world(allowlist("good.example")) as world:
        await fill(world)
        await exchange(world, "good.example", 80, b"EHLO x\r\n")
        assert (await world.event()).outcome is Outcome.DENIED


async def test_a_megabyte_goes_up_and_down_whole(run: Run) -> None:
    data = bytes(range(256)) * 8192
    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        reader, writer = await world.open("good.example", 7)

        async def send() -> None:
            writer.write(data)
            await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        assert await reader.read() == data
        await sending
        await close(writer)
        event = await world.event()
        assert (event.bytes_up, event.bytes_down) == (len(data), len(data))


async def test_one_connection_too_many_is_refused_with_the_limit(run: Run) -> None:
    async with a_world(allowlist("good.example:7"), limits=Limits(connections=3)) as world:
        await fill(world)
        opened = [await world.open("good.example", 7) for _ in range(3)]
        for reader, writer in opened:
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        assert await exchange(world, "good.example", 7, b"x") == b""
        event = await world.event()
        assert event.outcome is Outcome.LIMITED
        assert "3 connections" in event.reason
        for _, writer in opened:
            await close(writer)
        await world.event(4)
        assert await exchange(world, "good.example", 7, b"x") == b"x"


async def test_two_hundred_connections_at_once_are_carried(run: Run) -> None:
    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        opened = [await world.open("good.example", 7) for _ in range(200)]
        for _, writer in opened:
            writer.write(b"hello\n")
        answers = [await reader.readline() for reader, _ in opened]
        assert answers == [b"hello\n"] * 200
        assert world.gateway.open_connections == 200
        for _, writer in opened:
            await close(writer)


async def test_a_quiet_connection_is_ended_with_the_limit(run: Run) -> None:
    async with a_world(allowlist("good.example:7"), limits=Limits(idle_s=0.05)) as world:
        await fill(world)
        reader, writer = await world.open("good.example", 7)
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
        event = await world.event()
        assert event.outcome is Outcome.LIMITED
        assert "0.05 s" in event.reason
        await close(writer)


async def test_a_connection_that_is_no_longer_allowed_is_cut_and_others_are_not(run: Run) -> None:
    policy = allowlist("good.example:7", "far.example:7")
    async with a_world(policy) as world:
        await fill(world)
        good, far = await world.open("good.example", 7), await world.open("far.example", 7)
        for reader, writer in (good, far):
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        world.gateway.policy = allowlist("far.example:7")
        with pytest.raises(ConnectionError):
            await good[0].readexactly(1)
        assert (await world.event()).outcome is Outcome.CUT
        far[1].write(b"y")
        assert await far[0].readexactly(1) == b"y"
        await close(good[1])
        await close(far[1])


async def test_a_host_that_does_not_answer_is_a_failure_and_a_reset(run: Run) -> None:
    async with a_world(allowlist("good.example:9", "gone.example")) as world:
        await fill(world)
        assert await exchange(world, "good.example", 9, b"x") == b""
        assert (await world.event()).outcome is Outcome.FAILED
        assert await exchange(world, "gone.example", 80, b"x") == b""
        event = await world.event(2)
        assert event.outcome is Outcome.FAILED
        assert "cannot be resolved" in event.reason


def test_a_failure_is_told_in_the_systems_words() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('192.0.2.1', 81)")
    assert told(refused) == "Connection refused"
    assert told(OSError(1, "[SSL] record layer failure")) == "[SSL] record layer failure"
    assert told(TimeoutError()) == "nobody answered in time"


async def test_a_program_that_gives_up_ends_the_connection_to_the_server(run: Run) -> None:
    ended = asyncio.Event()

    async def watching(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        ended.set()
        await close(writer)

    async with a_world(allowlist("good.example:7")) as world:
        await fill(world)
        await world.serve(watching, (A, 7))
        _, writer = await world.open("good.example", 7)
        writer.write(b"x")
        await writer.drain()
        writer.transport.abort()
        async with asyncio.timeout(60):
            await ended.wait()


class Clock:
    """Stands still until it is told otherwise."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(name: str) -> Event:
    return Event(time=0, outcome=Outcome.DENIED, name=name, address="", port=443, reason="no rule")


def test_knocking_again_and_again_is_one_event_with_a_count() -> None:
    world, clock = World(), Clock()
    folding = Folding(world, clock)
    for _ in range(50):
        folding.record(refused("evil.example"))
    assert [event.times for event in world.events] == [1]
    assert len(world.repeats) == 49
    clock.now = FOLD_S
    folding.record(refused("evil.example"))
    assert [event.times for event in world.events] == [1, 49, 1]


def test_knocking_on_very_many_doors_does_not_fill_the_log() -> None:
    world = World()
    folding = Folding(world, Clock())
    for number in range(10_000):
        folding.record(refused(f"n{number}.example"))
    folding.flush()
    assert len(world.events) == MOST_APART + 2
    assert sum(event.times for event in world.events) == 10_000


async def test_a_refusal_in_a_loop_is_folded_on_its_way(run: Run) -> None:
    async with a_world(allowlist()) as world:
        for _ in range(50):
            assert await exchange(world, "evil.example", 443, b"x") == b""
    assert sum(event.times for event in world.events) == 50


async def test_hostile_names_are_shown_harmlessly(run: Run) -> None:
    async with a_world(Policy.parse("full")) as world:
        await exchange(world, "evil\x1b[2J\u202e.example", 443, b"x")
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert event.name.isprintable()
        assert event.reason.isprintable()
        assert event.name.isascii()


async def test_a_registry_set_is_decided_like_any_rule(run: Run) -> None:
    policy = Policy(
        mode=allowlist().mode,
        allow=(parse_rule("@registries"),),
        registries=(parse_rule("good.example:80+private"),),
    )
    async with a_world(policy) as world:
        await fill(world)
        answer = await exchange(world, "good.example", 80, get("good.example"))
        assert b"200 OK" in answer
        assert (await world.event()).rule == "@registries"
