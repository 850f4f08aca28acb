"""Tools of skills at work, in a workplace of this host; the VM suite has the same in a sandbox."""

from __future__ import annotations

import hashlib
import http.server
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.places import LocalWorkplace, local_workplace
from tests.conftest import Run

from crucible.agent.judging import PolicyJudge
from crucible.agent.options import PolicyRules
from crucible.agent.skills.declared import parse_tools
from crucible.agent.skills.document import SkillDocument
from crucible.agent.skills.programs import Programs
from crucible.agent.skills.shelf import Shelf, Skill
from crucible.agent.skills.tools import ReadSkill, SkillTool, tool_name
from crucible.agent.skills.toolset import SkillToolset
from crucible.agent.tools.base import Context, Outcome, Tool
from crucible.errors import BadToolCall, SkillChanged

pytestmark = pytest.mark.usefixtures("run")


_ANY: dict[str, Any] = {"parameters": {"type": "object"}}


def _heard(channel: str, data: bytes) -> None: ...


async def _call(place: LocalWorkplace, tool: Tool, **arguments: Any) -> Outcome:
    context = Context(session="s", call="c1", workplace=place, heard=_heard)
    return await tool.run(tool.use(arguments), context)


async def _of(shelf: Shelf, name: str) -> Tool:
    tools = await SkillToolset(shelf, Programs(Path("/nonexistent"))).tools()
    return next(tool for tool in tools if tool.spec.name == name)


def _skill(directory: Path, tools: list[dict[str, Any]], **files: bytes) -> Skill:
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    document = SkillDocument(name="mine", description="d", body="b", metadata={})
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return Skill(
        document=document,
        tools=parse_tools(json.dumps(tools)),
        origin="added",
        directory=directory,
        hashes=hashes,
    )


def _tool_of(skill: Skill, home: Path) -> SkillTool:
    return SkillTool(skill=skill, declared=skill.tools[0], programs=Programs(home))


async def test_a_model_reads_instructions_only_when_it_wants_them(shelf: Shelf) -> None:
    tools = await SkillToolset(shelf, Programs(Path("/x")), ["web-*"]).tools()
    reading = tools[0]
    assert isinstance(reading, ReadSkill)
    assert [tool.spec.name for tool in tools] == ["skill", "skill__web-fetch__fetch"]
    assert "web-fetch: Fetches" in reading.spec.description
    assert "Fetching from the web" not in reading.spec.description
    with pytest.raises(BadToolCall, match="no skill"):
        reading.use({"name": "data-analysis"})


async def test_code_that_a_skill_would_run_is_inspected_and_always_is_about_all_of_it(
    shelf: Shelf,
) -> None:
    tool = await _of(shelf, "skill__code-execution__run")
    judge = PolicyJudge()
    grave = tool.use({"language": "shell", "code": "rm -rf /"})
    said = judge.judge(PolicyRules(), grave)
    assert (said.decision, said.findings[0].rule) == ("ask", "delete-outside")
    denied = judge.judge(PolicyRules(deny=(f"{grave.tool}(rm *)",)), grave)
    assert denied.decision == "deny"
    always = PolicyRules(allow=(said.always,))
    assert judge.judge(always, grave).decision == "allow"
    other = tool.use({"language": "shell", "code": "rm -rf /", "input": "y"})
    assert judge.judge(always, other).decision == "ask"
    query = await _of(shelf, "skill__database-query__query")
    mine, theirs = (query.use({"database": name, "query": "DROP TABLE a"}) for name in ("a", "b"))
    always = PolicyRules(allow=(judge.judge(PolicyRules(), mine).always,), default="ask")
    assert judge.judge(always, mine).decision == "allow"
    assert judge.judge(always, theirs).decision == "ask"


async def test_a_script_runs_in_the_workplace_and_fails_as_it_does(
    place: LocalWorkplace, tmp_path: Path
) -> None:
    tool = {"name": "echo", "description": "d", **_ANY, "script": {"path": "a.sh", "runs": "shell"}}
    skill = _skill(tmp_path / "s", [tool], **{"a.sh": b"cat; pwd; exit 3"})
    done = await _call(place, _tool_of(skill, tmp_path), word="hé")
    assert done.exit_status == 3
    assert '"word": "h\\u00e9"' in done.text
    assert "/workspace" in done.text


async def test_a_script_that_the_sandbox_changed_is_laid_out_anew(
    place: LocalWorkplace, tmp_path: Path
) -> None:
    tool = {"name": "echo", "description": "d", "script": {"path": "a.sh", "runs": "shell"}}
    skill = _skill(tmp_path / "s", [tool], **{"a.sh": b"echo right"})
    await _call(place, _tool_of(skill, tmp_path))
    await place.write("/skills/mine/a.sh", b"echo wrong")
    assert (await _call(place, _tool_of(skill, tmp_path))).text == "right"


async def test_arguments_that_do_not_fit_are_explained(tmp_path: Path) -> None:
    parameters = {
        "type": "object",
        "properties": {"count": {"type": "integer"}},
        "required": ["count"],
        "additionalProperties": False,
    }
    tool = {
        "name": "n",
        "description": "d",
        "parameters": parameters,
        "script": {"path": "a.sh", "runs": "shell"},
    }
    skill = _skill(tmp_path / "s", [tool], **{"a.sh": b""})
    for wrong in ({}, {"count": "x"}, {"count": 1, "more": 2}):
        with pytest.raises(BadToolCall, match="do not fit"):
            _tool_of(skill, tmp_path).use(wrong)


async def test_a_program_is_fetched_once_and_only_with_its_hash(
    place: LocalWorkplace, tmp_path: Path, server: Server
) -> None:
    program = b"#!/bin/sh\necho program $1\n"
    server.bodies["/p"] = program
    digest = hashlib.sha256(program).hexdigest()
    binary = {"url": f"{server.url}/p", "sha256": digest}
    tool = {
        "name": "p",
        "description": "d",
        **_ANY,
        "binary": {"amd64": binary, "arm64": binary, "arguments": ["<{word}>"]},
    }
    home = tmp_path / "home"
    skill = _skill(tmp_path / "s", [tool])
    assert (await _call(place, _tool_of(skill, home), word="x; rm")).text == "program <x; rm>"
    await _call(place, _tool_of(skill, home), word="again")
    assert server.asked.count("/p") == 1
    # What lies here was changed, and so was what is there.
    (home / "skill-programs" / digest).write_bytes(b"other")
    with pytest.raises(SkillChanged, match="sha256"):
        await _call(place, _tool_of(skill, home), word="x")
    server.bodies["/p"] = b"#!/bin/sh\necho evil\n"
    with pytest.raises(SkillChanged, match="sha256"):
        await _call(place, _tool_of(skill, home), word="x")
    assert not list((home / "skill-programs").iterdir())


async def test_an_argument_stays_where_it_is_put_in_a_request(tmp_path: Path) -> None:
    tool = {
        "name": "h",
        "description": "d",
        **_ANY,
        "http": {"url": "https://api.example/items/{id}", "headers": {"X-Tag": "{tag}"}},
    }
    made = _tool_of(_skill(tmp_path / "s", [tool]), tmp_path)
    use = made.use({"id": "../../admin?x=1#y", "tag": "a", "q": "b c"})
    assert use.subject == "https://api.example/items/..%2F..%2Fadmin%3Fx%3D1%23y?q=b+c"
    with pytest.raises(BadToolCall, match="control character"):
        made.use({"id": "1", "tag": "a\r\nHost: evil"})


async def test_code_of_an_added_skill_is_shown_to_the_inspection(tmp_path: Path) -> None:
    tool = {"name": "e", "description": "d", "script": {"path": "a.py", "runs": "python"}}
    skill = _skill(tmp_path / "s", [tool], **{"a.py": b"import os\n"})
    code = _tool_of(skill, tmp_path).use({}).code
    assert code is not None
    assert (code.language, code.text) == ("python", "import os\n")


def test_names_fit_what_providers_take() -> None:
    long = tool_name("a" * 64, "b" * 40)
    assert len(long) <= 64
    assert long != tool_name("a" * 63 + "c", "b" * 40)


async def test_data_analysis_describes_a_table(place: LocalWorkplace, shelf: Shelf) -> None:
    await place.write("/workspace/t.csv", b"name,age\nAnn,31\nBo,\nCy,29\n")
    done = await _call(
        place, await _of(shelf, "skill__data-analysis__profile"), path="/workspace/t.csv"
    )
    assert "3 rows, 2 columns" in done.text
    assert "age: whole numbers, 1 missing, 2 distinct, 29 to 31, mean 30" in done.text


async def test_code_execution_runs_several_languages(place: LocalWorkplace, shelf: Shelf) -> None:
    run = await _of(shelf, "skill__code-execution__run")
    shell = await _call(place, run, language="shell", code="read x; echo got $x", input="this")
    perl = await _call(place, run, language="perl", code="print 6*7, qq(\\n)")
    missing = await _call(place, run, language="lua", code="print(1)")
    assert (shell.text, perl.text) == ("got this", "42")
    assert missing.exit_status == 127
    assert "no lua" in missing.text


async def test_database_query_reads_and_writes_only_when_asked(
    place: LocalWorkplace, shelf: Shelf, tmp_path: Path
) -> None:
    path = tmp_path / "d.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT)")
        made.execute("INSERT INTO t (word) VALUES ('one'), ('two')")
    made.close()
    await place.write("/workspace/d.db", path.read_bytes())
    query = await _of(shelf, "skill__database-query__query")
    tables = await _of(shelf, "skill__database-query__tables")
    database = "/workspace/d.db"
    assert (
        "t (2 rows): id INTEGER key, word TEXT"
        in (await _call(place, tables, database=database)).text
    )
    found = await _call(place, query, database=database, query="SELECT word FROM t ORDER BY id")
    assert found.text.splitlines()[:3] == ["word", "one", "two"]
    for statement in (
        "DELETE FROM t",
        "ATTACH DATABASE '/workspace/other.db' AS o",
        "PRAGMA query_only = off",
    ):
        refused = await _call(place, query, database=database, query=statement)
        assert refused.is_error
    written = await _call(
        place, query, database=database, query="DELETE FROM t WHERE id = 1", writes=True
    )
    assert "1 rows changed" in written.text
    assert "t (1 rows)" in (await _call(place, tables, database=database)).text


async def test_image_generation_is_refused_without_a_provider(
    place: LocalWorkplace, shelf: Shelf
) -> None:
    tool = await _of(shelf, "skill__image-generation__generate")
    refused = await _call(place, tool, prompt="a cat")
    assert refused.is_error
    assert "No image provider is configured" in refused.text


class Server:
    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.url = ""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            body = made.bodies.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{serving.server_address[1]}"
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield made
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "none")


@pytest.fixture
def place(run: Run) -> Iterator[LocalWorkplace]:
    context = local_workplace()
    made = run(context.__aenter__())
    run(made.open())
    yield made
    run(context.__aexit__(None, None, None))
