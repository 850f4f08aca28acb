"""Recorded runs over HTTP and through the SDK: real doors, a real ledger, a model that the test plays."""

from __future__ import annotations

import base64
import io
import json
import time
import zipfile
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, update
from tests.agent.scenes import Say, call
from tests.conftest import Run
from tests.server.agent_stage import Stage

from crucible.agent.models.base import Usage
from crucible.ledger.canonical import canonical
from crucible.ledger.steps import Kind, Step
from crucible.server.tokens import Scope
from crucible.store.tables import ledger as tables
from crucible_client import AsyncClient
from crucible_client.errors import BadRequest, ContentGone, RunMissing

pytestmark = pytest.mark.usefixtures("run")

DAY_US = 86_400_000_000


async def _recorded(stage: Stage, client: AsyncClient) -> str:
    """A turn with one call, in a session that stays."""
    stage.play(
        Say(calls=(call("bash", command="echo $((6*7))"),), usage=Usage(input_tokens=100)),
        Say(text="It is 42."),
    )
    session = await client.create_session(policy={"allow": ["bash"]})
    await session.generate("Compute", intent="agent")
    return session.id


async def test_a_run_is_listed_and_looked_into_with_its_contents(stage: Stage) -> None:
    async with stage.client() as client:
        id = await _recorded(stage, client)
        (run,) = await client.runs.list()
        assert run == await client.runs.get(id)
        assert (run.id, run.state, run.models) == (id, "idle", ("scripted:test",))
        assert (run.tokens_in, run.tokens_out) == (110, 5)
        entries = await client.runs.entries(id)
        assert [entry.number for entry in entries] == list(range(1, run.entries + 1))
        (ran,) = await client.runs.entries(id, kind="tool-call")
        assert ran.facts["name"] == "bash"
        assert ran.output is not None
        assert b"42" in await client.runs.content(id, ran.output)
        assert len(await client.runs.content(id, ran.output, first=1)) == 1
        await (await client.session(id)).destroy()
        assert (await client.runs.get(id)).state == "ended"
        assert [one.id for one in await client.runs.list(state="ended")] == [id]
        assert await client.runs.list(state="idle") == []


async def test_an_export_is_verified_and_a_changed_one_is_told(stage: Stage) -> None:
    async with stage.client() as client:
        id = await _recorded(stage, client)
        assert (await client.runs.verify(id)).is_whole
        manifest = await client.runs.export(id)
        told = await client.runs.verify(exported=manifest)
        assert (told.run, told.is_whole, told.findings) == (id, True, ())
        assert told.absent
        archive = await client.runs.export(id, contents=True)
        assert (await client.runs.verify(exported=archive)).kept == told.absent
        assert zipfile.ZipFile(io.BytesIO(archive)).testzip() is None
        key = await client.runs.public_key()
        assert (await client.runs.verify(exported=manifest, key=key)).is_whole
        changed = json.loads(manifest)
        signature = base64.b64decode(changed["signatures"][0]["sig"])
        changed["signatures"][0]["sig"] = base64.b64encode(signature[::-1]).decode()
        forged = await client.runs.verify(exported=canonical(changed))
        assert [found["problem"] for found in forged.findings] == ["manifest-changed"]
        with pytest.raises(BadRequest):
            await client.runs.verify(exported=canonical({**changed, "payload": "e30="}))


async def test_a_run_that_was_tampered_with_is_told_and_not_exported(stage: Stage) -> None:
    async with stage.client() as client:
        id = await _recorded(stage, client)
        changed = update(tables.entries).where(tables.entries.c.number == 2).values(tokens_in=1)
        await stage.books.database.run(lambda connection: connection.execute(changed))
        verdict = await client.runs.verify(id)
        assert not verdict.is_whole
        assert verdict.findings[0]["entry"] == 2
        async with stage.server.client() as http:
            answer = await http.get(f"/api/v1/runs/{id}/manifest")
        assert (answer.status_code, answer.json()["code"]) == (409, "ledger-broken")


async def test_the_runs_of_another_user_are_missing(stage: Stage) -> None:
    await stage.ledger.open_run("hers", user="ada")
    step = Step(kind=Kind.TOOL_CALL, started_us=1, model="p:secret")
    entry = await stage.ledger.append("hers", step, output=b"her secret")
    async with stage.client() as client, stage.server.client() as http:
        assert await client.runs.list(limit=None) == []
        assert await client.runs.totals("model") == []
        for path in (
            "", "/entries", f"/blobs/{entry.output}", "/manifest", "/manifest?contents=true",
        ):  # fmt: skip
            answer = await http.get(f"/api/v1/runs/hers{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "run-missing"), path
        assert (await http.post("/api/v1/runs/hers/replay")).status_code == 404
        for run in ("hers", "nobodys"):
            with pytest.raises(RunMissing):
                await client.runs.verify(run)
        # Nor by the name of a run of one's own.
        own = await _recorded(stage, client)
        assert (await http.get(f"/api/v1/runs/{own}/blobs/{entry.output}")).status_code == 410


async def test_a_browser_runs_nothing_of_a_content(stage: Stage) -> None:
    await stage.ledger.open_run("r", user="local")
    text, octets = "text/plain; charset=utf-8", "application/octet-stream"
    async with stage.server.client() as http:
        for content, kind, way in (
            (b"<script>alert(1)</script>", text, "inline"),
            (b'<svg xmlns="http://www.w3.org/2000/svg" onload="x()"/>', text, "inline"),
            (b"", text, "inline"),
            (b"\xff\xfe<script>", octets, "attachment"),
            (b"a\0b", octets, "attachment"),
        ):
            step = Step(kind=Kind.TOOL_CALL, started_us=1)
            entry = await stage.ledger.append("r", step, output=content)
            path = f"/api/v1/runs/r/blobs/{entry.output}"
            answer = await http.get(path)
            assert answer.content == content
            assert answer.headers["content-type"] == kind
            assert answer.headers["content-disposition"].startswith(way)
            assert answer.headers["content-security-policy"].startswith("sandbox;")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-size"] == str(len(content))
            saved = await http.get(path, params={"download": True})
            assert saved.headers["content-disposition"].startswith("attachment")


async def test_a_text_that_is_cut_within_a_letter_is_still_text(stage: Stage) -> None:
    await stage.ledger.open_run("r", user="local")
    step = Step(kind=Kind.TOOL_CALL, started_us=1)
    entry = await stage.ledger.append("r", step, output="aé€😀".encode())
    async with stage.server.client() as http:
        for first in range(1, 11):
            answer = await http.get(f"/api/v1/runs/r/blobs/{entry.output}", params={"first": first})
            assert answer.headers["content-type"].startswith("text/plain"), first


async def test_a_content_that_was_erased_is_gone(stage: Stage) -> None:
    await stage.ledger.open_run("r", user="local")
    entry = await stage.ledger.append("r", Step(kind=Kind.TOOL_CALL, started_us=1), output=b"x")
    await stage.ledger.erase("r")
    assert entry.output is not None
    async with stage.client() as client:
        with pytest.raises(ContentGone):
            await client.runs.content("r", entry.output)
        verdict = await client.runs.verify("r")
        assert (verdict.is_whole, verdict.erased) == (True, 1)


async def test_totals_are_by_day_by_model_and_by_both(stage: Stage) -> None:
    noon = 20_000 * DAY_US + DAY_US // 2
    for run, user in (("a", "local"), ("b", "local"), ("c", "ada")):
        await stage.ledger.open_run(run, user=user)
        for day, model, cost in ((0, "p:one", 5), (1, "p:two", None), (1, "", 0)):
            kind = Kind.MODEL_CALL if model else Kind.TOOL_CALL
            await stage.ledger.append(
                run,
                Step(
                    kind=kind,
                    started_us=noon + day * DAY_US,
                    duration_us=500_000,
                    tokens_in=10,
                    tokens_out=1,
                    cost_micros=cost,
                    model=model,
                ),
            )
    async with stage.client() as client:
        days = await client.runs.totals("day")
        assert [(one.day, one.runs, one.steps, one.tokens_in) for one in days] == [
            ("2024-10-04", 2, 2, 20),
            ("2024-10-05", 2, 4, 40),
        ]
        assert [(one.model_calls, one.tool_calls, one.unpriced) for one in days] == [
            (2, 0, 0), (2, 2, 2),
        ]  # fmt: skip
        assert days[0].cost_usd == pytest.approx(0.00001)
        assert days[0].duration_s == pytest.approx(1.0)
        models = await client.runs.totals("model")
        assert [(one.day, one.model, one.steps) for one in models] == [
            ("", "p:one", 2), ("", "p:two", 2),
        ]  # fmt: skip
        both = await client.runs.totals("day-model", model="p:two")
        assert [(one.day, one.model) for one in both] == [("2024-10-05", "p:two")]
        second = await client.runs.totals("day", since=noon / 1e6 + 1)
        assert [one.day for one in second] == ["2024-10-05"]
        first = await client.runs.totals("day", to=noon / 1e6 + 1)
        assert first == []  # The runs were opened later than that.


async def test_ten_thousand_runs_are_listed_in_pages_without_a_gap(stage: Stage) -> None:
    count, now = 10_000, time.time_ns() // 1000
    await stage.books.database.run(partial(_fill, count=count, now=now))
    async with stage.client() as client, stage.server.client() as http:
        found = await client.runs.list(limit=None)
        assert [one.id for one in found] == [f"run-{index:05}" for index in range(count)]
        page = (await http.get("/api/v1/runs", params={"limit": 3})).json()
        # What comes meanwhile shifts nothing.
        await stage.books.database.run(partial(_fill, count=1, now=now + DAY_US, name="late"))
        rest = await http.get("/api/v1/runs", params={"limit": 2, "cursor": page["next"]})
        assert [one["id"] for one in rest.json()["items"]] == ["run-00003", "run-00004"]
        assert [one.id for one in await client.runs.list(model="p:odd", limit=2)] == [
            "run-00001", "run-00003",
        ]  # fmt: skip
        since = (now - 2 * 1_000_000) / 1e6
        some = await client.runs.list(since=since, to=now / 1e6)
        assert {one.id for one in some} <= {"run-00001", "run-00002"}


def _fill(connection: Connection, *, count: int, now: int, name: str = "run") -> None:
    runs, entries = [], []
    # Two at the same moment each, so that a page may end between them.
    for index in range(count):
        run = f"{name}-{index:05}"
        opened = now - index * 1_000_000
        runs.append(
            {
                "id": run,
                "version": 1,
                "opened_us": opened,
                "user": "local",
                "facts": "{}",
                "key": "k",
                "count": 1,
                "hash": "h",
            }
        )
        entries.append(
            {
                "run": run,
                "number": 1,
                "version": 1,
                "kind": "model-call",
                "started_us": opened,
                "duration_us": 1,
                "tokens_in": 1,
                "tokens_out": 1,
                "tokens_cached": 0,
                "cost_micros": 1,
                "model": "p:odd" if index % 2 else "p:even",
                "sandbox": "",
                "image": "",
                "isolation": "",
                "facts": "{}",
                "previous": "",
                "hash": "",
                "signature": "",
            }
        )
    connection.execute(insert(tables.runs), runs)
    connection.execute(insert(tables.entries), entries)


async def test_entries_come_in_pages(stage: Stage) -> None:
    await stage.ledger.open_run("r", user="local")
    for _ in range(7):
        await stage.ledger.append("r", Step(kind=Kind.HOOK, started_us=1))
    async with stage.server.client() as http, stage.client() as client:
        page = (await http.get("/api/v1/runs/r/entries", params={"limit": 3})).json()
        assert [one["number"] for one in page["items"]] == [1, 2, 3]
        rest = await http.get("/api/v1/runs/r/entries", params={"limit": 4, "cursor": page["next"]})
        assert [one["number"] for one in rest.json()["items"]] == [4, 5, 6, 7]
        assert rest.json()["next"] is None
        assert len(await client.runs.entries("r", limit=5)) == 5


async def test_what_cannot_be_asked_for_is_refused(stage: Stage) -> None:
    await stage.ledger.open_run("r", user="local")
    async with stage.server.client(Scope.READ) as http:
        for asked in (
            "/runs?limit=0", "/runs?limit=501", "/runs?cursor=%20", "/runs?cursor=YQ==",
            "/runs?cursor=LTE6YQ==", "/runs?from=-1", "/runs?from=nan", "/runs?to=1e30",
            "/runs?state=gone", "/runs/totals?by=hour", "/runs/r/entries?cursor=YTpi",
            "/runs/r/blobs/..%2f..%2fkeys", "/runs/r/blobs/short", "/runs/r/blobs/" + "A" * 64,
        ):  # fmt: skip
            answer = await http.get(f"/api/v1{asked}")
            assert answer.status_code in (404, 422), answer.text
            assert answer.json()["code"] in ("bad-request", "route-missing"), asked


async def test_what_is_no_manifest_is_refused_without_a_word_of_where_it_lay(
    stage: Stage,
) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b"[" * (65 << 20))
    sent = (b"", b"{}", b"[" * 100_000, b"PK\x03\x04", b"\0" * 1000, bomb.getvalue())
    async with stage.server.client(Scope.READ) as http:
        for body in sent:
            answer = await http.post("/api/v1/runs/verify", content=body)
            assert answer.status_code == 422, body[:20]
            assert "tmp" not in answer.text
            assert "crucible-verify" not in answer.text
        answer = await http.post("/api/v1/runs/verify", params={"key": "no"}, content=b"{}")
        assert answer.status_code == 422


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(body=st.binary(max_size=300) | st.text(max_size=80).map(str.encode))
def test_no_body_breaks_verifying(stage: Stage, run: Run, body: bytes) -> None:
    async def ask() -> Any:
        async with stage.server.client(Scope.READ) as http:
            return await http.post("/api/v1/runs/verify", content=body)

    assert run(ask()).status_code == 422
