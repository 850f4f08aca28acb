"""Programs as they are, through the gateway: curl directly and by proxy, git."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.network.authority import root_text, server_context
from tests.network.test_ways_out import http2_server
from tests.network.world import World, a_door, a_world, close, echo, exchange, web

from crucible.network import proxy
from crucible.network.events import Outcome
from crucible.network.policy import Policy

A, B = "93.184.216.34", "93.184.216.35"


@asynccontextmanager
async def shop(*rules: str) -> AsyncIterator[World]:
    async with a_world(Policy.parse("allowlist", rules)) as world:
        world.hosts |= {"good.example": [A], "evil.example": [A], "far.example": [B]}
        await world.serve(web, (A, 80), (B, 80), (A, 8080))
        await world.serve(web, (A, 443), tls=server_context("good.example", "evil.example"))
        await world.serve(
            http2_server, (A, 8443), tls=server_context("good.example", protocols=("h2",))
        )
        await world.serve(http2_server, (A, 8081))
        await world.serve(echo, (A, 7))
        yield world


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    file.write_text(root_text())
    return file


async def run_program(*argv: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def curl(door: int, authorities: Path, *argv: str, kind: str = "socks5h") -> tuple[int, str]:
    return await run_program(
        "curl", "-sS", "-m", "100", "-x", f"{kind}://127.0.0.1:{door}", "--cacert", str(authorities), *argv
    )  # fmt: skip


async def test_curl_reaches_what_is_allowed_and_reads_why_it_may_not(
    run: Run, authorities: Path
) -> None:
    async with (
        shop("good.example", "good.example:8443,8081") as world,
        a_door(world, "", 0) as door,
    ):
        assert "for good.example]" in (await curl(door, authorities, "http://good.example/"))[1]
        assert "for good.example]" in (await curl(door, authorities, "https://good.example/"))[1]
        assert (await curl(door, authorities, "https://good.example:8443/"))[
            1
        ] == "good.example:8443"
        plain = await curl(
            door, authorities, "--http2-prior-knowledge", "http://good.example:8081/"
        )
        assert plain[1] == "good.example:8081"
        status, output = await curl(door, authorities, "http://far.example/")
        assert status == 0
        assert "--allow far.example" in output
        assert (await curl(door, authorities, "https://far.example/"))[0] != 0
        world.gateway.policy = world.gateway.policy.allowing("far.example")
        assert "for far.example]" in (await curl(door, authorities, "http://far.example/"))[1]


@pytest.mark.parametrize(
    "forgery",
    [
        ["-H", "Host: evil.example", "http://good.example/"],
        ["--request-target", "http://evil.example/", "http://good.example/"],
        ["--connect-to", "evil.example:443:good.example:443", "https://evil.example/"],
        ["--http2-prior-knowledge", "-H", "Host: evil.example", "http://good.example:8081/"],
    ],
)
async def test_curl_cannot_say_one_name_and_mean_another_until_the_rule_says_so(
    run: Run, authorities: Path, forgery: list[str]
) -> None:
    async with shop("good.example", "good.example:8081") as world, a_door(world, "", 0) as door:
        _, output = await curl(door, authorities, *forgery)
        assert "evil.example]" not in output
        assert (await world.event()).outcome is Outcome.DENIED
        world.gateway.policy = world.gateway.policy.allowing(
            "good.example+unchecked", "good.example:8081+unchecked"
        )
        status, output = await curl(door, authorities, *forgery)
        assert status == 0
        assert "evil.example" in output


async def test_curl_sees_https_and_http_by_the_proxy_under_the_same_policy(
    run: Run, authorities: Path
) -> None:
    async with (
        shop("good.example", "good.example:8080") as world,
        a_door(world, proxy.NAME, proxy.PORT) as door,
    ):
        for url in (
            "http://good.example/x?y",
            "https://good.example/",
            "http://good.example:8080/",
        ):
            status, output = await curl(door, authorities, url, kind="http")
            assert status == 0, output
            assert "for good.example" in output
        status, output = await curl(door, authorities, "http://far.example/", kind="http")
        assert "--allow far.example" in output
        status, output = await curl(door, authorities, "https://far.example/", kind="http")
        assert "403" in output
        world.gateway.policy = world.gateway.policy.allowing("far.example")
        _, output = await curl(door, authorities, "http://far.example/", kind="http")
        assert "for far.example]" in output


async def ask_proxy(world: World, request: bytes) -> bytes:
    return await exchange(world, proxy.NAME, proxy.PORT, request)


async def test_a_request_by_the_proxy_is_what_the_server_would_have_got(run: Run) -> None:
    async with shop("good.example:7") as world:
        answer = await ask_proxy(
            world,
            b"POST http://good.example:7/x?y HTTP/1.1\r\nHost: good.example:7\r\nProxy-Connection: keep-alive\r\n"
            b"Proxy-Authorization: Basic abc\r\nX-Mine: 1\r\nContent-Length: 2\r\n\r\nhi",
        )
        assert answer == (
            b"POST /x?y HTTP/1.1\r\nHost: good.example:7\r\nX-Mine: 1\r\nContent-Length: 2\r\n"
            b"Connection: close\r\n\r\nhi"
        )
        event = await world.event()
        assert (event.name, event.port, event.rule) == ("good.example", 7, "good.example:7")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET http://good.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"CONNECT [::1]:80 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET http://2130706433/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET https://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"CONNECT good.example HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"GET http://user@good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"\x05\x01\x00",
    ],
)
async def test_the_proxy_is_no_way_around(run: Run, request_bytes: bytes) -> None:
    async with shop("good.example") as world:
        answer = await ask_proxy(world, request_bytes)
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))
        assert (await world.event()).outcome is not Outcome.ALLOWED


async def test_a_second_request_to_the_proxy_does_not_follow_the_first(run: Run) -> None:
    request = b"GET http://good.example/1 HTTP/1.1\r\nHost: good.example\r\n\r\n"
    second = b"GET http://good.example/2 HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    async with shop("good.example") as world:
        answer = await ask_proxy(world, request + second)
        assert b"/2" not in answer


async def test_a_tunnel_is_held_to_the_name_it_was_asked_for(run: Run) -> None:
    async with shop("good.example:80,8080") as world:
        reader, writer = await world.open(proxy.NAME, proxy.PORT)
        writer.write(b"CONNECT good.example:8080 HTTP/1.1\r\nHost: good.example\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert b"403 Forbidden" in await reader.read()
        await close(writer)


async def test_names_of_ours_that_nobody_answers_are_refused(run: Run) -> None:
    async with a_world(Policy.parse("full")) as world:
        assert await exchange(world, "nothing.crucible.internal", 80, b"x") == b""
        assert await exchange(world, proxy.NAME, 22, b"x") == b""
        assert world.lookups == []


def test_the_variables_lead_to_the_proxy_and_past_it_for_what_is_ours() -> None:
    assert proxy.VARIABLES["HTTPS_PROXY"] == "http://proxy.crucible.internal:3128"
    assert ".crucible.internal" in proxy.VARIABLES["NO_PROXY"]


async def test_git_clones_over_an_allowed_host_and_no_other(run: Run, tmp_path: Path) -> None:
    """Over the dumb protocol, which any server of files speaks."""
    source = tmp_path / "source"
    environment = {
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    }  # fmt: skip
    for argv in (
        ["git", "init", "-q", str(source)],
        ["git", "-C", str(source), "commit", "-q", "--allow-empty", "-m", "first"],
        ["git", "-C", str(source), "update-server-info"],
    ):
        status, output = await run_program(*argv, environment=environment)
        assert status == 0, output

    async def files(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = source / ".git" / head.split(b" ")[1].decode().split("?")[0].removeprefix("/repo/")
        body = path.read_bytes() if path.is_file() else b""
        status = b"200 OK" if path.is_file() else b"404 Not Found"
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body))
        )
        writer.write(body)
        await close(writer)

    async with shop() as world, a_door(world, "", 0) as door:
        await world.serve(files, (A, 80))
        environment |= {"ALL_PROXY": f"socks5h://127.0.0.1:{door}"}
        argv = ["git", "clone", "-q", "http://good.example/repo/", str(tmp_path / "copy")]
        status, output = await run_program(*argv, environment=environment)
        assert status != 0
        assert "403" in output
        world.gateway.policy = world.gateway.policy.allowing("good.example")
        status, output = await run_program(*argv, environment=environment)
        assert status == 0, output
        assert (tmp_path / "copy" / ".git" / "HEAD").exists()
