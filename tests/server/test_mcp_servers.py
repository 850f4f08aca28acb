"""MCP servers of a user over HTTP: real servers on the official SDK, and addresses that nobody may reach through us."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.agent.places import LocalWorkplace
from tests.conftest import Run
from tests.mcp.test_client import IN_SANDBOX
from tests.mcp.test_client import http_server as http_server
from tests.mcp.test_client import place as place
from tests.server.agent_stage import Stage

from crucible.accounts.logins import is_trusted
from crucible.conversations.settings import OwnServer
from crucible.mcp import outward
from crucible.mcp.own import OwnServers
from crucible.mcp.settings import McpServer, McpSettings
from crucible.mcp.toolset import McpTools
from crucible.network.addresses import Kind
from crucible.server.tokens import Scope
from crucible.store.tables.accounts import logins, users

pytestmark = pytest.mark.usefixtures("run")

PATH = "/api/v1/settings/mcp"
SERVERS = str(Path(__file__).parents[1] / "mcp" / "servers.py")
PROGRAM = [sys.executable, SERVERS, "stdio"]
INSIDE = ["python3", "-u", "-c", IN_SANDBOX]
SECRET = "Bearer 2718281828459045"


async def test_servers_are_added_listed_and_removed_and_tell_no_secret(stage: Stage) -> None:
    async with stage.server.client() as http:
        added = await http.post(
            PATH,
            json={
                "name": "files",
                "url": "https://mcp.example.com/mcp",
                "headers": {"Authorization": SECRET},
            },
        )
        assert added.status_code == 201, added.text
        run = {"name": "tools", "command": ["run"], "environment": {"TOKEN": SECRET}}
        assert (await http.post(PATH, json=run)).status_code == 201
        listed = await http.get(PATH)
        items = {one["name"]: one for one in listed.json()["items"]}
        assert items["files"]["headers"] == ["Authorization"]
        assert items["tools"]["environment"] == ["TOKEN"]
        assert SECRET not in added.text + listed.text
        again = await http.post(PATH, json=run)
        assert (again.status_code, again.json()["code"]) == (409, "mcp-server-taken")
        assert SECRET not in again.text
        assert (await http.delete(f"{PATH}/tools")).status_code == 204
        assert (await http.delete(f"{PATH}/tools")).status_code == 404
        assert (await http.post(f"{PATH}/tools/test")).status_code == 404


async def test_the_servers_of_another_user_are_missing(stage: Stage) -> None:
    await stage.books.settings.add_server("ada", OwnServer(name="hers", command=("run",)))
    async with stage.server.client() as http:
        assert (await http.get(PATH)).json() == {"items": []}
        assert (await http.post(f"{PATH}/hers/test")).status_code == 404
        assert (await http.delete(f"{PATH}/hers")).status_code == 404
    assert len(await stage.books.settings.servers("ada")) == 1


async def test_trying_one_out_lists_its_tools(stage: Stage, http_server: str) -> None:
    async with stage.server.client() as http:
        for wanted in (
            {"name": "inside", "command": INSIDE},
            {"name": "host", "command": PROGRAM, "where": "host"},
            {"name": "web", "url": http_server},
        ):
            assert (await http.post(PATH, json=wanted)).status_code == 201
            answer = await http.post(f"{PATH}/{wanted['name']}/test")
            assert answer.status_code == 200, answer.text
            tools = {one["name"]: one for one in answer.json()["tools"]}
            assert tools, wanted
            assert all(one["input_schema"]["type"] == "object" for one in tools.values())
        await http.post(PATH, json={"name": "gone", "command": ["/nonexistent"], "where": "host"})
        answer = await http.post(f"{PATH}/gone/test")
        assert (answer.status_code, answer.json()["code"]) == (502, "mcp-failed")


async def test_who_is_no_administrator_adds_none_on_the_host_and_none_that_only_it_can_reach(
    stage: Stage, http_server: str
) -> None:
    port = http_server.rpartition(":")[2]
    async with stage.server.client(Scope.RUN) as http:
        answer = await http.post(PATH, json={"name": "a", "command": PROGRAM, "where": "host"})
        assert answer.status_code == 403
        for host in (
            "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433",
            "127.1", "0.0.0.0", "10.0.0.1", "192.168.1.1", "169.254.169.254", "[fe80::1]",
            "[fd00:ec2::254]", "100.64.0.1",
        ):  # fmt: skip
            answer = await http.post(PATH, json={"name": "a", "url": f"http://{host}:{port}"})
            assert (answer.status_code, answer.json()["code"]) == (422, "address-refused"), host
        sandboxed = {"name": "inside", "command": INSIDE}
        assert (await http.post(PATH, json=sandboxed)).status_code == 201
        assert (await http.post(f"{PATH}/inside/test")).status_code == 200
    # A name that was given another address since it was added: it is judged when it is dialled.
    settings = stage.books.settings
    for name, url in (
        ("named", http_server.replace("127.0.0.1", "localhost")),
        ("number", http_server),
    ):
        await settings.add_server("local", OwnServer(name=name, url=url))
        async with stage.server.client(Scope.RUN) as http:
            answer = await http.post(f"{PATH}/{name}/test")
        assert (answer.status_code, answer.json()["code"]) == (422, "address-refused"), answer.text
    # Nor does it help to ask for a test of what was put there otherwise.
    own = OwnServer(name="sneaked", command=tuple(PROGRAM), where="host")
    await settings.add_server("local", own)
    async with stage.server.client(Scope.RUN) as http:
        assert (await http.post(f"{PATH}/sneaked/test")).status_code == 403


async def test_a_server_of_the_public_network_is_reached_by_its_name(
    stage: Stage, http_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The only network that a test has stands for the public one.
    monkeypatch.setattr(outward, "kind_of", lambda address: Kind.PUBLIC)
    # Of two addresses, nobody answers at the first.
    port = int(http_server.removesuffix("/mcp").rpartition(":")[2])
    found = [(0, 0, 0, "", (address, port)) for address in ("127.0.0.9", "127.0.0.1")]

    async def look_up(host: str, *_: Any, **__: Any) -> Any:
        return found

    loop = asyncio.get_running_loop()
    url = http_server.replace("127.0.0.1", "localhost")
    async with stage.server.client(Scope.RUN) as http:
        await http.get(PATH)
        monkeypatch.setattr(loop, "getaddrinfo", look_up)
        added = await http.post(PATH, json={"name": "web", "url": url})
        assert added.status_code == 201, added.text
        answer = await http.post(f"{PATH}/web/test")
        assert answer.status_code == 200, answer.text
        assert answer.json()["tools"]


async def test_what_is_no_server_is_refused(stage: Stage) -> None:
    url = "https://a.example/mcp"
    bad: tuple[Any, ...] = (
        {}, {"name": "a"}, {"name": "A", "url": url}, {"name": "../a", "url": url},
        {"name": "a" * 33, "url": url}, {"name": "a", "url": url, "command": ["x"]},
        {"name": "a", "url": "ftp://a.example/"}, {"name": "a", "url": "https://u:p@a.example/"},
        {"name": "a", "url": "https://a.example\\@127.0.0.1/"}, {"name": "a", "url": "https:///x"},
        {"name": "a", "url": "https://a.example/\r\nHost: b"}, {"name": "a", "url": url, "where": "host"},
        {"name": "a", "url": url, "headers": {"A: b": "c"}},
        {"name": "a", "url": url, "headers": {"A": "b\r\nC: d"}},
        {"name": "a", "url": url, "environment": {"A": "b"}},
        {"name": "a", "command": ["x"], "headers": {"A": "b"}},
        {"name": "a", "command": ["x\u0000"]}, {"name": "a", "command": ["x"] * 65},
        {"name": "a", "command": ["x"], "environment": {"A=B": "c"}},
        {"name": "a", "command": ["x"], "environment": {"A": "b\u0000"}},
        {"name": "a", "command": ["x"], "timeout_s": 0}, {"name": "a", "command": ["x"], "timeout_s": 1e9},
        {"name": "a", "command": ["x"], "by_admin": True}, {"name": "a", "command": "x"}, [],
    )  # fmt: skip
    async with stage.server.client() as http:
        for body in bad:
            answer = await http.post(PATH, json=body)
            assert answer.status_code == 422, (body, answer.text)
        assert (await http.get(PATH)).json() == {"items": []}
    async with stage.server.client(Scope.READ) as http:
        answer = await http.post(PATH, json={"name": "a", "url": url})
        assert answer.status_code == 403
        assert (await http.post(f"{PATH}/a/test")).status_code == 403


@pytest.fixture
def own_tools(stage: Stage, run: Run) -> Iterator[McpTools]:
    async def trusted(user: str) -> bool:
        return await is_trusted(stage.books.database, user)

    machines = McpServer(name="own", command=("/nonexistent",), where="host")
    tools = McpTools(
        McpSettings(servers=(machines,)), {}, OwnServers(stage.books.settings, trusted)
    )
    yield tools
    run(tools.close())


async def test_sessions_have_the_servers_of_their_user(
    stage: Stage, place: LocalWorkplace, own_tools: McpTools
) -> None:
    settings = stage.books.settings
    mine = OwnServer(name="mine", command=tuple(INSIDE))
    await settings.add_server("local", mine)

    async def names(session: str, user: str, wanted: tuple[str, ...] | None = None) -> set[str]:
        return {one.spec.name for one in await own_tools.tools(session, wanted, place, user=user)}

    found = await names("s1", "local")
    assert found
    assert await names("s1", "local", ()) == set()
    assert await names("s2", "ada") == set()
    # Removed, it is gone from a session that had it; another of its name is another.
    await settings.remove_server("local", "mine")
    assert await names("s1", "local") == set()
    await settings.add_server("local", replace(mine, command=("/nonexistent",)))
    assert await names("s1", "local") == set()
    # The user's own stands before the machine's of the same name.
    await settings.add_server("local", replace(mine, name="own"))
    assert await names("s1", "local", ("own",)) != set()


async def test_a_server_on_the_host_goes_with_its_users_role(
    stage: Stage, place: LocalWorkplace, own_tools: McpTools
) -> None:
    database, settings = stage.books.database, stage.books.settings
    user = {"id": "u1", "name": "ada", "plan": "", "created_at": 0.0}
    login = {"user_id": "u1", "password": "", "role": "admin", "is_disabled": False}
    await database.run(lambda c: c.execute(users.insert(), user))
    await database.run(lambda c: c.execute(logins.insert(), login))
    host = OwnServer(name="host", command=tuple(PROGRAM), where="host", by_admin=True)
    await settings.add_server("u1", host)
    await settings.add_server("u1", replace(host, name="sneaked", by_admin=False))
    tools = await own_tools.tools("s1", ("host", "sneaked"), place, user="u1")
    assert {one.spec.name.split("__")[1] for one in tools} == {"host"}
    await database.run(lambda c: c.execute(logins.update().values(role="user")))
    assert await own_tools.tools("s1", ("host", "sneaked"), place, user="u1") == ()
