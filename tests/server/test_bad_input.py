"""What callers should not send, and what no answer may give away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Run
from tests.server.conftest import Server, serving

from crucible.errors import BadRequest
from crucible.sandbox.session import Channel, Chunk
from crucible.server import listening, passage, rates
from crucible.server.streaming import Numbering, parse_number
from crucible.server.tokens import Scope, create_token, find_token, hash_of, revoke_token

ALL = "/api/v1/sandboxes"


@pytest.mark.parametrize(
    "body, status",
    [
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b"[]", 422),
        (b"null", 422),
        (b'{"name": 7}', 422),
        (b'{"name": "../x"}', 422),
        (b'{"name": "a\\u0000b"}', 422),
        (b'{"name": "\\ud800"}', 422),
        (b'{"nosuch": 1}', 422),
        (b'{"settings": {"nosuch": 1}}', 422),
        (b'{"settings": {"memory_mib": "much"}}', 422),
        (b'{"settings": {"memory_mib": 1e400}}', 422),
        (b'{"settings": {"cpus": -1}}', 422),
        (b'{"settings": {"profile": "nosuch"}}', 422),
        (b'{"settings": {"mounts": ["nonsense"]}}', 422),
    ],
)
async def test_a_body_that_makes_no_sense_is_told_what_is_wrong(
    bare: Server, body: bytes, status: int
) -> None:
    async with bare.client() as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post(ALL, content=body, headers=headers)
        assert answer.status_code == status, answer.text
        told = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert told["message"]
        assert told["request_id"] == answer.headers["x-request-id"]


async def test_a_body_that_is_too_large_is_not_read(bare: Server) -> None:
    async with bare.client() as client:
        body = b'{"name": "' + b"a" * passage.MOST_BODY_BYTES + b'"}'
        answer = await client.post(ALL, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")

        async def endless() -> Any:
            for _ in range(passage.MOST_BODY_BYTES // 65536 + 2):
                yield b"a" * 65536

        answer = await client.post(
            ALL, content=endless(), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (413, "request-too-large")


@pytest.mark.parametrize(
    "method, path", [("GET", "/api/v1/nothing"), ("GET", "/api/v1/"), ("GET", "/nothing")]
)
async def test_what_is_not_there_is_a_problem_too(bare: Server, method: str, path: str) -> None:
    async with bare.client() as client:
        answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "route-missing")
        answer = await client.request("PUT", ALL)
        assert (answer.status_code, answer.json()["code"]) == (405, "method-refused")


@pytest.mark.parametrize(
    "host", ["evil.test", "127.0.0.1.evil.test", "localhost.evil.test:80", "", "[", "a" * 400, "evil.test@localhost"]
)  # fmt: skip
async def test_a_forged_host_is_refused(bare: Server, host: str) -> None:
    async with bare.client(Host=host) as client:
        answer = await client.get(ALL)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_name_that_was_allowed_is_no_forged_host(bare: Server, tmp_path: Any) -> None:
    async with (
        serving(tmp_path / "other", host_names=("Box.Example",)) as server,
        server.client(Host="box.example:80") as client,
    ):
        assert (await client.get(ALL)).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "https://127.0.0.1", "http://["])
async def test_a_page_from_elsewhere_is_refused(bare: Server, origin: str) -> None:
    async with bare.client(Origin=origin) as client:
        assert (await client.get(ALL)).status_code == 403
    async with bare.client(Origin=bare.url) as client:
        assert (await client.get(ALL)).status_code == 200


async def test_tokens_are_kept_as_hashes_and_are_worth_nothing_when_revoked_or_expired(
    bare: Server,
) -> None:
    token, text = create_token(bare.store, "one", scope=Scope.READ)
    _, old = create_token(bare.store, "two", lifetime_s=-1)
    for path in bare.home.glob("server.sqlite*"):
        assert text.encode() not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
    assert bare.store.read("SELECT hash FROM tokens WHERE id = ?", token.id)[0][0] == hash_of(text)
    assert find_token(bare.store, text) == token
    revoke_token(bare.store, token.id)
    for wrong in (text, old, "", "x" * 1000, text[:-1], "\udcff"):
        assert find_token(bare.store, wrong) is None
    async with httpx.AsyncClient(base_url=bare.url, timeout=120) as client:
        for header in (f"Bearer {old}", "Bearer", "Basic YTpi", "Bearer a b c"):
            answer = await client.get(ALL, headers={"Authorization": header})
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who counts requests no time passes, however long each takes here."""
    monkeypatch.setattr(rates, "time", SimpleNamespace(monotonic=lambda: 1000.0))


@pytest.mark.usefixtures("standing_clock")
async def test_who_guesses_tokens_is_slowed_down(bare: Server) -> None:
    async with httpx.AsyncClient(base_url=bare.url, timeout=120) as client:
        statuses = [
            (await client.get(ALL, headers={"X-API-Key": f"guess {number}"})).status_code
            for number in range(60)
        ]
    assert statuses[0] == 401
    assert 429 in statuses


@pytest.mark.usefixtures("standing_clock")
async def test_who_asks_too_often_is_told_when_to_come_back(run: Run, tmp_path: Any) -> None:
    async with serving(tmp_path / "home", requests_per_second=1) as server:
        async with server.client() as client:
            answers = [await client.get(ALL) for _ in range(10)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert answers[0].status_code == 200
        assert refused[0].json()["code"] == "too-many-requests"
        assert int(refused[0].headers["retry-after"]) >= 1


async def test_callers_that_say_nothing_are_hung_up_on(
    bare: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEADERS_S", 0.2)
    host, port = bare.url.removeprefix("http://").split(":")
    for begun in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: "):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(begun)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()


async def test_a_body_that_does_not_come_is_given_up(
    bare: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage, "READ_S", 0.2)
    host, port = bare.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {ALL} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bare.token()}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{{".encode())
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n"), 240)
    assert b" 408 " in answer
    writer.close()


@pytest.mark.parametrize(
    "data",
    [b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\xff" * 5000 + b"\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc"],
)  # fmt: skip
async def test_bytes_that_are_no_request_disturb_nobody(bare: Server, data: bytes) -> None:
    host, port = bare.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    writer.write_eof()
    try:
        answer = await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        answer = b""
    assert b"Traceback" not in answer
    assert not answer or b" 4" in answer.split(b"\r\n")[0]
    writer.close()
    async with bare.client() as client:
        assert (await client.get(ALL)).status_code == 200


async def test_a_request_id_is_taken_over_if_it_is_one(bare: Server) -> None:
    async with bare.client() as client:
        answer = await client.get(ALL, headers={"X-Request-ID": "mine-1.2"})
        assert answer.headers["x-request-id"] == "mine-1.2"
        answer = await client.get(ALL, headers={"X-Request-ID": "a b" + "c" * 100})
        assert answer.headers["x-request-id"] != "mine-1.2"
        assert answer.headers["x-request-id"].isalnum()


async def test_a_defect_of_ours_is_told_without_its_insides(
    bare: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("with a secret path /root/x")

    monkeypatch.setattr(bare.domain.manager.records, "sandboxes", broken)
    async with bare.client() as client:
        answer = await client.get(ALL)
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "secret path" not in answer.text
    assert "with a secret path" in capfd.readouterr().err


async def test_pages_go_on_where_the_last_one_ended(bare: Server) -> None:
    async with bare.client() as client:
        for number in range(5):
            assert (
                await client.post("/api/v1/volumes", json={"name": f"v{number}"})
            ).status_code == 201
        seen: list[str] = []
        cursor = None
        while True:
            params = {"limit": "2", **({"cursor": cursor} if cursor else {})}
            told = (await client.get("/api/v1/volumes", params=params)).json()
            seen += [one["name"] for one in told["items"]]
            cursor = told["next"]
            if cursor is None:
                break
        assert seen == [f"v{number}" for number in range(5)]
        for bad in ("!", "AAAA", "a" * 2000):
            answer = await client.get("/api/v1/volumes", params={"cursor": bad})
            assert answer.status_code in (200, 422)


async def test_a_request_with_a_key_is_done_once(bare: Server) -> None:
    async with bare.client() as client:
        key = {"Idempotency-Key": "k1"}
        answers = await asyncio.gather(
            *(client.post("/api/v1/volumes", json={"name": "once"}, headers=key) for _ in range(5))
        )
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.text for answer in answers}) == 1
        other = await client.post("/api/v1/volumes", json={"name": "else"}, headers=key)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency-key-reused")
        # What failed can be tried again: the name is taken, and then it is not.
        again = {"Idempotency-Key": "k2"}
        taken = await client.post("/api/v1/volumes", json={"name": "once"}, headers=again)
        assert taken.status_code == 409
        await client.delete("/api/v1/volumes/once")
        assert (
            await client.post("/api/v1/volumes", json={"name": "once"}, headers=again)
        ).status_code == 201
    async with bare.client() as stranger:
        answer = await stranger.post("/api/v1/volumes", json={"name": "own"}, headers=key)
        assert answer.status_code == 201


def test_without_tokens_only_this_machine_may_call() -> None:
    from crucible.errors import BadSetting
    from crucible.server.listening import Address

    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(BadSetting):
            Address(host=host, needs_token=False)
    Address(host="127.0.0.1", needs_token=False)


@given(st.text(max_size=40))
def test_only_the_number_of_an_event_is_one(text: str) -> None:
    try:
        starts = parse_number(text)
    except BadRequest:
        return
    assert all(value >= 0 for value in starts.values())


@settings(max_examples=200)
@given(st.text(max_size=50), st.lists(st.integers(0, 60), max_size=6))
def test_a_character_cut_in_two_is_told_whole(text: str, cuts: list[int]) -> None:
    data = text.encode(errors="ignore")
    numbering = Numbering({Channel.OUTPUT: 0, Channel.ERRORS: 0})
    told = b""
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in itertools.pairwise(places):
        chunk = Chunk(channel=Channel.OUTPUT, offset=begin, data=data[begin:end])
        told += numbering.tell(chunk)
    told += numbering.rest()
    shown = [
        json.loads(line.removeprefix("data: "))
        for line in told.decode().split("\n")
        if line.startswith("data: ")
    ]
    assert "".join(one["text"] for one in shown) == data.decode()
    if data:
        assert f"id: {len(data)}.0" in told.decode()


async def test_what_is_no_request_is_refused_in_the_words_of_all_refusals(bare: Server) -> None:
    host, port = bare.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET / HTTP/9.9\r\n\r\n")
    head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["code"] == "malformed-request"
    writer.close()
