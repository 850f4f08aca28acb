"""Tools that skills and MCP servers bring, at work in a real sandbox: one is shared by all tests."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.tool_claims import Bench
from tests.conftest import Run
from tests.mcp import plain_server
from tests.providers.turns import Turn, Use
from tests.vm.outside import outside
from tests.vm.turn_stage import TurnStage, a_session, told_results, turn_stage

from crucible import assemble
from crucible.agent.skills.programs import Programs, architecture
from crucible.agent.skills.shelf import Shelf
from crucible.agent.toolbox import SessionTools
from crucible.mcp.settings import McpServer, McpSettings
from crucible.mcp.toolset import McpTools
from crucible.network.outlet import Ask, ByteStream
from crucible.sandbox.spec import SandboxSpec

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("run")]

MODEL = "anthropic:claude-sonnet-4-6"
PROGRAM = "/opt/server.py"
SERVER = Path(plain_server.__file__).read_bytes()
INSIDE = McpServer(
    name="inside",
    command=("python3", PROGRAM),
    environment={"GIVEN": "to the server"},
    timeout_s=600,
)
ABSENT = McpServer(name="absent", command=("no-such-server",))


@pytest.fixture(scope="module")
def stage(
    module_home: Path, tmp_path_factory: pytest.TempPathFactory, run: Run
) -> Iterator[TurnStage]:
    shelf = Shelf(module_home)
    shelf.add(_skill(tmp_path_factory.mktemp("skill") / "mine"))
    toolbox = SessionTools(
        shelf, Programs(module_home), McpTools(McpSettings(servers=(INSIDE, ABSENT)), {})
    )
    with turn_stage(module_home, run, SandboxSpec(), toolbox=toolbox) as made:
        yield made


def _skill(directory: Path) -> Path:
    program = assemble.agent_path().read_bytes()
    any_arguments = {"parameters": {"type": "object"}}
    digest = hashlib.sha256(program).hexdigest()
    tools = [
        {
            "name": "tell",
            "description": "Tells where it is",
            **any_arguments,
            "script": {"path": "scripts/tell.py", "runs": "python"},
        },
        {
            "name": "own",
            "description": "A script that is run by its first line",
            "script": {"path": "scripts/own"},
        },
        {
            "name": "machine",
            "description": "A program for the processor",
            "binary": {architecture(): {"path": "program", "sha256": digest}},
        },
        {
            "name": "ask",
            "description": "Asks a service",
            **any_arguments,
            "http": {
                "method": "POST",
                "url": "http://service.example/items/{id}",
                "headers": {"X-Kind": "{kind}"},
            },
        },
    ]
    (directory / "scripts").mkdir(parents=True)
    (directory / "SKILL.md").write_text(
        "---\nname: mine\ndescription: For tests.\nmetadata:\n  crucible-tools: tools.json\n---\nUse it.\n"
    )
    (directory / "tools.json").write_text(json.dumps(tools))
    (directory / "scripts" / "tell.py").write_text(
        "import json, os, sys\n"
        "print(json.load(sys.stdin)['word'], os.getcwd(), os.environ['SKILL_DIRECTORY'])\n"
        "print(open(os.environ['SKILL_DIRECTORY'] + '/scripts/beside.txt').read())\n"
    )
    (directory / "scripts" / "beside.txt").write_text("a file beside it")
    (directory / "scripts" / "own").write_text("#!/bin/sh\nuname -n; exit 3\n")
    (directory / "program").write_bytes(program)
    return directory


def use(tool: str, **arguments: Any) -> Use:
    return Use(name=tool, arguments=arguments)


async def test_a_skills_scripts_and_programs_run_in_the_sandbox(stage: TurnStage) -> None:
    async with a_session(stage, MODEL, mcp=()) as session:
        answer = await stage.ask(
            session,
            "use the skill",
            Turn(uses=(use("skill", name="mine"),)),
            Turn(
                uses=(
                    use("skill__mine__tell", word="hé"),
                    use("skill__mine__own"),
                    use("skill__mine__machine"),
                )
            ),
            Turn(text="Used."),
        )
        assert (answer.end, answer.text) == ("done", "Used."), answer
        (read,) = told_results(stage.server.requests[1])
        assert "Use it." in read
        told, own, machine = told_results(stage.server.requests[2])
        assert told == "hé /workspace /skills/mine\na file beside it"
        assert own == f"{(await stage.says('uname -n')).strip()}\n[exit status 3]"
        assert "is the first process of a machine, not a program to run" in machine
        assert machine.endswith("[exit status 2]")


async def test_a_skills_request_goes_out_by_the_sandboxs_way_or_not_at_all(
    stage: TurnStage,
) -> None:
    heard: list[bytes] = []

    async def service(stream: ByteStream, ask: Ask) -> None:
        assert (ask.name, ask.port) == ("service.example", 80)
        request = b""
        while not request.endswith(b"}"):
            request += await stream.read()
        heard.append(request)
        await stream.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nstored"
        )
        await stream.close()

    asked = use("skill__mine__ask", id="a/b", kind="test", more=[1])
    async with a_session(stage, MODEL, mcp=()) as session:
        answer = await stage.ask(session, "use it", Turn(uses=(asked,)), Turn(text="No."))
        assert answer.end == "done", answer
        (refused,) = told_results(stage.server.requests[-1])
        assert "http://service.example/items/a%2Fb could not be reached" in refused
        async with outside(stage.sandbox.held, service) as host:
            answer = await stage.ask(session, "use it", Turn(uses=(asked,)), Turn(text="Yes."))
            assert host.failures == []
        assert (answer.end, told_results(stage.server.requests[-1])) == ("done", ["stored"])
        (request,) = heard
        assert request.startswith(b"POST /items/a%2Fb HTTP/1.1\r\n")
        assert b"\r\nX-Kind: test\r\n" in request
        assert request.endswith(b'\r\n\r\n{"more": [1]}')


async def test_a_server_runs_in_the_sandbox_as_long_as_its_session(stage: TurnStage) -> None:
    await stage.says("mkdir -p /opt")
    files = stage.sandbox.held.machine.files
    await files.write(PROGRAM.encode(), SERVER)
    async with a_session(stage, MODEL, skills=()) as session:
        answer = await stage.ask(
            session,
            "run the tools",
            Turn(
                uses=(
                    use("mcp__inside__add", a=2, b=40),
                    use("mcp__inside__variable", name="GIVEN"),
                    use("mcp__inside__fail"),
                    use("mcp__inside__add", a="two", b=1),
                )
            ),
            Turn(text="Ran."),
        )
        assert (answer.end, answer.text) == ("done", "Ran."), answer
        offered = [tool["name"] for tool in stage.server.requests[0].body["tools"]]
        assert {"bash", "mcp__inside__add", "mcp__inside__variable"} <= set(offered)
        total, given, failed, unfit = told_results(stage.server.requests[-1])
        assert (total, given) == ("42", "to the server")
        assert "this always fails" in failed
        assert "do not fit" in unfit
        notices = [
            event.data["text"]
            async for event in _until_end(stage, session)
            if event.kind == "notice"
        ]
        assert len(notices) == 1
        assert "Tools of MCP server 'absent' are left out" in notices[0]
        assert "no-such-server" in notices[0]
        assert PROGRAM.encode() in await Bench(stage.place).processes()
    async with asyncio.timeout(240):
        await Bench(stage.place).nothing_runs(PROGRAM)


async def _until_end(stage: TurnStage, session: str) -> AsyncIterator[Any]:
    async for event in stage.engine.events(session):
        yield event
        if event.kind == "turn-ended":
            return
