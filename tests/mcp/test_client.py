"""Tools of real MCP servers, over each of the ways to reach one."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.agent.places import LocalWorkplace, local_workplace
from tests.conftest import Run
from tests.mcp import servers

from crucible.agent.tools.base import Context, Outcome, Tool
from crucible.agent.tools.fitting import faults_of
from crucible.errors import BadSetting, BadToolCall
from crucible.mcp.settings import McpServer, McpSettings, load_mcp_settings, parse_servers
from crucible.mcp.tools import tool_name
from crucible.mcp.toolset import McpTools

pytestmark = pytest.mark.usefixtures("run")

# What runs in a sandbox without any package: the protocol of 2025, in a few lines.
IN_SANDBOX = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if id is None:
        continue
    if method == "initialize":
        told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "inside", "version": "1"}}
    elif method == "tools/list":
        told = {"tools": [{"name": "where", "description": "Tells where it runs",
                           "inputSchema": {"type": "object"}},
                          {"name": "flood", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call" and asked["params"]["name"] == "where":
        import os
        text = os.getcwd() + " " + os.environ.get("GIVEN", "")
        told = {"content": [{"type": "text", "text": text}]}
    elif method == "tools/call":
        while True:
            sys.stdout.write("x" * 65536)
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print("this is no JSON", flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": told}), flush=True)
"""


@asynccontextmanager
async def _tools(*servers: McpServer, is_dynamic: bool = False) -> AsyncIterator[McpTools]:
    tools = McpTools(McpSettings(servers=servers, is_dynamic=is_dynamic), _ENVIRONMENT)
    try:
        yield tools
    finally:
        await tools.close()


# To start one takes a second of a processor: what need not have its own uses the one of the fixture.
_ENVIRONMENT = {"PATH": os.environ["PATH"], "WANTED": "w1", "ANTHROPIC_API_KEY": "sk-1"}
_ON_HOST = McpServer(
    name="own",
    command=(sys.executable, servers.__file__),
    where="host",
    environment_from=("WANTED",),
    timeout_s=300,
)
_INSIDE = McpServer(
    name="inside",
    command=("python3", "-u", "-c", IN_SANDBOX),
    environment={"GIVEN": "yes"},
    timeout_s=300,
)


async def _call(
    place: LocalWorkplace, tools: tuple[Tool, ...], called: str, **given: Any
) -> Outcome:
    tool = next(one for one in tools if one.spec.name == called)
    context = Context(session="s", call="c1", workplace=place, heard=lambda channel, data: None)
    return await tool.run(tool.use(given), context)


async def test_tools_of_a_program_on_this_host_are_called(
    place: LocalWorkplace, own: McpTools
) -> None:
    tools = await own.tools("s", None, place)
    assert "mcp__own__add" in [tool.spec.name for tool in tools]
    assert all(tool.use({}).reach == "outside" for tool in tools if "fail" in tool.spec.name)
    assert (await _call(place, tools, "mcp__own__add", a=2, b=40)).text == "42"
    failed = await _call(place, tools, "mcp__own__fail")
    assert failed.is_error
    assert "this always fails" in failed.text
    picture = await _call(place, tools, "mcp__own__picture")
    assert [one.media_type for one in picture.artifacts] == ["image/png"]
    with pytest.raises(BadToolCall, match="do not fit"):
        await _call(place, tools, "mcp__own__add", a="two", b=1)
    variable = "mcp__own__variable"
    assert (await _call(place, tools, variable, name="WANTED")).text == "w1"
    key = await _call(place, tools, variable, name="ANTHROPIC_API_KEY")
    assert key.text == "(unset)"


async def test_a_server_that_dies_is_told_and_started_again(
    place: LocalWorkplace, own: McpTools
) -> None:
    tools = await own.tools("s", None, place)
    gone = await _call(place, tools, "mcp__own__leave")
    assert gone.is_error
    assert "MCP server 'own' failed" in gone.text
    assert (await _call(place, tools, "mcp__own__add", a=1, b=1)).text == "2"


async def test_a_call_that_takes_too_long_is_given_up(
    place: LocalWorkplace, own: McpTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = await own.tools("s", None, place)
    mcp_tool: Any = next(one for one in tools if one.spec.name == "mcp__own__slow")
    assert (await _call(place, tools, "mcp__own__add", a=1, b=1)).text == "2"
    monkeypatch.setattr(mcp_tool.connection, "server", replace(_ON_HOST, timeout_s=0.2))
    late = await _call(place, tools, "mcp__own__slow")
    assert "did not answer within 0.2 s" in late.text


async def test_tools_that_come_later_are_seen_where_that_is_wanted(place: LocalWorkplace) -> None:
    async with _tools(_ON_HOST) as mcp:
        tools = await mcp.tools("s", None, place)
        await _call(place, tools, "mcp__own__grow")
        assert await mcp.tools("s", None, place) == tools
        mcp.settings = replace(mcp.settings, is_dynamic=True)
        names = [tool.spec.name for tool in await mcp.tools("s", None, place)]
        assert "mcp__own__more" in names
        # What is not any more what it was said to be when it was allowed is left out, and that is told.
        await _call(place, tools, "mcp__own__rewrite")
        later = [tool.spec.name for tool in await mcp.tools("s", None, place)]
        assert set(names) - set(later) == {"mcp__own__add"}
        assert "what it says of add is not what it said before" in mcp.failures("s")["own"]


async def test_tools_over_http_are_called(place: LocalWorkplace, http_server: str) -> None:
    async with _tools(McpServer(name="web", url=http_server)) as mcp:
        tools = await mcp.tools("s", None, place)
        assert (await _call(place, tools, "mcp__web__add", a=20, b=3)).text == "23"
        large = await _call(place, tools, "mcp__web__large")
        assert "sent an answer of more than 16 MiB" in large.text
        assert (await _call(place, tools, "mcp__web__add", a=2, b=3)).text == "5"


async def test_a_server_runs_in_the_sandbox_unless_it_is_told_otherwise(
    place: LocalWorkplace,
) -> None:
    async with _tools(_INSIDE) as mcp:
        tools = await mcp.tools("s", None, place)
        assert [tool.spec.name for tool in tools] == ["mcp__inside__where", "mcp__inside__flood"]
        assert (await _call(place, tools, "mcp__inside__where")).text == "/workspace yes"
        assert tools[0].use({}).reach == "sandbox"
        # A server that never ends its line fills no memory of ours, and is given up.
        flooded = await _call(place, tools, "mcp__inside__flood")
        assert flooded.is_error


async def test_one_that_cannot_be_reached_does_not_keep_others_from_working(
    place: LocalWorkplace,
) -> None:
    missing = McpServer(name="missing", command=("/nonexistent/server",), where="host")
    nobody = McpServer(name="nobody", url="http://127.0.0.1:1/mcp", timeout_s=20)
    script = "echo 'one module is missing' >&2; exit 1"
    broken = McpServer(name="broken", command=("/bin/sh", "-c", script), timeout_s=60)
    async with _tools(missing, _INSIDE, nobody, broken) as mcp:
        tools = await mcp.tools("s", None, place)
        assert {tool.spec.name.split("__")[1] for tool in tools} == {"inside"}
        failures = mcp.failures("s")
        assert set(failures) == {"missing", "nobody", "broken"}
        assert failures["broken"].endswith("; it said: one module is missing")


async def test_a_session_has_the_servers_that_it_may_use(place: LocalWorkplace) -> None:
    async with _tools(_ON_HOST) as mcp:
        assert await mcp.tools("s", ["other-*"], place) == ()
        assert await mcp.tools("s", [], place) == ()


def test_nothing_is_asked_unless_it_is_turned_on(tmp_path: Path) -> None:
    path = tmp_path / "mcp.toml"
    path.write_text('[server.files]\ncommand = ["mcp-files", "/workspace"]\n')
    off = {"CRUCIBLE_MCP": str(path)}
    assert load_mcp_settings(off).servers == ()
    on = load_mcp_settings({**off, "MCP_ENABLED": "true", "MCP_DYNAMIC_DISCOVERY": "1"})
    assert on.servers == (McpServer(name="files", command=("mcp-files", "/workspace")),)
    assert on.is_dynamic
    path.chmod(0o666)
    with pytest.raises(BadSetting, match="can be changed by others"):
        load_mcp_settings({**off, "MCP_ENABLED": "true"})


@pytest.mark.parametrize(
    "table",
    [
        7,
        {},
        {"command": ["x"], "url": "http://x/"},
        {"command": "x"},
        {"command": [""]},
        {"url": "file:///etc/passwd"},
        {"url": "https://user:secret@host/"},
        {"command": ["x"], "where": "nowhere"},
        {"command": ["x"], "timeout_s": 0},
        {"command": ["x"], "surprise": 1},
        {"command": ["x"], "environment_from": ["SECRET"]},
    ],
)
def test_what_is_no_server_is_refused(table: object) -> None:
    with pytest.raises(BadSetting):
        parse_servers({"server": {"name": table}}, "mcp.toml")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "^((a+)+!|x)$"}}},
        {"properties": {"a": {"pattern": "(?=a)(a+)+$"}}},
        {"patternProperties": {"^(a+)+!?$": {}}, "additionalProperties": False},
        {"$ref": "#"},
        {"$ref": "http://127.0.0.1:1/schema"},
        {
            "$ref": "#/$defs/0",
            "$defs": {
                **{str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)},
                "60": {},
            },
        },
        {"unevaluatedProperties": False, "anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": 7},
    ],
)
def test_a_schema_that_never_ends_decides_nothing(schema: dict[str, Any]) -> None:
    assert faults_of({"type": "object", **schema}, {"a": "a" * 60 + "!", "a" * 60 + "!": 1}) == ""


def test_names_of_tools_fit_and_do_not_collide() -> None:
    names = {tool_name("s", name) for name in ("a.b", "a_b", "a/b", "x" * 100, "x" * 101)}
    assert len(names) == 5
    assert all(len(name) <= 64 for name in names)


@pytest.fixture(scope="module")
def place(run: Run) -> Iterator[LocalWorkplace]:
    context = local_workplace()
    made = run(context.__aenter__())
    run(made.open())
    yield made
    run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def own(run: Run) -> Iterator[McpTools]:
    context = _tools(_ON_HOST)
    yield run(context.__aenter__())
    run(context.__aexit__(None, None, None))


@pytest.fixture
def http_server(run: Run) -> Iterator[str]:
    """In this process, at a port that is its own before it listens."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(servers.make().streamable_http_app(), log_level="error")
    server = uvicorn.Server(config)
    serving: list[asyncio.Task[None]] = []

    async def start() -> None:
        serving.append(asyncio.create_task(server._serve(sockets=[listening])))
        while not server.started:
            assert not serving[0].done()
            await asyncio.sleep(0.01)

    async def stop() -> None:
        server.should_exit = server.force_exit = True
        await serving[0]

    run(start())
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    run(stop())
