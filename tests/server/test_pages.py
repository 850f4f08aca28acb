"""The web application's files over real sockets: what is served, how, and what never is."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Run
from tests.server.conftest import Server

from crucible.server.pages import CLIENT_ROUTES, STATIC, Pages

MOST_FIRST_LOAD = 250_000
AS_BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def get(run: Run, server: Server, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            return await client.get(path, headers={**AS_BROWSER, **headers})

    return run(ask())


async def ask_alone(pages: Pages, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(pages)
    async with httpx.AsyncClient(transport=transport, base_url="http://pages") as client:
        return await client.get(path)


@pytest.mark.parametrize("path", ["/", "/c/abc", "/sandboxes/box", "/settings/models", "/enter"])
def test_an_address_of_the_application_is_answered_with_its_page(
    run: Run, bare: Server, path: str
) -> None:
    answer = get(run, bare, path)

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert '<div id="root">' in answer.text
    assert answer.headers["cache-control"] == "no-cache"


def test_the_page_may_load_nothing_from_elsewhere_and_run_no_script_of_its_text(
    run: Run, bare: Server
) -> None:
    answer = get(run, bare, "/")

    policy = dict(
        part.strip().partition(" ")[::2]
        for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["style-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"<script(?![^>]*\ssrc=)", answer.text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text)


def test_a_program_that_speaks_another_api_is_not_shown_a_page(run: Run, bare: Server) -> None:
    assert get(run, bare, "/sandboxes", Accept="*/*").status_code == 401


def test_files_with_a_hash_in_their_name_are_kept_for_ever_and_sent_small(
    run: Run, bare: Server
) -> None:
    script = re.search(r'src="(/assets/[^"]+\.js)"', get(run, bare, "/").text)
    assert script is not None

    answer = get(run, bare, script[1], **{"Accept-Encoding": "gzip"})
    again = get(
        run, bare, script[1], **{"Accept-Encoding": "gzip", "If-None-Match": answer.headers["etag"]}
    )

    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    assert again.status_code == 304
    assert not again.content


def test_the_frame_for_charts_has_an_origin_of_its_own_and_no_way_out(
    run: Run, bare: Server
) -> None:
    answer = get(run, bare, "/frames/plotly.html")

    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert policy.startswith("sandbox allow-scripts;")
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert "default-src 'none'" in policy
    assert "x-frame-options" not in answer.headers


def test_a_frame_without_an_origin_gets_the_script_that_draws_and_nothing_else(
    run: Run, bare: Server
) -> None:
    drawn = get(run, bare, "/frames/draw.js", Origin="null")
    asked = get(run, bare, "/api/v1/conversations", Origin="null")

    assert drawn.status_code == 200
    assert drawn.headers["cross-origin-resource-policy"] == "cross-origin"
    assert asked.status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../pages.py",
        "/assets/%2e%2e/pages.py",
        "/assets/..%2fpages.py",
        "/assets//etc/passwd",
        "/frames/..\\..\\pages.py",
        "/assets/index.html%00.js",
        "/assets/.vite/manifest.json",
        "/assets/",
        "/frames/nosuch",
    ],
)
def test_nothing_but_the_built_files_is_served(run: Run, bare: Server, path: str) -> None:
    answer = get(run, bare, path)

    assert answer.status_code in (401, 404)
    assert "import" not in answer.text


@given(path=st.text(max_size=60))
def test_no_path_makes_the_files_fail(path: str) -> None:
    assert asyncio.run(ask_alone(Pages(), "/assets/" + quote(path))).status_code in (200, 404)


def test_head_tells_the_same_without_the_body(run: Run, bare: Server) -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(base_url=bare.url, timeout=120) as client:
            return await client.head("/", headers={"Accept-Encoding": "identity"})

    answer = run(ask())

    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) == (STATIC / "index.html").stat().st_size


def test_a_page_cannot_be_posted_to(run: Run, bare: Server) -> None:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(base_url=bare.url, timeout=120) as client:
            return await client.post("/settings")

    assert run(ask()).status_code == 401


def test_a_server_whose_pages_were_never_built_says_so(tmp_path: Path) -> None:
    answer = asyncio.run(ask_alone(Pages(tmp_path / "nothing"), "/"))

    assert answer.status_code == 503
    assert "make setup" in answer.text


def test_the_server_knows_every_address_that_the_pages_know() -> None:
    table = Path("web/src/pages/index.tsx").read_text(encoding="utf-8")

    listed = re.findall(r"paths: \[([^\]]+)\]", table)
    firsts = {path.split("/")[1] for paths in listed for path in re.findall(r'"([^"]+)"', paths)}

    assert firsts
    assert firsts <= CLIENT_ROUTES


def test_the_first_load_of_the_chat_is_small() -> None:
    manifest = json.loads((STATIC / ".vite" / "manifest.json").read_text(encoding="utf-8"))
    wanted = {"index.html", "src/pages/chat/index.tsx"}
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        wanted |= set(manifest[name].get("imports", ())) - seen

    scripts = [STATIC / manifest[name]["file"] for name in seen]

    assert sum(len(gzip.compress(script.read_bytes())) for script in scripts) <= MOST_FIRST_LOAD
