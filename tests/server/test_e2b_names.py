"""E2B's wire by names beneath a domain: who gets where, what hostile names do, what a port's program hears."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Run
from tests.server.scripted import Staged, new_box, staging

from crucible.errors import BadSetting
from crucible.server.doorway import E2bDomain, doorway, parse_domain
from crucible.server.tokens import Scope
from crucible.server.wires.e2b.facts import facts_of
from crucible.server.wires.e2b.names import Place, place_of
from crucible.server.wires.e2b.ports import MOST_HEAD_BYTES, Answer, BadAnswer

DOMAIN = "box.test"
OFFLINE = {"templateID": "base", "allow_internet_access": False}
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def named(run: Run, tmp_path: Path) -> Iterator[Staged]:
    yield from _staged(run, tmp_path, E2bDomain(name=DOMAIN))


@pytest.fixture
def public(run: Run, tmp_path: Path) -> Iterator[Staged]:
    yield from _staged(run, tmp_path, E2bDomain(name=DOMAIN, port=443, is_public=True))


def _staged(run: Run, tmp_path: Path, e2b: E2bDomain) -> Iterator[Staged]:
    context = staging(tmp_path / "home", e2b=e2b)
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@contextlib.asynccontextmanager
async def anonymous(server: Staged) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        yield client


def token_of(server: Staged, name: str) -> dict[str, str]:
    record = server.domain.manager.records.find(name)
    return {"E2b-Traffic-Access-Token": facts_of(record).token}


@contextlib.asynccontextmanager
async def listening(server: Staged, sandbox: str, port: int, serve: Serve) -> AsyncIterator[None]:
    """A program in the sandbox that listens at this port."""
    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.backend.machines[sandbox].ports[port] = listener.sockets[0].getsockname()[1]
    async with listener:
        yield


def saying(answer: bytes, heard: list[bytes] | None = None) -> Serve:
    """Hears a request with all of its body, if its length is told, says this and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = [
            line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        ]
        body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
        if b"chunked" in head.lower():
            body = await reader.readuntil(b"0\r\n\r\n")
        if heard is not None:
            heard.append(head + body)
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


@given(st.text(alphabet="apiAPI0123456789-._:@/ \0é", max_size=80) | st.text(max_size=80))
def test_any_label_is_a_place_or_none(label: str) -> None:
    place = place_of(label)
    if place is not None and not place.is_control:
        assert label == f"{place.port}-{place.sandbox}"
        assert 1 <= place.port <= 65535
        assert label.isascii()
        assert not set(label) & set("._:@/ \0")


@pytest.mark.parametrize(
    "label, place",
    [
        ("api", Place()),
        ("49983-ibox", Place(sandbox="ibox", port=49983)),
        ("1-a-b-", Place(sandbox="a-b-", port=1)),
        *((label, None) for label in (
            "", "-", "api-", "apis", "80", "80-", "-box", "0-box", "080-box", "65536-box", "99999-box", "100000-box",
            "8o-box", "٣-box", "80--box", "80-a_b", "80-a.b", "80-box\n", "80-" + "a" * 62, "80-BOX",
        )),
    ],
)  # fmt: skip
def test_what_a_label_means(label: str, place: Place | None) -> None:
    assert place_of(label) == place


@pytest.mark.parametrize(
    "text", ["", ".", "a..b", "-a.test", "a-.test", "a b", "a/b", "127.0.0.1", "7070", "a.test:0", "a.test:99999",
             "a.test:x", "*.a.test", "é.test", "a." * 120 + "test", "a.test\n"],
)  # fmt: skip
def test_a_domain_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        parse_domain(text, "--e2b-domain")


def test_options_go_before_variables_and_these_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[server]\ne2b_domain = "file.test"\ne2b_public = true\n')
    variables = {"CRUCIBLE_CONFIG": str(file), "HOME": str(tmp_path)}
    assert doorway({}, environment=variables).e2b == E2bDomain(name="file.test", is_public=True)
    variables["CRUCIBLE_E2B_DOMAIN"] = "Variable.Test:8443"
    found = doorway({}, environment=variables).e2b
    assert found == E2bDomain(name="variable.test", port=8443, is_public=True)
    found = doorway({"e2b-domain": "option.test"}, environment=variables).e2b
    assert found == E2bDomain(name="option.test", is_public=True)
    with pytest.raises(BadSetting):
        doorway({}, is_public=True, environment={})
    with pytest.raises(BadSetting):
        doorway({"tls-cert": "a.pem"}, environment={})


HOSTILE = [
    DOMAIN, f"x.{DOMAIN}", f"api.x.{DOMAIN}", f"api.{DOMAIN}.", f"api.{DOMAIN}.evil.test", f"evil{DOMAIN}",
    f"49983-box.x.{DOMAIN}", f"70000-box.{DOMAIN}", f"49983-.{DOMAIN}", f"-box.{DOMAIN}", f"49983-..{DOMAIN}",
    f"api.{DOMAIN}@evil.test", f"evil.test@api.{DOMAIN}", f"api.{DOMAIN}:x", f"[api.{DOMAIN}]", f"49983-%62ox.{DOMAIN}",
    f"49983-box.{DOMAIN}/", "a" * 400 + f".{DOMAIN}", f".{DOMAIN}", "api.", "",
]  # fmt: skip


async def test_no_other_name_gets_in(named: Staged) -> None:
    async with named.client() as client:
        for host in HOSTILE:
            for path in ("/sandboxes", "/api/v1/sandboxes", "/health"):
                answer = await client.get(path, headers={"Host": host})
                assert answer.status_code in (400, 403), host


async def test_without_a_domain_no_name_beneath_one_is_known(staged: Staged) -> None:
    async with staged.client() as client:
        for host in (f"api.{DOMAIN}", f"49983-box.{DOMAIN}"):
            assert (await client.get("/sandboxes", headers={"Host": host})).status_code == 403


async def test_the_control_plane_is_at_the_root_of_its_name_and_nothing_else_is(
    named: Staged,
) -> None:
    port = httpx.URL(named.url).port
    for host, told in ((f"api.{DOMAIN}:{port}", f"{DOMAIN}:{port}"), ("API.Box.Test:443", DOMAIN)):
        async with named.client(Scope.RUN, Host=host) as client:
            made = await client.post("/sandboxes", json=OFFLINE)
            assert (made.status_code, made.json()["domain"]) == (201, told)
            seen = await client.get(f"/sandboxes/{made.json()['sandboxID']}")
            assert seen.json()["domain"] == told
            for path in ("/api/v1/sandboxes", "/e2b/sandboxes", "/files?path=/etc/passwd", "/run"):
                assert (await client.get(path)).status_code in (404, 501), path
    async with anonymous(named) as client:
        for path in ("/sandboxes", "/health"):
            answer = await client.get(path, headers={"Host": f"api.{DOMAIN}"})
            assert answer.status_code == 401, path
    async with named.client() as client:
        told = (await client.get(f"/e2b/sandboxes/{made.json()['sandboxID']}")).json()["domain"]
        assert told == f"{DOMAIN}:{port}"


async def test_a_name_is_as_closed_as_the_header_and_goes_before_it(named: Staged) -> None:
    one, two = await new_box(named, "one"), await new_box(named, "two")
    host = {"Host": f"49983-{one}.{DOMAIN}"}
    async with anonymous(named) as client:
        assert (await client.get("/health", headers=host)).status_code == 204
        files = "/files?path=/etc/passwd"
        for sent in (
            {},
            token_of(named, two),
            {**token_of(named, two), "E2b-Sandbox-Id": two},
            {"X-API-Key": "no"},
        ):
            assert (await client.get(files, headers={**host, **sent})).status_code == 401, sent
        let_in = {**host, **token_of(named, one), "E2b-Sandbox-Id": two}
        assert (await client.get(files, headers=let_in)).status_code == 200
        # Neither has the other's routes.
        code = {**token_of(named, one), "Host": f"49999-{one}.{DOMAIN}"}
        assert (await client.get(files, headers=code)).status_code == 404
        assert (await client.get("/sandboxes", headers=let_in)).status_code == 404
        gone = await client.get("/health", headers={"Host": f"49983-nobody.{DOMAIN}"})
        assert gone.status_code == 502


async def test_a_token_for_one_sandbox_opens_no_other(named: Staged) -> None:
    one, two = await new_box(named, "one"), await new_box(named, "two")
    record = named.domain.manager.records.find(one)
    key = named.token(Scope.RUN, sandbox=record.id)
    looks = named.token(Scope.READ, sandbox=record.id)
    async with anonymous(named) as client:
        for name, given_key, status in ((one, key, 200), (two, key, 403), (one, looks, 403)):
            answer = await client.get(
                "/e2b/files?path=/etc/passwd",
                headers={"E2b-Sandbox-Id": name, "X-API-Key": given_key},
            )
            assert answer.status_code == status, answer.text


async def test_who_asked_before_a_sandbox_was_there_does_not_get_in(named: Staged) -> None:
    begun = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        begun.set()
        yield b'{"pro'
        await new_box(named, "late")
        yield b'cess": {"pid": 1}}'

    async with anonymous(named) as client:
        answer = await client.post(
            "/e2b/process.Process/List", headers={"E2b-Sandbox-Id": "late"}, content=slowly()
        )
    assert begun.is_set()
    assert answer.status_code == 403, answer.text


async def test_a_port_passes_on_what_is_said_and_keeps_the_tokens(named: Staged) -> None:
    box = await new_box(named)
    heard: list[bytes] = []
    answer = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        b"HTTP/1.1 201 Made\r\nX-Own: yes\r\nConnection: X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    )
    host = f"3000-{box}.{DOMAIN}"
    async with listening(named, box, 3000, saying(answer, heard)), anonymous(named) as client:
        sent = {
            "Host": host, "Authorization": "Bearer the-programs-own", "X-Access-Token": "",
            "Connection": "close, X-Mine", "X-Mine": "1", **token_of(named, box),
        }  # fmt: skip
        told = await client.post("/a%20b/../c?x=1&y=%20", headers=sent, content=b"some body")
    assert (told.status_code, told.text, told.headers["x-own"]) == (201, "hello world", "yes")
    assert "x-hop" not in told.headers
    assert len(heard) == 1
    head, _, body = heard[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert head.startswith(b"POST /")
    assert b"?x=1&y=%20 HTTP/1.1" in head.split(b"\r\n")[0]
    assert f"host: {host}".encode() in lines
    assert b"authorization: bearer the-programs-own" in lines
    assert b"connection: close" in lines
    assert not [line for line in lines if b"token" in line or line.startswith(b"x-mine")]
    assert body == b"some body"


async def test_a_body_of_unknown_length_and_a_head_alone_are_passed_on(named: Staged) -> None:
    box = await new_box(named)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    heard: list[bytes] = []
    answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end"
    sent = {"Host": f"3000-{box}.{DOMAIN}", **token_of(named, box)}
    async with listening(named, box, 3000, saying(answer, heard)), anonymous(named) as client:
        told = await client.put("/", headers=sent, content=pieces())
        assert told.text == "until the end"
    assert b"one" in heard[0]
    assert b"two" in heard[0]
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
    async with listening(named, box, 3000, saying(answer)), anonymous(named) as client:
        told = await client.head("/", headers=sent)
        assert (told.status_code, told.headers["content-length"]) == (200, "7")


async def test_a_port_needs_the_sandboxs_token_whatever_the_path(named: Staged) -> None:
    box, other = await new_box(named), await new_box(named, "other")
    heard: list[bytes] = []
    host = {"Host": f"3000-{box}.{DOMAIN}"}
    async with listening(named, box, 3000, saying(b"", heard)), anonymous(named) as client:
        for path in ("/", "/health", "/ready", "/files?signature=v1_x"):
            for sent in ({}, token_of(named, other), {"X-API-Key": named.token()}):
                answer = await client.get(path, headers={**host, **sent})
                assert answer.status_code == 401, path
        foreign = {**host, **token_of(named, box), "Origin": "https://evil.test"}
        assert (await client.get("/", headers=foreign)).status_code == 403
    assert heard == []


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 999 What\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c: d\0\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    ],
)  # fmt: skip
async def test_an_answer_that_is_none_is_told_as_that(named: Staged, answer: bytes) -> None:
    box = await new_box(named)
    sent = {"Host": f"3000-{box}.{DOMAIN}", **token_of(named, box)}
    async with listening(named, box, 3000, saying(answer)), anonymous(named) as client:
        told = await client.get("/", headers=sent)
        assert (told.status_code, told.json()["code"]) == (502, 502)


async def test_an_answer_that_is_cut_short_is_cut_short_for_the_caller(named: Staged) -> None:
    box = await new_box(named)
    sent = {"Host": f"3000-{box}.{DOMAIN}", **token_of(named, box)}
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
    async with listening(named, box, 3000, saying(answer)), anonymous(named) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/", headers=sent)


async def test_a_port_where_nobody_listens_and_a_sandbox_that_is_none(named: Staged) -> None:
    box = await new_box(named)
    async with anonymous(named) as client:
        sent = {"Host": f"3000-{box}.{DOMAIN}", **token_of(named, box)}
        told = await client.get("/", headers=sent)
        assert (told.status_code, told.json()["port"]) == (502, 3000)
        told = await client.get("/", headers={"Host": f"3000-nobody.{DOMAIN}"})
        assert (told.status_code, told.json()["sandboxId"]) == (502, "nobody")


async def test_a_caller_that_leaves_takes_the_connection_along(named: Staged) -> None:
    box = await new_box(named)
    has_ended = asyncio.Event()

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):
                pass
        has_ended.set()
        writer.close()

    sent = {"Host": f"3000-{box}.{DOMAIN}", **token_of(named, box)}
    async with listening(named, box, 3000, quiet), anonymous(named) as client:
        async with client.stream("GET", "/", headers=sent) as told:
            assert await anext(told.aiter_bytes()) == b"first"
        await asyncio.wait_for(has_ended.wait(), 120)


async def test_a_web_socket_is_carried_to_the_program(named: Staged) -> None:
    box = await new_box(named)
    seen: list[Any] = []

    async def echo(socket: Any) -> None:
        seen.append(socket.request)
        async for message in socket:
            await socket.send(message)
            if message == "bye":
                await socket.close(4001)

    async with websockets.serve(echo, "127.0.0.1", 0, subprotocols=["chat"]) as listener:  # type: ignore[list-item]
        port = listener.sockets[0].getsockname()[1]
        named.backend.machines[box].ports[3000] = port
        at = {"host": "127.0.0.1", "port": httpx.URL(named.url).port}
        address = f"ws://3000-{box}.{DOMAIN}/live?x=1"
        options: dict[str, Any] = {"subprotocols": ["chat"], "proxy": None, **at}
        async with websockets.connect(
            address, additional_headers=token_of(named, box), **options
        ) as socket:
            assert socket.subprotocol == "chat"
            for message in ("text é", b"\0bytes", "x" * 300_000):
                await socket.send(message)
                assert await socket.recv() == message
            await socket.send("bye")
            assert await socket.recv() == "bye"
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4001
        assert seen[0].path == "/live?x=1"
        assert "E2b-Traffic-Access-Token" not in seen[0].headers
        assert seen[0].headers["Host"].startswith(f"3000-{box}.{DOMAIN}")
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(address, **options)
        assert refused.value.response.status_code == 401
        named.backend.machines[box].ports.clear()
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(address, additional_headers=token_of(named, box), **options)
        assert refused.value.response.status_code == 502
    assert len(seen) == 1


async def test_a_program_that_takes_no_web_socket_is_told(named: Staged) -> None:
    box = await new_box(named)
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    async with listening(named, box, 3000, saying(answer)):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(
                f"ws://3000-{box}.{DOMAIN}/", host="127.0.0.1", port=httpx.URL(named.url).port,
                additional_headers=token_of(named, box), proxy=None,
            )  # fmt: skip
    assert refused.value.response.status_code == 502


async def test_ports_are_public_where_the_server_and_the_sandbox_say_so(public: Staged) -> None:
    async with public.client(Scope.RUN, Host=f"api.{DOMAIN}") as client:
        made = {}
        for is_public in (None, False):
            asked: dict[str, Any] = dict(OFFLINE)
            if is_public is False:
                asked["network"] = {"allowPublicTraffic": False, "allow_internet_access": False}
            answer = await client.post("/sandboxes", json=asked)
            assert answer.json()["domain"] == DOMAIN
            made[is_public] = answer.json()["sandboxID"]
    others = await new_box(public)
    heard: list[bytes] = []
    async with anonymous(public) as client:
        for name, status in ((made[None], 200), (made[False], 401), (others, 401)):
            said = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
            async with listening(public, name, 3000, saying(said, heard)):
                told = await client.get("/", headers={"Host": f"3000-{name}.{DOMAIN}"})
                assert told.status_code == status
                wrong = {"Host": f"3000-{name}.{DOMAIN}", "X-Access-Token": "wrong"}
                assert (await client.get("/", headers=wrong)).status_code == 401
            code = await client.get("/contexts/x", headers={"Host": f"49999-{name}.{DOMAIN}"})
            assert code.status_code == (405 if status == 200 else 401)
            files = {"Host": f"49983-{name}.{DOMAIN}"}
            told = await client.get("/files?path=/etc/passwd", headers=files)
            assert told.status_code == 401
    assert len(heard) == 1


@given(st.binary(max_size=300), st.integers(1, 50), st.booleans())
def test_any_bytes_are_an_answer_or_refused(data: bytes, size: int, is_bodyless: bool) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"):
        answer = Answer(is_bodyless=is_bodyless)
        whole = start + data
        with contextlib.suppress(BadAnswer):
            for at in range(0, len(whole), size):
                if not answer.is_over:
                    answer.feed(whole[at : at + size])
                assert len(answer.take()) <= len(whole)
            if not answer.is_over:
                answer.feed(b"")
            assert 200 <= answer.status < 600


@pytest.mark.parametrize(
    "begin, more",
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"a" * 100),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: ", b"a" * 100),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 100),
    ],
    ids=["hints", "field", "field behind the body", "extension of a chunk"],
)
def test_what_is_no_body_and_never_ends_is_refused(begin: bytes, more: bytes) -> None:
    answer = Answer(is_bodyless=False)
    if begin:
        answer.feed(begin)

    def feed_on() -> None:
        for _ in range(MOST_HEAD_BYTES):
            answer.feed(more)
            answer.take()

    with pytest.raises(BadAnswer):
        feed_on()


def test_the_facts_of_sandboxes_made_before_are_private(named: Staged, run: Run) -> None:
    box = run(new_box(named))
    record = named.domain.manager.records.find(box)
    facts = facts_of(record)
    assert not facts.is_public
    path = record.directory / "e2b.json"
    kept = json.loads(path.read_text())
    del kept["is_public"]
    path.write_text(json.dumps(kept))
    assert facts_of(record) == facts
