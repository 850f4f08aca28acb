"""The client against a server that says anything: typed errors, safe repetition, nothing believed unseen."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.sdk.conftest import Half
from tests.sdk.scripted import EXIT, Asked, Scripted, answer, box, command, events, problem

from crucible_client import AsyncSandbox, Exit, Output, errors
from crucible_client._async import http as async_http
from crucible_client._sync import http as sync_http


@asynccontextmanager
async def sandbox(half: Half, scripted: Scripted) -> AsyncIterator[AsyncSandbox]:
    """One that is there already, on the scripted server."""
    scripted.says(answer(box()))
    client = half.client(scripted.url, token="secret")
    found = await half.Sandbox.connect("box", client=client)
    scripted.asked.clear()
    try:
        yield found
    finally:
        await client.close()


async def test_a_command_is_told_as_it_goes_and_then_whole(
    run: Run, half: Half, scripted: Scripted
) -> None:
    heard: list[str] = []
    async with sandbox(half, scripted) as box:
        scripted.says(
            events(
                ("started", command()),
                ("output", {"text": "ü\n"}, "3.0"),
                ("errors", {"base64": "/wA="}, "3.2"),
                ("exit", {"exit": {**EXIT, "status": 3}, "limit": None}),
            )
        )
        result = await box.run("false", on_stdout=heard.append, on_stderr=heard.append)
    assert (result.exit_code, result.ok, result.stdout) == (3, False, "ü\n")
    assert result.stderr_bytes == b"\xff\x00"
    assert heard == ["ü\n", "�\0"]
    with pytest.raises(errors.CommandFailed, match="status 3"):
        result.check()
    asked = scripted.asked[0]
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.json["argv"] == ["/bin/sh", "-c", "false"]


async def test_more_output_than_wanted_is_dropped_and_said_so(
    run: Run, half: Half, scripted: Scripted
) -> None:
    async with sandbox(half, scripted) as box:
        scripted.says(
            events(
                ("output", {"text": "abc"}), ("output", {"text": "def"}),
                ("exit", {"exit": EXIT, "limit": None}),
            )
        )  # fmt: skip
        result = await box.run(["x"], max_output_bytes=4)
    assert (result.stdout, result.stdout_truncated, result.stderr_truncated) == (
        "abcd",
        True,
        False,
    )


@pytest.mark.parametrize(
    "said, error",
    [
        (answer(b"{]"), errors.BadAnswer),
        (answer(b"\xff\xfe"), errors.BadAnswer),
        (answer(b"[" * 100_000), errors.BadAnswer),
        (answer([1, 2]), errors.BadAnswer),
        (answer({"id": 1}), errors.BadAnswer),
        (answer(box(created_at="yesterday")), errors.BadAnswer),
        (answer({**box(), "name": None}), errors.BadAnswer),
        (answer(None), errors.BadAnswer),
        (answer({"oops": True}, 500), errors.BadAnswer),
        (answer(b"<html>", 502, kind="text/html"), errors.BadAnswer),
        (answer(None, 302, Location="http://elsewhere.example/"), errors.BadAnswer),
        (
            answer(gzip.compress(json.dumps(box()).encode()), Content_Encoding="gzip"),
            errors.BadAnswer,
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", errors.ConnectionLost),
        (b"SSH-2.0-OpenSSH\r\n", errors.ConnectionLost),
        (b"", errors.ConnectionLost),
        (problem("sandbox-missing", 404), errors.SandboxMissing),
        (problem("unauthenticated", 401), errors.Unauthenticated),
        (problem("of-a-later-version", 418), errors.CrucibleError),
    ],
    ids=range(18),
)
async def test_whatever_it_answers_is_an_error_with_a_class(
    run: Run, half: Half, scripted: Scripted, said: bytes, error: type[errors.CrucibleError]
) -> None:
    client = half.client(scripted.url)
    scripted.says(said)
    with pytest.raises(errors.CrucibleError) as caught:
        await half.Sandbox.connect("box", client=client)
    assert type(caught.value) is error
    await client.close()


async def test_an_error_carries_what_the_server_said(
    run: Run, half: Half, scripted: Scripted
) -> None:
    client = half.client(scripted.url)
    scripted.says(problem("of-a-later-version", 418))
    with pytest.raises(errors.CrucibleError) as caught:
        await client.sandboxes()
    error = caught.value
    told = (error.code, error.message, error.hint, error.request_id, error.status)
    assert told == ("of-a-later-version", "It is of-a-later-version", "Do otherwise", "r1", 418)
    await client.close()


@pytest.mark.parametrize(
    "said, error",
    [
        (events(("output", {"text": "a"})), errors.ConnectionLost),
        (events(("output", {"text": 1}), ("exit", {"exit": EXIT})), errors.BadAnswer),
        (events(("output", {"base64": "!"}), ("exit", {"exit": EXIT})), errors.BadAnswer),
        (events(("exit", {"exit": {}, "limit": None})), errors.BadAnswer),
        (events(("exit", {"exit": None, "limit": None})), errors.CommandLost),
        (events(rest=b"event: exit\ndata: {\n\n"), errors.BadAnswer),
        (events(rest=b"event: exit\ndata: 7\n\n"), errors.BadAnswer),
        (events(rest=b"data: \xff\n\n"), errors.BadAnswer),
        (events(("error", {"code": "guest-gone", "message": "m"})), errors.GuestGone),
        (events(("error", {"code": 1})), errors.CrucibleError),
        (answer({"not": "events"}), errors.BadAnswer),
    ],
    ids=range(11),
)
async def test_a_stream_that_is_none_is_an_error_with_a_class(
    run: Run, half: Half, scripted: Scripted, said: bytes, error: type[errors.CrucibleError]
) -> None:
    async with sandbox(half, scripted) as box:
        scripted.says(said)
        with pytest.raises(errors.CrucibleError) as caught:
            await box.run("x")
        assert type(caught.value) is error
        assert len(scripted.asked) == 1, "a command is never sent twice"


async def test_answers_without_an_end_are_cut_off(
    run: Run, half: Half, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_http, sync_http):
        monkeypatch.setattr(module, "LARGEST_ANSWER", 1 << 16)
    monkeypatch.setattr("crucible_client.events.LARGEST_EVENT", 1 << 16)
    flood = [b" " * 4096] * 64
    async with sandbox(half, scripted) as found:
        endless = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        scripted.script = lambda asked: [endless, *flood]
        with pytest.raises(errors.BadAnswer, match="larger"):
            await found.refresh()
        scripted.script = lambda asked: [events(), b"data: ", *flood]
        with pytest.raises(errors.BadAnswer, match="event of more"):
            await found.run("x")


async def test_nobody_there_is_said_with_the_command_that_helps(run: Run, half: Half) -> None:
    with deaf_port() as port:
        client = half.client(f"http://127.0.0.1:{port}")
        with pytest.raises(errors.ServerUnreachable) as caught:
            await client.version()
    assert "crucible serve" in caught.value.hint
    await client.close()


async def test_a_server_that_is_silent_is_not_waited_for(
    run: Run, half: Half, scripted: Scripted
) -> None:
    answered = threading.Event()

    def silent(asked: Asked) -> list[bytes]:
        answered.wait(60)
        return []

    client = half.client(scripted.url, timeout_s=0.2)
    scripted.script = silent
    with pytest.raises(errors.NoAnswer):
        await client.version()
    answered.set()
    await client.close()


async def test_a_creation_is_sent_again_with_the_same_key(
    run: Run, half: Half, scripted: Scripted
) -> None:
    client = half.client(scripted.url)
    scripted.says(b"", problem("overloaded", 503, Retry_After="0"), answer(box("kept"), 201))
    made = await half.Sandbox.create(name="kept", client=client, memory_mib=256)
    keys = {asked.headers["idempotency-key"] for asked in scripted.asked}
    bodies = {asked.body for asked in scripted.asked}
    assert (made.name, len(scripted.asked), len(keys), len(bodies)) == ("kept", 3, 1, 1)
    assert scripted.asked[0].json["settings"]["memory_mib"] == 256
    await client.close()


async def test_what_is_not_safe_is_sent_once(run: Run, half: Half, scripted: Scripted) -> None:
    async with sandbox(half, scripted) as found:
        scripted.says(b"")
        with pytest.raises(errors.ConnectionLost):
            await found.pause()
        assert len(scripted.asked) == 1


async def test_who_is_asked_to_wait_for_long_says_so_at_once(
    run: Run, half: Half, scripted: Scripted
) -> None:
    client = half.client(scripted.url)
    scripted.says(problem("overloaded", 503, Retry_After="3600"))
    with pytest.raises(errors.Overloaded):
        await client.version()
    assert len(scripted.asked) == 1
    await client.close()


async def test_output_goes_on_where_the_connection_broke(
    run: Run, half: Half, scripted: Scripted
) -> None:
    async with sandbox(half, scripted) as found:
        scripted.says(answer(command(), 201))
        started = await found.commands.start(["x"], stdin=True)
        scripted.says(
            events(("started", command()), ("output", {"text": "one"}, "3.0")),
            events(
                ("output", {"text": "two"}, "6.0"),
                ("error", {"code": "fell-behind", "message": "You are slow"}),
            ),
            events(("output", {"text": "!"}, "7.0"), ("exit", {"exit": EXIT, "limit": None})),
        )
        told = [one async for one in started.stream()]
    assert [one.text for one in told if isinstance(one, Output)] == ["one", "two", "!"]
    assert isinstance(told[-1], Exit)
    lasts = [asked.headers.get("last-event-id") for asked in scripted.asked[-3:]]
    assert lasts == [None, "3.0", "6.0"]


async def test_a_proxy_is_for_servers_elsewhere_alone(
    run: Run, half: Half, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, scripted.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    scripted.says(answer(None, 502))
    client = half.client("https://sandboxes.example", token="secret")
    with pytest.raises(errors.ConnectionLost):
        await client.version()
    assert [asked.method for asked in scripted.asked] == ["CONNECT"] * len(scripted.asked)
    assert all("authorization" not in asked.headers for asked in scripted.asked)
    await client.close()
    count = len(scripted.asked)
    with deaf_port() as port:
        client = half.client(f"http://127.0.0.1:{port}")
        with pytest.raises(errors.ServerUnreachable):
            await client.version()
    assert len(scripted.asked) == count
    await client.close()


async def test_pages_are_all_read(run: Run, half: Half, scripted: Scripted) -> None:
    client = half.client(scripted.url)
    scripted.says(
        answer({"items": [box("a")], "next": "c"}), answer({"items": [box("b")], "next": None})
    )
    assert [one.name for one in await client.sandboxes()] == ["a", "b"]
    assert "cursor=c" in scripted.asked[1].path
    await client.close()


async def test_a_list_without_an_end_is_cut_off(
    run: Run, half: Half, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_http, sync_http):
        monkeypatch.setattr(module, "MOST_PAGES", 5)
    client = half.client(scripted.url)
    scripted.says(answer({"items": [box("a")], "next": "again"}))
    with pytest.raises(errors.BadAnswer, match="pages"):
        await client.sandboxes()
    await client.close()


async def test_more_than_wanted_is_not_downloaded(
    run: Run, half: Half, scripted: Scripted, tmp_path: Path
) -> None:
    entry = {
        "name": "f", "type": "file", "mode": 0, "size": 1, "modified_at": 0, "uid": 0, "gid": 0,
        "target": "",
    }  # fmt: skip
    async with sandbox(half, scripted) as found:
        scripted.says(answer(entry), answer(b"x" * 5000, kind="application/octet-stream"))
        with pytest.raises(errors.BadAnswer, match="more than 1000"):
            await found.files.download("/f", tmp_path / "f", max_bytes=1000)


async def test_names_are_no_paths(run: Run, half: Half, scripted: Scripted) -> None:
    client = half.client(scripted.url)
    scripted.says(problem("sandbox-missing", 404))
    with pytest.raises(errors.SandboxMissing):
        await half.Sandbox.connect("../tokens?x=#", client=client)
    assert scripted.asked[0].path == "/api/v1/sandboxes/..%2Ftokens%3Fx%3D%23"
    await client.close()


async def test_a_block_removes_what_it_made_also_when_it_fails(
    run: Run, half: Half, scripted: Scripted
) -> None:
    client = half.client(scripted.url)
    scripted.says(answer(box("named"), 201))
    with pytest.raises(KeyboardInterrupt):
        async with await half.Sandbox.create(name="named", client=client):
            raise KeyboardInterrupt
    assert (scripted.asked[-1].method, scripted.asked[-1].path) == (
        "DELETE", "/api/v1/sandboxes/named?force=true",
    )  # fmt: skip
    scripted.asked.clear()
    scripted.says(answer(box("named")))
    async with await half.Sandbox.connect("named", client=client):
        pass
    assert [asked.method for asked in scripted.asked] == ["GET"], "what it found it leaves alone"
    await client.close()


async def test_a_block_that_is_cancelled_removes_what_it_made(run: Run, scripted: Scripted) -> None:
    half = Half(*_async_half())
    client = half.client(scripted.url)
    scripted.says(answer(box("named"), 201))
    inside = asyncio.Event()

    async def work() -> None:
        async with await half.Sandbox.create(name="named", client=client):
            inside.set()
            await asyncio.Event().wait()

    working = asyncio.ensure_future(work())
    await inside.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert scripted.asked[-1].method == "DELETE"
    await client.close()


async def test_a_temporary_sandbox_hangs_on_a_line_of_its_own(
    run: Run, half: Half, scripted: Scripted
) -> None:
    removed, held = threading.Event(), threading.Event()

    def script(asked: Asked) -> list[bytes]:
        if asked.path.endswith("/hold?lease_s=60.0&ttl_s=0.0"):
            held.set()
            removed.wait(60)
            return [events(("held", box()), ("error", {"code": "sandbox-missing", "message": ""}))]
        if asked.method == "DELETE":
            removed.set()
            return [answer(None, 204)]
        return [answer(box(json.loads(asked.body)["name"]), 201)]

    scripted.script = script
    client = half.client(scripted.url)
    async with await half.Sandbox.create(client=client) as made:
        assert made.is_temporary
        assert await asyncio.to_thread(held.wait, 60)
    asked = scripted.asked[0].json
    assert (asked["lease_s"], asked["settings"]["ttl_s"]) == (60.0, 960.0)
    assert removed.is_set()
    await client.close()


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "unix://relative", "http://[::1", "http://a:0", "no url"]
)
def test_what_is_no_address_is_refused(half: Half, url: str) -> None:
    if url:
        with pytest.raises(errors.BadSetting):
            half.client(url)
    with pytest.raises(errors.BadSetting):
        half.client("http://127.0.0.1:1", token="a\nb")


def test_a_token_is_in_no_text(half: Half) -> None:
    client = half.client("http://127.0.0.1:1", token="very-secret")
    shown: Any = getattr(client, "_inner", client)
    assert "very-secret" not in repr(shown) + repr(shown._address)


@contextmanager
def deaf_port() -> Iterator[int]:
    """One where nobody listens, and nobody can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def _async_half() -> tuple[Any, Any]:
    from crucible_client import AsyncClient, AsyncSandbox

    return AsyncClient, AsyncSandbox
