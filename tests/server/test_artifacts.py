"""What tools hand over: shown so that it reaches nothing, and to nobody but who has the conversation."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.scenes import Say, call
from tests.server.agent_stage import Stage
from tests.server.chatting import API, MAY_PUBLISH, said

from crucible.conversations.names import safe_name
from crucible.conversations.zipping import inner_name
from crucible.server import gate
from crucible.server.frames import disposition, with_own_plotly

pytestmark = pytest.mark.usefixtures("run")
PLOTLY = b'<script charset="utf-8" src="https://cdn.plot.ly/plotly-3.0.1.min.js" integrity="sha256-x"></script>'


async def handed_over(stage: Stage, http: Any, name: str, text: str) -> tuple[str, dict[str, Any]]:
    write = call("write", path=f"/workspace/{name}", content=text)
    publish = call("publish", path=f"/workspace/{name}")
    stage.play(Say(calls=(write,)), Say(calls=(publish,)), Say(text="Done."))
    told = await said(http, "Make it", intent="agent", options=MAY_PUBLISH)
    id = told["conversation"]
    items = (await http.get(f"{API}/conversations/{id}/artifacts")).json()["items"]
    assert len(items) == 1, items
    return id, items[0]


@pytest.mark.parametrize("name", ["page.html", "drawing.svg"])
async def test_a_document_of_a_sandbox_reaches_nothing(stage: Stage, name: str) -> None:
    async with stage.server.client() as http:
        text = (
            "<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('/api/v1/auth')</script></svg>"
        )
        id, item = await handed_over(stage, http, name, text)
        got = await http.get(f"{API}/conversations/{id}/artifacts/{item['blob']}")
        assert got.status_code == 200
        assert got.text == text
        policy = got.headers["content-security-policy"].split("; ")
        assert policy[:2] == ["sandbox allow-scripts", "default-src 'none'"]
        assert not any("allow-same-origin" in one or "connect-src" in one for one in policy)
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in got.headers
        saved = await http.get(
            f"{API}/conversations/{id}/artifacts/{item['blob']}", params={"download": "1"}
        )
        assert saved.headers["content-disposition"].startswith("attachment; ")
        assert "sandbox" in saved.headers["content-security-policy"]


async def test_a_chart_draws_with_the_servers_own_script_and_no_other(stage: Stage) -> None:
    async with stage.server.client() as http:
        page = f"<html>{PLOTLY.decode()}<script src='https://evil.example/x.js'></script></html>"
        id, item = await handed_over(stage, http, "chart.html", page)
        got = await http.get(f"{API}/conversations/{id}/artifacts/{item['blob']}")
        assert '<script src="/frames/plotly.min.js"></script>' in got.text
        assert "cdn.plot.ly" not in got.text
        scripts = next(
            one
            for one in got.headers["content-security-policy"].split("; ")
            if one.startswith("script-src")
        )
        assert scripts == f"script-src 'unsafe-inline' {stage.server.url}/frames/plotly.min.js"


async def test_one_of_another_conversation_or_another_user_is_missing(stage: Stage) -> None:
    async with stage.server.client() as http:
        id, item = await handed_over(stage, http, "a.txt", "secret")
        other, _ = await handed_over(stage, http, "b.txt", "mine")
        path = f"{API}/conversations/{other}/artifacts"
        stolen = await http.get(f"{path}/{item['blob']}")
        assert (stolen.status_code, stolen.json()["code"]) == (404, "artifact-missing")
        for odd in ("../x", "A" * 64, item["blob"][:-1], "..%2f..%2fetc%2fpasswd"):
            assert (await http.get(f"{path}/{odd}")).status_code in (404, 422)
        # What is recorded of the same conversation and was not handed over is none either.
        entries = await stage.ledger.entries(id)
        inputs = [one.input for one in entries if one.input]
        assert inputs
        answer = await http.get(f"{API}/conversations/{id}/artifacts/{inputs[0]}")
        assert answer.status_code == 404


async def test_an_erased_one_is_told_as_erased_and_left_out_of_the_zip(stage: Stage) -> None:
    async with stage.server.client() as http:
        id, item = await handed_over(stage, http, "a.txt", "secret")
        path = f"{API}/conversations/{id}"
        whole = await http.get(f"{path}/artifacts.zip")
        with zipfile.ZipFile(io.BytesIO(whole.content)) as archive:
            assert archive.namelist() == ["a.txt"]
            assert archive.read("a.txt") == b"secret"
        await stage.ledger.erase(id, [item["blob"]], reason="test")
        gone = await http.get(f"{path}/artifacts/{item['blob']}")
        assert (gone.status_code, gone.json()["code"]) == (410, "artifact-erased")
        with zipfile.ZipFile(
            io.BytesIO((await http.get(f"{path}/artifacts.zip")).content)
        ) as archive:
            assert archive.namelist() == []


EVERY_ROUTE = (
    ("GET", "", None),
    ("PATCH", "", {"title": "x"}),
    ("DELETE", "", None),
    ("POST", "/restore", None),
    ("GET", "/transcript", None),
    ("GET", "/export", None),
    ("GET", "/artifacts", None),
    ("GET", "/artifacts.zip", None),
    ("GET", f"/artifacts/{'0' * 64}", None),
    ("POST", "/edit", {"turn": 1, "prompt": "x"}),
    ("POST", "/retry", None),
    ("POST", "/branch", {"turn": 1}),
    ("POST", "/apply", {"paths": ["a"]}),
    ("GET", "/changes.zip", None),
)


async def test_every_route_of_another_users_conversation_is_missing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.play(Say(text="Mine."))
    async with stage.server.client() as http:
        id = (await said(http, "Hello"))["conversation"]
        up = (await http.post(f"{API}/upload", files={"file": ("a", b"x")})).json()["id"]
        admit = gate.Gate._admit

        async def as_other(self: Any, connection: Any, wire: Any) -> None:
            await admit(self, connection, wire)
            connection.state.caller = replace(connection.state.caller, user="other")

        monkeypatch.setattr(gate.Gate, "_admit", as_other)
        for method, path, asked in EVERY_ROUTE:
            answer = await http.request(method, f"{API}/conversations/{id}{path}", json=asked)
            assert (answer.status_code, method, path) == (404, method, path)
            assert answer.json()["code"] == "conversation-missing"
        assert (await http.get(f"{API}/conversations")).json()["items"] == []
        found = await http.get(f"{API}/conversations", params={"q": "Hello"})
        assert found.json()["items"] == []
        assert (await http.delete(f"{API}/upload/{up}")).status_code == 404
        used = {"prompt": "x", "attachments": [up]}
        assert (await http.post(f"{API}/chat", json=used)).status_code == 404
        went_on = {"prompt": "x", "conversation": id}
        assert (await http.post(f"{API}/chat", json=went_on)).status_code == 404


async def test_an_export_keeps_hostile_text_inert(stage: Stage) -> None:
    hostile = "```\n# Heading\n<script>alert(1)</script>\n````\n[x](javascript:alert(1))"
    stage.play(Say(text=hostile))
    async with stage.server.client() as http:
        id = (await said(http, "Say it"))["conversation"]
        await http.patch(f"{API}/conversations/{id}", json={"title": 'a"/<b>\r\nX: y'})
        got = await http.get(f"{API}/conversations/{id}/export")
        assert got.headers["content-type"].startswith("text/markdown")
        assert "\n" not in got.headers["content-disposition"]
        fence = "`" * 5
        assert f"{fence}markdown\n{hostile}\n{fence}" in got.text
        assert got.text.startswith('# a"/\\<b\\> X: y\n')
        told = (
            await http.get(f"{API}/conversations/{id}/export", params={"format": "json"})
        ).json()
        assert [one["data"]["text"] for one in told["events"] if one["kind"] == "text"] == [hostile]
        odd = await http.get(f"{API}/conversations/{id}/export", params={"format": "pdf"})
        assert odd.status_code == 422


@given(st.text(), st.booleans())
def test_a_name_makes_no_header_of_its_own(name: str, is_download: bool) -> None:
    told = disposition(name, is_download=is_download)
    assert re.fullmatch(
        r"(inline|attachment); filename=\"[ -~]+\"; filename\*=UTF-8''[A-Za-z0-9%._~-]+", told
    )
    assert told.count('"') == 2


@given(
    st.lists(st.text() | st.sampled_from(["../x", "/etc/passwd", "a//b", "..\\x", "C:\\x", "."]))
)
def test_names_in_a_zip_stay_beneath_and_apart(names: list[str]) -> None:
    taken: set[str] = set()
    made = [inner_name(name, taken) for name in names]
    assert len({one.casefold() for one in made}) == len(made)
    for one in made:
        assert not one.startswith("/")
        assert "\\" not in one
        assert all(part not in ("", ".", "..") for part in one.split("/"))


@given(st.text())
def test_a_safe_name_is_one_that_a_directory_takes(text: str) -> None:
    name = safe_name(text)
    assert 0 < len(name.encode()) <= 255
    assert not set(name) & set('/\\\0\r\n"')


@given(st.binary() | st.sampled_from([PLOTLY * 3, b"<script " * 20_000, b"<script src=" * 20_000]))
def test_only_the_script_that_draws_charts_is_replaced(data: bytes) -> None:
    assert with_own_plotly("text/plain", data) == data
    made = with_own_plotly("text/html; charset=utf-8", data)
    assert made == data or b"cdn.plot.ly" not in made
