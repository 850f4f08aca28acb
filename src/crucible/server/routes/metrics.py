"""Figures for Prometheus."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse

from crucible.sandbox import admission
from crucible.server.auth import MAY_READ, TheCaller, TheDomain
from crucible.server.belonging import sandboxes_of
from crucible.server.callers import Caller
from crucible.server.domain import Domain
from crucible.server.journal import BOUNDS_S, Journal

router = APIRouter(tags=["system"])

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    dependencies=[MAY_READ],
    operation_id="getMetrics",
    response_class=PlainTextResponse,
)
async def metrics(request: Request, domain: TheDomain, caller: TheCaller) -> PlainTextResponse:
    """Of the caller's own sandboxes; what all callers ask for is told to the machine's own user alone."""
    journal: Journal = request.app.state.journal
    lines = [*(_requests(journal) if caller.sees_all else ()), *_sandboxes(domain, caller)]
    return PlainTextResponse("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _requests(journal: Journal) -> list[str]:
    lines = ["# TYPE crucible_http_requests_total counter"]
    for (method, route, status), count in sorted(journal.requests.items()):
        labels = f'method="{method}",route="{_escaped(route)}",status="{status}"'
        lines.append(f"crucible_http_requests_total{{{labels}}} {count}")
    name = "crucible_http_request_duration_seconds"
    lines.append(f"# TYPE {name} histogram")
    total = 0
    for bound in (*BOUNDS_S, float("inf")):
        total += journal.durations[bound]
        shown = "+Inf" if bound == float("inf") else f"{bound:g}"
        lines.append(f'{name}_bucket{{le="{shown}"}} {total}')
    return [*lines, f"{name}_sum {journal.duration_sum:.6f}", f"{name}_count {total}"]


def _sandboxes(domain: Domain, caller: Caller) -> list[str]:
    records = sandboxes_of(domain, caller)
    states = Counter(record.state for record in records if not record.is_temporary)
    commands = sum(len(domain.executions.running(record)) for record in records)
    return [
        "# TYPE crucible_sandboxes gauge",
        *(
            f'crucible_sandboxes{{state="{state}"}} {count}'
            for state, count in sorted(states.items())
        ),
        "# TYPE crucible_sandboxes_temporary gauge",
        f"crucible_sandboxes_temporary {sum(record.is_temporary for record in records)}",
        "# TYPE crucible_commands_running gauge",
        f"crucible_commands_running {commands}",
        "# TYPE crucible_memory_available_bytes gauge",
        f"crucible_memory_available_bytes {admission.available_mib() << 20}",
        "# TYPE crucible_start_time_seconds gauge",
        f"crucible_start_time_seconds {domain.started_at:.3f}",
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
