"""Hooks: asked by command, request and function; what they may do, and what happens when they fail."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.agent.hooks import asking
from crucible.agent.hooks.chain import Hooks
from crucible.agent.hooks.declared import Declared, declared_hooks, parse_hook
from crucible.agent.hooks.points import FACTS, POINTS, HookFault, Point, Ruling, read_reply
from crucible.errors import BadSetting

pytestmark = pytest.mark.usefixtures("run")

_CALL = {"tool": "bash", "arguments": {"command": "ls"}, "call": "1"}


def _hook(script: str, **more: Any) -> Declared:
    table = {
        "name": "mine",
        "on": ["before-tool"],
        "command": [sys.executable, "-c", script],
        "timeout_s": 60,
        **more,
    }
    return parse_hook(table, "the hook")


async def _asked(
    *hooks: Declared, point: Point = "before-tool", environment: dict[str, str] | None = None
) -> Ruling:
    chain = Hooks(hooks, environment=environment)
    return await chain.ask(point, session="s", user="u", data=_CALL, tool="bash")


async def test_a_silent_command_lets_it_pass() -> None:
    ruling = await _asked(_hook("pass"))
    assert (ruling.data, ruling.blocked) == (_CALL, "")
    assert [run.verdict for run in ruling.runs] == ["pass"]


async def test_a_command_is_told_what_would_happen() -> None:
    script = "import json,sys; t=json.load(sys.stdin); print(json.dumps({'block': json.dumps(t)}))"
    ruling = await _asked(_hook(script))
    told = json.loads(ruling.blocked.partition(": ")[2])
    assert told == {"version": 1, "point": "before-tool", "session": "s", "user": "u", **_CALL}


async def test_what_a_hook_says_commands_no_terminal() -> None:
    script = r"import sys; sys.stderr.write('\x1b]0;title\x07\x1b[2Jno\u202e'); sys.exit(2)"
    assert (await _asked(_hook(script))).blocked == "Hook 'mine': no"


async def test_status_two_blocks_with_what_was_said() -> None:
    ruling = await _asked(_hook("import sys; sys.stderr.write('not on Fridays'); sys.exit(2)"))
    assert ruling.blocked == "Hook 'mine': not on Fridays"


async def test_hooks_see_what_those_before_them_changed() -> None:
    add = (
        "import json,sys; a=json.load(sys.stdin)['arguments']; a['command'] += '!';"
        "print(json.dumps({'change': {'arguments': a}}))"
    )
    ruling = await _asked(_hook(add), _hook(add, name="second"))
    assert ruling.data["arguments"] == {"command": "ls!!"}
    assert [run.verdict for run in ruling.runs] == ["change", "change"]


async def test_after_a_block_nobody_else_is_asked(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    second = _hook(f"open({str(seen)!r}, 'w')", name="second")
    ruling = await _asked(_hook("import sys; sys.exit(2)"), second)
    assert ruling.blocked
    assert not seen.exists()


@pytest.mark.parametrize(
    "script",
    [
        "import sys; sys.exit(1)",
        "print('no json')",
        "print('[1]')",
        "print('{\"allow\": true}')",
        "print('{\"block\": 7}')",
        'print(\'{"change": {"tool": "rm"}}\')',
        'print(\'{"change": {"arguments": "text"}}\')',
        'print(\'{"change": {"arguments": {"command": "\' + \'x\' * 3000000 + \'"}}}\')',
        "print('[' * 100000)",
        'print(\'{"change": {"arguments": {"command": NaN}}}\')',
    ],
)
async def test_a_hook_that_misbehaves_blocks_or_is_passed_over_as_declared(script: str) -> None:
    closed = await _asked(_hook(script))
    opened = await _asked(_hook(script, on_failure="pass"))
    assert closed.blocked.startswith("Hook 'mine': ")
    assert (opened.blocked, opened.data) == ("", _CALL)
    assert [run.verdict for run in (*closed.runs, *opened.runs)] == ["failed", "failed"]


async def test_a_program_that_is_not_there_is_a_failing_hook() -> None:
    hook = parse_hook({"name": "x", "on": "before-tool", "command": "/nonexistent/hook"}, "it")
    ruling = await _asked(hook)
    assert "cannot be started" in ruling.blocked


async def test_one_that_never_answers_fails_when_its_time_is_over(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    away = tmp_path / "away"
    # Nor is its time stretched by a program that got away and has its pipes.
    script = (
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        f"if not os.fork(): os.setsid(); open({str(away)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(900)"
    )
    try:
        ruling = await _asked(_hook(script, timeout_s=3))
        assert "did not answer within 3 s" in ruling.blocked
        assert not pid.exists() or not _is_alive(int(pid.read_text()))
    finally:
        if away.exists() and (escaped := away.read_text()):
            os.kill(int(escaped), signal.SIGKILL)


async def test_nothing_of_a_command_outlives_its_answer(tmp_path: Path) -> None:
    """Its child keeps the pipes open; that neither holds us up nor lives on."""
    pid = tmp_path / "pid"
    script = (
        "import subprocess; p=subprocess.Popen(['sleep','900']);"
        f"open({str(pid)!r},'w').write(str(p.pid))"
    )
    ruling = await _asked(_hook(script))
    assert ruling.blocked == ""
    # It was killed; who adopts it may take a moment to bury it.
    for _ in range(6000):
        if not _is_alive(int(pid.read_text())):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the child of the hook lives on")


async def test_a_command_gets_no_key_that_it_was_not_promised() -> None:
    script = "import os,json; print(json.dumps({'block': ' '.join(sorted(os.environ))}))"
    environment = {"ANTHROPIC_API_KEY": "sk-1", "OTHER": "2", "WANTED": "3", "PATH": "/usr/bin"}
    ruling = await _asked(_hook(script, environment=["WANTED"]), environment=environment)
    given = set(ruling.blocked.removeprefix("Hook 'mine': ").split())
    assert {"WANTED", "PATH"} <= given
    assert not given & {"ANTHROPIC_API_KEY", "OTHER"}


async def test_a_hook_for_other_tools_is_not_asked() -> None:
    ruling = await _asked(_hook("import sys; sys.exit(2)", tools=["write", "mcp__*"]))
    assert ruling.runs == ()


async def test_what_was_done_cannot_be_blocked() -> None:
    hook = _hook("import sys; sys.exit(2)", on=["after-session"])
    ruling = await _asked(hook, point="after-session")
    assert ruling.blocked == ""


async def test_a_request_is_answered_like_a_command(server: str) -> None:
    def at(path: str) -> Declared:
        table = {"name": "web", "on": "before-tool", "http": server + path, "timeout_s": 60}
        return parse_hook({**table, "headers_env": {"X-Key": "HOOK_KEY"}}, "it")

    blocked = await _asked(at("/block"), environment={"HOOK_KEY": "k1"})
    assert blocked.blocked == "Hook 'web': bash with k1"
    assert (await _asked(at("/nothing"))).blocked == ""
    assert "status 500" in (await _asked(at("/fails"))).blocked
    assert "status 302" in (await _asked(at("/elsewhere"))).blocked
    assert "more than" in (await _asked(at("/huge"))).blocked


async def test_nobody_at_the_address_is_a_failing_hook() -> None:
    hook = parse_hook({"name": "w", "on": "before-tool", "http": "http://127.0.0.1:1/"}, "it")
    assert "cannot be reached" in (await _asked(hook)).blocked


async def test_a_function_may_wait_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(told: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"block": "waited"}

    def raises(told: dict[str, Any]) -> None:
        raise ValueError("broken")

    def leaves(told: dict[str, Any]) -> None:
        sys.exit(2)

    functions = {"waits": waits, "plain": lambda told: None, "raises": raises, "leaves": leaves}
    monkeypatch.setattr(asking, "find_function", functions.__getitem__)

    def hook(name: str) -> Declared:
        return parse_hook({"name": name, "on": "before-tool", "python": name}, "it")

    assert (await _asked(hook("waits"))).blocked == "Hook 'waits': waited"
    assert (await _asked(hook("plain"))).blocked == ""
    assert "raised ValueError: broken" in (await _asked(hook("raises"))).blocked
    # As a command would: that ends no program of ours.
    assert "raised SystemExit: 2" in (await _asked(hook("leaves"))).blocked


def test_a_function_that_nobody_installed_is_named() -> None:
    with pytest.raises(HookFault, match="no installed package"):
        asking.find_function("nobody-has-this")


def test_hooks_are_read_from_the_users_own_file(tmp_path: Path) -> None:
    path = tmp_path / "hooks.toml"
    path.write_text(
        '[[hook]]\nname = "a"\non = ["before-prompt", "before-tool"]\ncommand = ["check", "it"]\n'
        '[[hook]]\nname = "b"\non = "after-prompt"\nhttp = "https://hooks.example/x"\non_failure = "block"\n'
    )
    a, b = declared_hooks({"CRUCIBLE_HOOKS": str(path)})
    assert (a.on, a.way, a.target) == (("before-prompt", "before-tool"), "command", ("check", "it"))
    assert (a.policy("before-tool"), b.policy("after-prompt")) == ("block", "block")
    assert declared_hooks({"CRUCIBLE_CONFIG": str(tmp_path / "config.toml")}) == (a, b)
    assert declared_hooks({"CRUCIBLE_CONFIG": "/dev/null", "HOME": str(tmp_path)}) == ()


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hooks.toml"
    path.write_text("")
    path.chmod(0o666)
    with pytest.raises(BadSetting, match="can be changed by others"):
        declared_hooks({"CRUCIBLE_HOOKS": str(path)})


@pytest.mark.parametrize(
    "table",
    [
        7,
        {},
        {"name": "a", "on": "before-prompt"},
        {"name": "a", "on": "before-prompt", "command": ["x"], "http": "http://x"},
        {"name": "a", "on": "before-promt", "command": ["x"]},
        {"name": "a", "on": [], "command": ["x"]},
        {"name": "../a", "on": "before-prompt", "command": ["x"]},
        {"name": "a", "on": "before-prompt", "command": ["x\0y"]},
        {"name": "a", "on": "before-prompt", "http": "file:///etc/passwd"},
        {"name": "a", "on": "before-prompt", "command": ["x"], "timeout_s": 0},
        {"name": "a", "on": "before-prompt", "command": ["x"], "timeout_s": True},
        {"name": "a", "on": "before-prompt", "command": ["x"], "on_failure": "ignore"},
        {"name": "a", "on": "before-prompt", "command": ["x"], "onfailure": "pass"},
    ],
)
def test_what_is_no_hook_is_refused(table: object) -> None:
    with pytest.raises(BadSetting):
        parse_hook(table, "hook 1")


def test_every_point_is_described() -> None:
    assert set(FACTS) == set(POINTS)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
)


@given(st.sampled_from(POINTS), _JSON | st.fixed_dictionaries({"change": _JSON}))
def test_no_answer_changes_what_may_not_be_changed(point: Point, answer: object) -> None:
    try:
        reply = read_reply(point, answer)
    except HookFault:
        return
    for name, value in (reply.change or {}).items():
        assert isinstance(value, FACTS[point].changeable[name])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body = 200, b""
            if self.path == "/block":
                said = f"{told['tool']} with {self.headers['X-Key']}"
                body = json.dumps({"block": said}).encode()
            elif self.path == "/fails":
                status = 500
            elif self.path == "/elsewhere":
                status = 302
            elif self.path == "/huge":
                body = b" " * (3 << 20)
            self.send_response(status)
            self.send_header("Location", "/nothing")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_address[1]}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def _is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
