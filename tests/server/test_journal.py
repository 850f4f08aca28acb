"""What who runs the server is told of requests."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run
from tests.server.conftest import Server, serving

from crucible.server.journal import Journal
from crucible.server.tracing import load_tracing


async def test_each_request_is_a_line_with_its_id_and_nothing_secret(
    run: Run, tmp_path: Path
) -> None:
    said = io.StringIO()
    async with serving(tmp_path / "home", journal=Journal(said)) as server:
        token = server.token()
        async with server.client() as client:
            at = "/api/v1/sandboxes?limit=5&secret=hidden"
            await client.get(at, headers={"X-Request-ID": "r1"})
    line = json.loads(said.getvalue().splitlines()[0])
    assert (line["request_id"], line["method"], line["status"]) == ("r1", "GET", 200)
    assert line["path"] == "/api/v1/sandboxes"
    assert line["caller"].startswith("token:")
    assert "hidden" not in said.getvalue()
    assert token not in said.getvalue()


async def test_metrics_count_requests_by_route(bare: Server) -> None:
    async with bare.client() as client:
        await client.get("/api/v1/sandboxes/a")
        await client.get("/api/v1/sandboxes/b")
        text = (await client.get("/metrics")).text
    wanted = (
        'crucible_http_requests_total{method="GET",route="/api/v1/sandboxes/{name}",status="404"} 2'
    )
    assert wanted in text.splitlines()
    assert "crucible_http_request_duration_seconds_count 2" in text.splitlines()


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Something that takes spans, over real HTTP."""
    got: list[bytes] = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            return

    taker = HTTPServer(("127.0.0.1", 0), Taker)
    thread = threading.Thread(target=taker.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{taker.server_port}", got
    taker.shutdown()
    thread.join()
    taker.server_close()


async def test_spans_go_where_the_standard_variables_say(
    run: Run, tmp_path: Path, collector: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, got = collector
    assert load_tracing({}) is None
    assert load_tracing({"OTEL_TRACES_EXPORTER": "none"}) is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    began = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with (
        serving(tmp_path / "home", journal=Journal(None, tracing=load_tracing())) as server,
        server.client(traceparent=f"00-{began}-00f067aa0ba902b7-01") as client,
    ):
        await client.get("/api/v1/sandboxes")
    sent = b"".join(got)
    assert b"GET /api/v1/sandboxes" in sent
    assert bytes.fromhex(began) in sent
