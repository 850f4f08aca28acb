"""Secrets reach the host they are bound to and nobody else; the machine never sees a value."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Run
from tests.network.authority import client_context, server_context
from tests.network.test_clients import curl, run_program
from tests.network.test_ways_out import http2_server
from tests.network.world import World, a_door, a_world, close, echo, exchange

from crucible.errors import BadSetting
from crucible.network.authority import Authority, trust_variables
from crucible.network.events import Outcome
from crucible.network.guard import Scanner
from crucible.network.policy import Policy
from crucible.network.providers import provider_at, providers
from crucible.network.secrets import Secrets, parse_secret

A, B = "93.184.216.34", "93.184.216.35"
VALUE = "s3cret/value=with+signs"


def made(*texts: str) -> Secrets:
    return Secrets(
        parse_secret(text, {"TOKEN": VALUE, "ANTHROPIC_API_KEY": VALUE}) for text in texts
    )


@pytest.mark.parametrize(
    "text,value,host,header,prefix",
    [
        ("TOKEN:api.example.com", VALUE, "api.example.com", "", ""),
        ("TOKEN=abcd:api.example.com", "abcd", "api.example.com", "", ""),
        ("TOKEN=ab:cd:api.example.com", "ab:cd", "api.example.com", "", ""),
        ("TOKEN=ab=cd:api.example.com:X-Key", "ab=cd", "api.example.com", "X-Key", ""),
        ("TOKEN:api.example.com:Authorization", VALUE, "api.example.com", "Authorization", "Bearer "),
        ("TOKEN=Basic abc:api.example.com:Authorization", "Basic abc", "api.example.com", "Authorization", ""),
        ("TOKEN:api.example.com:8443", VALUE, "api.example.com:8443", "", ""),
        ("TOKEN:api.example.com:8443:X-Key", VALUE, "api.example.com:8443", "X-Key", ""),
        ("TOKEN:*.example.com", VALUE, "*.example.com", "", ""),
        ("ANTHROPIC_API_KEY:api.anthropic.com", VALUE, "api.anthropic.com", "x-api-key", ""),
        ("TOKEN:api.openai.com", VALUE, "api.openai.com", "authorization", "Bearer "),
        ("TOKEN=abcd:registry:X-Key", "abcd", "registry", "X-Key", ""),
    ],
)  # fmt: skip
def test_a_secret_is_read_as_it_is_written(
    text: str, value: str, host: str, header: str, prefix: str
) -> None:
    secret = parse_secret(text, {"TOKEN": VALUE, "ANTHROPIC_API_KEY": VALUE})
    assert (secret.value, secret.host.text) == (value, host)
    assert (secret.header, secret.prefix) == (header, prefix)


@pytest.mark.parametrize(
    "text",
    ["", ":", "TOKEN", "TOKEN:", "UNSET:api.example.com", "TOKEN=hunter22", "TOKEN=hunter22:", "1X:api.example.com",
     "TOKEN=hunter22\n:api.example.com", "TOKEN=hunter22:@git", "TOKEN=hunter22:10.0.0.1", "TOKEN=hunter22:a b",
     "TOKEN=x:api.example.com", "TOKEN:a.example:b.example:X-Key", "TOKEN=hunter22:https://api.example.com"],
)  # fmt: skip
def test_a_secret_that_makes_no_sense_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_secret(text, {"TOKEN": VALUE})
    shown = f"{caught.value} {caught.value.hint}"
    assert "hunter22" not in shown
    assert VALUE not in shown


def test_a_value_without_a_host_is_told_that_the_host_is_missing() -> None:
    with pytest.raises(BadSetting, match="bound to no host"):
        parse_secret("TOKEN=hunter22", {})


@given(st.text(max_size=60))
def test_any_text_is_a_secret_or_refused(text: str) -> None:
    try:
        parse_secret(text, {})
    except BadSetting:
        return


def test_values_are_in_no_repr_and_placeholders_are_unmistakable() -> None:
    secrets = made("TOKEN:api.example.com")
    secret = parse_secret("TOKEN:api.example.com", {"TOKEN": VALUE})
    assert VALUE not in repr(secret)
    assert VALUE not in repr(secrets)
    assert VALUE not in repr(vars(secrets))
    placeholder = secrets.placeholders["TOKEN"]
    assert placeholder.startswith("crucible-secret-token-")
    assert placeholder != made("TOKEN:api.example.com").placeholders["TOKEN"]


def test_a_fork_keeps_its_placeholders() -> None:
    first = made("TOKEN:api.example.com")
    secret = parse_secret("TOKEN:api.example.com", {"TOKEN": VALUE})
    assert Secrets([secret], first.placeholders).placeholders == first.placeholders


def test_two_secrets_of_one_name_are_refused() -> None:
    with pytest.raises(BadSetting):
        made("TOKEN:a.example", "TOKEN:b.example")


def test_programs_of_model_providers_are_told_where_the_endpoint_is() -> None:
    secrets = made("ANTHROPIC_API_KEY:api.anthropic.com")
    assert secrets.variables == {
        "ANTHROPIC_API_KEY": secrets.placeholders["ANTHROPIC_API_KEY"],
        "ANTHROPIC_BASE_URL": "http://anthropic.crucible.internal",
    }
    for provider in providers():
        assert provider_at(provider.endpoint) is provider
        for url in provider.variables.values():
            assert url.startswith(f"http://{provider.endpoint}")


@given(
    st.binary(min_size=2, max_size=12),
    st.binary(max_size=60),
    st.lists(st.integers(1, 9), max_size=20),
)
def test_what_is_looked_for_is_found_however_it_is_cut(
    needle: bytes, rest: bytes, sizes: list[int]
) -> None:
    stream = rest + needle + rest
    scanner = Scanner({needle: "N"})
    found = ""
    for size in sizes:
        found = found or scanner.feed(stream[:size])
        stream = stream[size:]
    assert found or scanner.feed(stream)


def test_an_authority_can_be_kept_and_names_only_what_it_is_asked_for() -> None:
    authority = Authority.make("box")
    again = Authority.load(authority.dump())
    assert again.certificate == authority.certificate
    assert "PRIVATE" not in authority.certificate
    server = again.context("api.example.com", "")
    assert shake_hands(server, authority.certificate, "api.example.com")
    assert not shake_hands(server, authority.certificate, "other.example.com")
    assert not shake_hands(server, Authority.make("other").certificate, "api.example.com")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "CURL_CA_BUNDLE"])
async def test_programs_trust_the_authority_by_its_variables(
    run: Run, tmp_path: Path, variable: str
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(AUTHORITY.certificate)
    async with bank("TOKEN:api.example:X-Key") as (world, _), a_door(world, "", 0) as door:
        status, output = await run_program(
            "curl", "-sS", "-x", f"socks5h://127.0.0.1:{door}", "https://api.example/",
            environment={variable: trust_variables(str(bundle))[variable]},
        )  # fmt: skip
        assert status == 0, output
        assert "x-key: VALUE" in output


def shake_hands(server: ssl.SSLContext, trusted: str, name: str) -> bool:
    client = ssl.create_default_context(cadata=trusted)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(down, up, server_hostname=name)
    other = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return False
    return True


async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says whether the value came, never the value itself; keeps the connection."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = 0
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            body = await reader.readexactly(length)
            known = {VALUE: b"VALUE", base64.b64encode(f"me:{VALUE}".encode()).decode(): b"BASIC"}
            quoted = "s3cret%2Fvalue%3Dwith%2Bsigns"
            text = head + body
            for word, shown in (known | {quoted: b"QUOTED"}).items():
                text = text.replace(word.encode(), shown)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
            await writer.drain()
            if b"\r\nConnection: close\r\n" in head:
                return
    except (asyncio.IncompleteReadError, OSError):
        return
    finally:
        await close(writer)


AUTHORITY = Authority.make("box")


@asynccontextmanager
async def bank(*secrets: str, rules: tuple[str, ...] = ()) -> AsyncIterator[tuple[World, Secrets]]:
    """`api.example` has a secret; `other.example` has none; the provider is not the real one."""
    held = made(*secrets)
    allowed = ("api.example:80,443,7", "other.example:80,443,7,8081", "api.anthropic.com", *rules)
    async with a_world(
        Policy.parse("allowlist", allowed), secrets=held, authority=AUTHORITY
    ) as world:
        world.hosts |= {"api.example": [A], "other.example": [B], "api.anthropic.com": [B]}
        names = ("api.example", "other.example", "api.anthropic.com")
        await world.serve(mirror, (A, 443), (B, 443), tls=server_context(*names))
        await world.serve(mirror, (A, 80), (B, 80))
        await world.serve(echo, (A, 7), (B, 7))
        await world.serve(http2_server, (B, 8081))
        yield world, held


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.certificate)


async def ask_tls(
    world: World, name: str, request: bytes, context: ssl.SSLContext | None = None
) -> bytes:
    try:
        reader, writer = await world.open_tls(name, server_name=name, context=context or trusting())
    except (OSError, ssl.SSLError):
        return b""
    try:
        writer.write(request)
        return await reader.read()
    except OSError:
        return b""
    finally:
        await close(writer)


def request(host: str, *lines: str, target: str = "/", body: str = "") -> bytes:
    head = [f"POST {target} HTTP/1.1", f"Host: {host}", "Connection: close", *lines]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return ("\r\n".join([*head, "", ""]) + body).encode()


async def test_the_value_goes_where_the_placeholder_stands(run: Run) -> None:
    async with bank("TOKEN:api.example") as (world, secrets):
        placeholder = secrets.placeholders["TOKEN"]
        basic = base64.b64encode(f"me:{placeholder}".encode()).decode()
        answer = await ask_tls(
            world,
            "api.example",
            request(
                "api.example",
                f"X-Key: {placeholder}",
                f"Authorization: Basic {basic}",
                target=f"/?key={placeholder}",
            ),
        )
        assert b"X-Key: VALUE\r\n" in answer
        assert b"Authorization: Basic BASIC\r\n" in answer
        assert b"POST /?key=QUOTED HTTP/1.1" in answer
        assert placeholder.encode() not in answer
        event = await world.event()
        assert event.outcome is Outcome.ALLOWED
        assert "with the secret TOKEN" in event.reason


async def test_a_header_is_set_whatever_the_program_sent(run: Run) -> None:
    async with bank("TOKEN:api.example:X-Key") as (world, _):
        answer = await ask_tls(world, "api.example", request("api.example", "x-key: mine"))
        assert b"x-key: VALUE\r\n" in answer
        assert b"mine" not in answer
        assert b"x-key: VALUE\r\n" in await ask_tls(world, "api.example", request("api.example"))


async def test_every_request_of_a_kept_connection_gets_the_value(run: Run) -> None:
    async with bank("TOKEN:api.example:X-Key") as (world, _):
        one = b"GET /1 HTTP/1.1\r\nHost: api.example\r\n\r\n"
        answer = await ask_tls(world, "api.example", one + request("api.example"))
        assert answer.count(b"x-key: VALUE") == 2


async def test_hosts_are_held_on_intercepted_connections(run: Run) -> None:
    async with bank("TOKEN:api.example:X-Key") as (world, _):
        answer = await ask_tls(world, "api.example", request("other.example"))
        assert b"403 Forbidden" in answer
        assert b"VALUE" not in answer
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert "`other.example`" in event.reason


async def test_a_server_that_is_not_who_it_says_gets_nothing(run: Run) -> None:
    got = []

    async def listening(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read())
        await close(writer)

    async with bank("TOKEN:api.example:X-Key") as (world, _):
        await world.serve(listening, (A, 443), tls=server_context("evil.example"))
        assert await ask_tls(world, "api.example", request("api.example")) == b""
        event = await world.event()
        assert event.outcome is Outcome.FAILED
        assert "is not who it says" in event.reason
        assert got == []


async def test_a_program_that_does_not_trust_the_authority_is_told_of(run: Run) -> None:
    async with bank("TOKEN:api.example:X-Key") as (world, _):
        answer = await ask_tls(world, "api.example", request("api.example"), client_context())
        assert answer == b""
        assert "does not take the certificate" in (await world.event()).reason


async def test_hosts_without_a_secret_are_not_intercepted(run: Run) -> None:
    async with bank("TOKEN:api.example:X-Key") as (world, _):
        answer = await ask_tls(world, "other.example", request("other.example"), client_context())
        assert b"200 OK" in answer
        assert b"x-key" not in answer


@pytest.mark.parametrize(
    "name,port", [("other.example", 80), ("api.example", 80), ("other.example", 7)]
)
@pytest.mark.parametrize("place", ["field", "basic", "target", "body", "chunks"])
async def test_a_placeholder_on_its_way_elsewhere_is_stopped(
    run: Run, name: str, port: int, place: str
) -> None:
    async with bank("TOKEN:api.example") as (world, secrets):
        placeholder = secrets.placeholders["TOKEN"]
        basic = base64.b64encode(f"me:{placeholder}".encode()).decode()
        data = {
            "field": request(name, f"X-Key: {placeholder}"),
            "basic": request(name, f"Authorization: Basic {basic}"),
            "target": request(name, target=f"/{placeholder}"),
            "body": request(name, body=f"key={placeholder}&x=y"),
            "chunks": request(name, "Transfer-Encoding: chunked")
            + f"a\r\n{placeholder[:10]}\r\n{len(placeholder) - 10:x}\r\n{placeholder[10:]}\r\n0\r\n\r\n".encode(),
        }[place]
        answer = await exchange(world, name, port, data)
        assert placeholder[20:].encode() not in answer
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert "the placeholder of the secret TOKEN" in event.reason
        assert placeholder not in str(event)


@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_a_placeholder_in_any_stream_that_can_be_read_is_stopped(run: Run, size: int) -> None:
    async with bank("TOKEN:api.example") as (world, secrets):
        data = b"\0\1binary " + secrets.placeholders["TOKEN"].encode() + b"\n"
        reader, writer = await world.open("other.example", 7)
        got = b""
        try:
            for at in range(0, len(data), size):
                writer.write(data[at : at + size])
                await writer.drain()
            got = await reader.read()
        except ConnectionError:
            pass
        await close(writer)
        assert secrets.placeholders["TOKEN"].encode() not in got
        assert (await world.event()).outcome is Outcome.DENIED


async def test_a_placeholder_of_one_host_is_stopped_on_its_way_to_another_with_a_secret(
    run: Run,
) -> None:
    async with bank("TOKEN:api.example", "SECOND=second-value:other.example") as (world, secrets):
        placeholder = secrets.placeholders["TOKEN"]
        for data in (
            request("other.example", f"X: {placeholder}"),
            request("other.example", body=placeholder),
        ):
            answer = await ask_tls(world, "other.example", data)
            assert b"200 OK" not in answer
        assert (await world.event()).outcome is Outcome.DENIED


async def test_a_server_that_sends_the_value_back_is_cut_off(run: Run) -> None:
    async def telling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nyour key is " + VALUE[:9].encode())
        await writer.drain()
        writer.write(VALUE[9:].encode())
        await close(writer)

    async with bank("TOKEN:api.example:X-Key") as (world, _):
        await world.serve(telling, (A, 443), tls=server_context("api.example"))
        answer = await ask_tls(world, "api.example", request("api.example"))
        assert VALUE.encode() not in answer
        event = await world.event()
        assert event.outcome is Outcome.DENIED
        assert "sent the value of the secret TOKEN back" in event.reason


async def test_a_request_for_its_own_head_is_refused(run: Run) -> None:
    async with bank("TOKEN:api.example:X-Key") as (world, _):
        trace = b"TRACE / HTTP/1.1\r\nHost: api.example\r\n\r\n"
        assert b"403" in await ask_tls(world, "api.example", trace)


async def ask_endpoint(
    world: World, data: bytes, name: str = "anthropic.crucible.internal"
) -> bytes:
    return await exchange(world, name, 80, data)


async def test_a_provider_is_reached_by_its_plain_endpoint(run: Run) -> None:
    async with bank("ANTHROPIC_API_KEY:api.anthropic.com") as (world, secrets):
        placeholder = secrets.placeholders["ANTHROPIC_API_KEY"]
        for line in (f"x-api-key: {placeholder}", "X-Api-Key: whatever", "X-Other: 1"):
            data = request("anthropic.crucible.internal", line, target="/v1/messages", body="{}")
            answer = await ask_endpoint(world, data)
            assert b"POST /v1/messages HTTP/1.1\r\nHost: api.anthropic.com\r\n" in answer
            assert answer.lower().count(b"x-api-key: value\r\n") == 1
        bearer = request("anthropic.crucible.internal", f"Authorization: Bearer {placeholder}")
        answer = await ask_endpoint(world, bearer)
        assert b"Authorization: Bearer VALUE\r\n" in answer
        assert b"x-api-key" not in answer
        event = await world.event()
        assert (event.name, event.port) == ("api.anthropic.com", 443)


async def test_an_answer_in_pieces_comes_in_pieces_through_an_endpoint(run: Run) -> None:
    go_on = asyncio.Event()

    async def streaming(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await writer.drain()
        await go_on.wait()
        writer.write(b"data: 2\n\n")
        await close(writer)

    async with bank("ANTHROPIC_API_KEY:api.anthropic.com") as (world, _):
        await world.serve(streaming, (B, 443), tls=server_context("api.anthropic.com"))
        reader, writer = await world.open("anthropic.crucible.internal", 80)
        writer.write(request("anthropic.crucible.internal", body="{}"))
        assert (await reader.readuntil(b"data: 1\n\n")).startswith(b"HTTP/1.1 200 OK")
        go_on.set()
        assert await reader.read() == b"data: 2\n\n"
        await close(writer)


async def test_an_endpoint_is_for_its_provider_under_the_policy(run: Run) -> None:
    async with bank("ANTHROPIC_API_KEY:api.anthropic.com") as (world, _):
        for data in (
            request("api.example"),
            request("anthropic.crucible.internal", target="http://other.example/"),
            b"CONNECT other.example:443 HTTP/1.1\r\nHost: anthropic.crucible.internal\r\n\r\n",
        ):
            assert b"403 Forbidden" in await ask_endpoint(world, data)
        good = request("anthropic.crucible.internal")
        answer = await ask_endpoint(world, good, "openai.crucible.internal")
        assert b"no secret is bound to `api.openai.com`" in answer
        world.gateway.policy = Policy.parse("allowlist", ["api.example"])
        assert b"--allow api.anthropic.com" in await ask_endpoint(world, good)
        world.gateway.policy = Policy.parse("allowlist", ["api.anthropic.com"])
        assert b"200 OK" in await ask_endpoint(world, good)


async def test_curl_speaks_http2_to_a_host_with_a_secret(run: Run, tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await http2_server(reader, writer, seen)

    trusted = tmp_path / "ca.pem"
    trusted.write_text(AUTHORITY.certificate)
    async with bank("TOKEN:api.example", "KEY=other-value:api.example:X-Key") as (world, secrets):
        await world.serve(serve, (A, 443), tls=server_context("api.example", protocols=("h2",)))
        async with a_door(world, "", 0) as door:
            placeholder = secrets.placeholders["TOKEN"]
            status, output = await curl(
                door, trusted, "--http2", "-H", f"Authorization: Bearer {placeholder}",
                "-d", "x" * 100_000, f"https://api.example/a?k={placeholder}",
                "-o", "-", "https://api.example/b",
            )  # fmt: skip
            assert status == 0, output
            assert seen[0]["authorization"] == f"Bearer {VALUE}"
            assert seen[0]["x-key"] == "other-value"
            assert seen[0][":path"] == "/a?k=s3cret%2Fvalue%3Dwith%2Bsigns"
            assert seen[1][":path"] == "/b"
            event = await world.event()
            assert event.protocol == "h2"
            forged = ["-H", "Host: other.example", "https://api.example/"]
            status, output = await curl(door, trusted, "--http2", *forged)
            assert status != 0
            assert len(seen) == 2


async def test_values_are_in_no_event_and_no_log(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with bank("TOKEN:api.example:X-Key", "ANTHROPIC_API_KEY:api.anthropic.com") as (world, _):
        await ask_tls(world, "api.example", request("api.example"))
        await ask_tls(world, "api.example", request("evil.example"))
        await ask_tls(world, "api.example", request("api.example"), client_context())
        await ask_endpoint(world, request("anthropic.crucible.internal"))
        await ask_endpoint(world, b"junk\r\n\r\n")
        world.gateway.policy = Policy.parse("allowlist")
        await ask_tls(world, "api.example", request("api.example"))
        await world.event(6)
    assert VALUE not in repr([event.as_json() for event in world.events])
    assert VALUE not in caplog.text
    assert VALUE not in repr(vars(world.gateway))
