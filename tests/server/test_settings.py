"""A user's settings over HTTP: what is told, what new sessions make of it, and that no key is ever told again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.database import sqlite_template as sqlite_template
from tests.providers.server import ProviderServer
from tests.providers.turns import Turn
from tests.server.agent_stage import Stage, agent_staging
from tests.server.browsers import PASSWORD, browser
from tests.server.conftest import Server
from tests.server.scripted import PlayedProcess, Staged
from tests.server.test_signing import peopled as peopled

from crucible.agent.models.settings import load_settings
from crucible.agent.models.users import UserModels
from crucible.conversations.settings import Provider
from crucible.server.defaults import where
from crucible.server.tokens import Scope

pytestmark = pytest.mark.usefixtures("run")

PATH = "/api/v1/settings"
WRONG = "sk-wrong-9876543210zyxwvuts"


@pytest.fixture
def own_keys(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Stage, ProviderServer]]:
    """Doors to an engine with real models at a server that wants one key; the machine's own is another."""
    with ProviderServer() as provider:
        environment = {**provider.environment("openai"), "CRUCIBLE_CONFIG": "/dev/null"}
        environment["OPENAI_API_KEY"] = WRONG
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        context = agent_staging(
            tmp_path, lambda books: UserModels(load_settings(environment), books.settings.keys)
        )
        yield run(context.__aenter__()), provider
        run(context.__aexit__(None, None, None))


async def test_what_is_set_is_told_and_the_rest_is_as_the_machine_has_it(stage: Stage) -> None:
    async with stage.server.client() as http:
        usual = (await http.get(PATH)).json()
        assert usual["provider"] == {"mode": "auto", "strict": True}
        assert usual["egress"] == {"network": "none", "hosts": []}
        assert usual["memory"]
        assert {one["name"] for one in usual["model_providers"]} >= {"openai", "anthropic"}
        assert all(one["on"] for one in usual["skills"])
        skill = usual["skills"][0]["name"]
        changes: dict[str, Any] = {
            "provider": {"mode": "local", "strict": True},
            "models": {"agent": "scripted:test"},
            "budget": {"usd": 2.5, "calls": 10},
            "egress": {"hosts": ["example.com"]},
            "policy": {"deny": ["bash(git push*)"]},
            "skills": {skill: False},
            "memory": False,
            "appearance": {"theme": "dark"},
        }
        told = (await http.patch(PATH, json=changes)).json()
        assert told == (await http.get(PATH)).json()
        assert told["provider"] == {"mode": "local", "strict": True}
        assert told["models"]["agent"] == told["models"]["used"]["chat"] == "scripted:test"
        assert (told["budget"]["usd"], told["budget"]["tokens"]) == (2.5, None)
        assert told["egress"] == {"network": "none", "hosts": ["example.com"]}
        assert told["policy"] == {"allow": [], "ask": [], "deny": ["bash(git push*)"]}
        assert [one["name"] for one in told["skills"] if not one["on"]] == [skill]
        assert (told["memory"], told["appearance"]["theme"]) == (False, "dark")
        # What is not named stays.
        later = (await http.patch(PATH, json={"budget": {"usd": None}})).json()
        assert (later["budget"]["usd"], later["budget"]["calls"]) == (None, 10)
        assert later["egress"]["hosts"] == ["example.com"]


async def test_new_sessions_begin_with_it_and_their_own_options_go_before(stage: Stage) -> None:
    async with stage.server.client() as http:
        skills = [one["name"] for one in (await http.get(PATH)).json()["skills"]]
        await http.patch(
            PATH,
            json={
                "provider": {"mode": "local", "strict": True},
                "models": {"agent": "scripted:one", "chat": "scripted:two"},
                "budget": {"calls": 10},
                "egress": {"hosts": ["example.com"]},
                "policy": {"deny": ["bash"]},
                "skills": {skills[0]: False},
            },
        )
        engine = await stage.server.domain.engine.get()
        first = (await http.post("/api/v1/sessions", json={})).json()
        options = (await engine.session(first["id"])).options
        assert options.models == {"agent": "scripted:one", "chat": "scripted:two"}
        assert (options.budget.calls, options.policy.deny) == (10, ("bash",))
        assert options.sandbox.hosts == ("example.com",)
        assert (options.sandbox.provider, options.sandbox.fallback) == ("local_microvm", "never")
        assert options.skills == tuple(skills[1:])
        asked = {
            "models": {"agent": "scripted:three"},
            "budget": {"tokens": 5},
            "policy": {"allow": ["ls"]},
            "sandbox": {"network": "full"},
            "skills": [],
        }
        second = (await http.post("/api/v1/sessions", json=asked)).json()
        options = (await engine.session(second["id"])).options
        assert options.models == {"agent": "scripted:three"}
        assert (options.budget.calls, options.budget.tokens) == (None, 5)
        assert (options.policy.deny, options.policy.allow) == ((), ("ls",))
        assert (options.sandbox.network, options.sandbox.hosts) == ("full", ())
        assert options.skills == ()
        # Where it runs is not the caller's to say.
        assert options.sandbox.provider == "local_microvm"
        chat = {"prompt": "Hello", "options": {"sandbox": {"image": "base"}}}
        third = (await http.post("/api/v1/chat", json=chat)).json()["conversation"]
        options = (await engine.session(third)).options
        assert options.sandbox.hosts == ("example.com",)


def test_where_sandboxes_run_is_as_a_sandbox_is_told_it() -> None:
    assert where(Provider()) == {}
    assert where(Provider(strict=True)) == {"fallback": "never"}
    assert where(Provider(mode="auto", strict=False)) == {"provider": "auto"}
    assert where(Provider(mode="auto", strict=True)) == {"provider": "auto", "fallback": "never"}
    assert where(Provider(mode="local")) == {"provider": "local_microvm"}
    local = {"provider": "local_microvm"}
    assert where(Provider(mode="local", strict=True)) == {**local, "fallback": "never"}
    assert where(Provider(mode="local", strict=False)) == {**local, "fallback": "remote"}
    assert where(Provider(mode="remote"))["provider"] == "remote_e2b"


async def test_a_users_key_goes_before_the_machines_and_is_told_to_nobody(
    own_keys: tuple[Stage, ProviderServer], tmp_path: Path
) -> None:
    stage, provider = own_keys
    provider.script([Turn(text="With your own key.")] * 3)
    session = {"models": {"agent": "openai:gpt-4o"}}
    prompt = {"prompt": "Hello", "intent": "chat"}
    async with stage.server.client() as http:
        id = (await http.post("/api/v1/sessions", json=session)).json()["id"]
        refused = (await http.post(f"/api/v1/sessions/{id}/generate", json=prompt)).json()
        assert refused["end"] == "failed"
        put = await http.put(f"{PATH}/keys/openai", json={"key": provider.key})
        assert (put.status_code, put.content) == (204, b"")
        told = (await http.get(PATH)).json()
        (one,) = [one for one in told["model_providers"] if one["name"] == "openai"]
        assert (one["has_key"], one["key_from"]) == (True, "settings")
        answer = (await http.post(f"/api/v1/sessions/{id}/generate", json=prompt)).json()
        assert (answer["end"], answer["text"]) == ("done", "With your own key.")
        # Neither any route, nor any file: sessions, events, ledger, database and its log.
        paths = (
            "/settings", "/sessions", f"/sessions/{id}", f"/sessions/{id}/history", "/runs",
            f"/runs/{id}/entries", f"/runs/{id}/manifest", "/memory/export", "/budget",
        )  # fmt: skip
        answers = [(await http.get(f"/api/v1{path}")).text for path in paths]
        answers += [json.dumps(one) for one in (answer, told, refused)]
        events = await http.get(f"/api/v1/sessions/{id}/events", params={"turn": 2})
        assert provider.key not in "".join(answers) + events.text
        assert _holders(tmp_path, provider.key) == []
        # Taken away, the machine's is used again.
        assert (await http.delete(f"{PATH}/keys/openai")).status_code == 204
        again = (await http.post(f"/api/v1/sessions/{id}/generate", json=prompt)).json()
        assert again["end"] == "failed"
        assert WRONG not in json.dumps(again)
        told = (await http.get(PATH)).json()
        assert [one["key_from"] for one in told["model_providers"] if one["has_key"]] == [
            "environment"
        ]


async def test_a_wrong_key_is_in_no_error_and_no_record(
    own_keys: tuple[Stage, ProviderServer], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stage, _ = own_keys
    key = "sk-users-own-but-wrong-31415926535"
    async with stage.server.client() as http:
        await http.put(f"{PATH}/keys/openai", json={"key": key})
        made = await http.post("/api/v1/sessions", json={"models": {"agent": "openai:gpt-4o"}})
        id = made.json()["id"]
        asked = {"prompt": "Hello", "intent": "chat"}
        answer = await http.post(f"/api/v1/sessions/{id}/generate", json=asked)
        assert answer.json()["end"] == "failed"
        events = await http.get(f"/api/v1/sessions/{id}/events", params={"turn": 1})
        assert key not in answer.text + events.text
    assert _holders(tmp_path, key) == []
    told = capfd.readouterr()
    assert key not in told.out + told.err


async def test_the_key_of_one_user_is_not_used_for_another(
    own_keys: tuple[Stage, ProviderServer],
) -> None:
    stage, provider = own_keys
    provider.script([Turn(text="Not for you.")] * 3)
    await stage.books.settings.set_key("ada", "openai", provider.key)
    await stage.books.settings.change("ada", {"theme": "dark"})
    async with stage.server.client() as http:
        told = (await http.get(PATH)).json()
        assert told["appearance"]["theme"] == "system"
        assert {one["key_from"] for one in told["model_providers"]} == {"environment", "none"}
        made = await http.post("/api/v1/sessions", json={"models": {"agent": "openai:gpt-4o"}})
        asked = {"prompt": "Hello", "intent": "chat"}
        answer = await http.post(f"/api/v1/sessions/{made.json()['id']}/generate", json=asked)
        assert answer.json()["end"] == "failed"
        await http.delete(f"{PATH}/keys/openai")
    assert await stage.books.settings.keys("ada") == {"openai": provider.key}


async def test_of_two_who_sign_in_each_has_their_own_and_takes_it_along(peopled: Server) -> None:
    key, home = "sk-bobs-0123456789abcdefgh", peopled.home
    async with browser(peopled.url) as ann, browser(peopled.url) as bob:
        await ann.sign("sign-up", name="ann", password=PASSWORD)
        await bob.sign("sign-up", name="bob", password=PASSWORD)
        assert (await bob.ask("PUT", "/settings/keys/openai", json={"key": key})).status_code == 204
        dark = {"appearance": {"theme": "dark"}}
        assert (await bob.ask("PATCH", "/settings", json=dark)).status_code == 200
        own = {"name": "mine", "command": ["run"], "environment": {"TOKEN": key}}
        assert (await bob.ask("POST", "/settings/mcp", json=own)).status_code == 201
        # Who is no administrator has nothing run on the host, and reaches nothing of it.
        host = {**own, "name": "host", "where": "host"}
        assert (await bob.ask("POST", "/settings/mcp", json=host)).status_code == 403
        inner = {"name": "inner", "url": peopled.url}
        assert (await bob.ask("POST", "/settings/mcp", json=inner)).status_code == 422
        # An administrator sees no more of it than anybody.
        told = (await ann.ask("GET", "/settings")).json()
        assert told["appearance"]["theme"] == "system"
        assert "settings" not in {one["key_from"] for one in told["model_providers"]}
        assert (await ann.ask("GET", "/settings/mcp")).json() == {"items": []}
        for method, path in (("DELETE", "/settings/mcp/mine"), ("POST", "/settings/mcp/mine/test")):
            assert (await ann.ask(method, path)).status_code == 404, path
        await ann.ask("DELETE", "/settings/keys/openai")
        told = (await bob.ask("GET", "/settings")).json()
        origins = {one["name"]: one["key_from"] for one in told["model_providers"]}
        assert origins["openai"] == "settings"
        # Removed, bob leaves no key behind.
        who = (await bob.auth())["user"]["id"]
        books = await peopled.domain.books.get()
        assert await books.settings.keys(who) == {"openai": key}
        assert (await ann.ask("DELETE", f"/users/{who}")).status_code == 204
        assert await books.settings.keys(who) == {}
        assert await books.settings.servers(who) == []
        assert _holders(home, key) == []


async def test_what_cannot_be_set_is_refused_and_nothing_changes(stage: Stage) -> None:
    bad: tuple[Any, ...] = (
        {"provider": {"mode": "cloud"}}, {"provider": "local"}, {"unknown": 1},
        {"models": {"agent": "x" * 257}}, {"models": {"vision": "p:m"}},
        {"models": {"agent": "\u0000"}},
        {"budget": {"usd": -1}}, {"budget": {"usd": "nan"}}, {"budget": {"euro": 1}},
        {"egress": {"network": "some"}}, {"egress": {"hosts": ["h"] * 257}},
        {"egress": {"hosts": [""]}}, {"egress": {"hosts": "a.test"}},
        {"policy": {"deny": ["bash("]}}, {"policy": {"deny": ["x" * 4097]}},
        {"skills": {"no-such-skill": False}}, {"skills": {"../up": True}},
        {"memory": "perhaps"}, {"appearance": {"theme": "pink"}}, {"appearance": {}}, [], "dark",
        {"appearance": {"theme": "dark"}, "policy": {"allow": ["bash("]}},
    )  # fmt: skip
    async with stage.server.client() as http:
        before = (await http.get(PATH)).json()
        for body in bad:
            answer = await http.patch(PATH, json=body)
            assert answer.status_code == 422, (body, answer.text)
        assert (await http.get(PATH)).json() == before
        for key in ("", " ", "x" * 4097, "sk-né", "sk-a\nb", 7, None):
            answer = await http.put(f"{PATH}/keys/openai", json={"key": key})
            assert answer.status_code == 422, key
            assert "sk-" not in answer.text
        for name in ("nobody", "..%2fopenai", "a%00b"):
            answer = await http.put(f"{PATH}/keys/{name}", json={"key": "sk-some-key-of-mine"})
            assert answer.status_code in (404, 422), name
            assert "sk-some" not in answer.text
    async with stage.server.client(Scope.READ) as http:
        assert (await http.patch(PATH, json={"memory": True})).status_code == 403
        answer = await http.put(f"{PATH}/keys/openai", json={"key": "sk-some-key"})
        assert answer.status_code == 403
        assert (await http.post(f"{PATH}/probe")).status_code == 403
        told = (await http.get(PATH)).json()
        assert {one["base_url"] for one in told["model_providers"]} == {""}


async def test_a_probe_tells_each_stage_and_leaves_nothing(staged: Staged) -> None:
    staged.backend.parts["/bin/sh"] = _again
    async with staged.client() as http:
        events = _events((await http.post(f"{PATH}/probe")).text)
    ended = [data["name"] for kind, data in events if kind == "stage" and data["state"] == "done"]
    assert ended == ["create", "write", "run", "read", "remove"]
    assert all(data["duration_s"] >= 0 for _, data in events if data.get("state") == "done")
    kind, done = events[-1]
    assert (kind, done["ok"], done["error"]) == ("done", True, None)
    assert (done["backend"], done["isolation"]) == ("played", "software-vm")
    assert staged.domain.manager.records.sandboxes() == []


@pytest.mark.parametrize("part", ["fails", "lies"])
async def test_a_probe_tells_which_stage_failed_and_leaves_nothing(
    staged: Staged, part: str
) -> None:
    async def lie(process: PlayedProcess) -> int:
        return 0

    if part == "lies":
        staged.backend.parts["/bin/sh"] = lie
    async with staged.client() as http:
        events = _events((await http.post(f"{PATH}/probe")).text)
    failed = [data["name"] for _, data in events if data.get("state") == "failed"]
    assert failed == ["read" if part == "lies" else "run"]
    assert events[-2][1] | {"duration_s": 0, "detail": ""} == {
        "name": "remove", "state": "done", "detail": "", "duration_s": 0,
    }  # fmt: skip
    assert events[-1][1]["ok"] is False
    assert events[-1][1]["error"]["message"]
    assert staged.domain.manager.records.sandboxes() == []


async def _again(process: PlayedProcess) -> int:
    """As the command of a probe does in a real machine."""
    files = process._machine.files.content
    (path,) = [path for path in files if path.startswith(b"/tmp/probe-")]
    files[path] = files[path].strip() + b" again\n"
    await process.say(b"Played 1.0\n")
    return 0


def _events(text: str) -> list[tuple[str, dict[str, Any]]]:
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    found = [dict(line.split(": ", 1) for line in lines if ": " in line) for lines in blocks]
    return [(one["event"], json.loads(one["data"])) for one in found if "event" in one]


def _holders(root: Path, word: str) -> list[Path]:
    return [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_socket() and word.encode() in path.read_bytes()
    ]
