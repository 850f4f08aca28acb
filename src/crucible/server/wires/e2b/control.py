"""The control plane: sandboxes made, found, kept longer, paused, copied, ended."""

from __future__ import annotations

import re
import secrets
import time
import urllib.parse
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from crucible.errors import (
    BadRequest,
    SandboxMissing,
    SnapshotMissing,
    Unsupported,
)
from crucible.sandbox.finishing import finish
from crucible.sandbox.records import SandboxRecord
from crucible.sandbox.spec import SandboxSpec
from crucible.server.auth import Caller, allow, caller_of
from crucible.server.belonging import find_snapshot, sandboxes_of, snapshots_of
from crucible.server.domain import Domain, domain_of
from crucible.server.paging import page
from crucible.server.tokens import Scope, forget_sandbox
from crucible.server.wires.e2b import models
from crucible.server.wires.e2b.answers import ENVD_VERSION, timestamp
from crucible.server.wires.e2b.facts import FOREVER_S, Facts, facts_of, keep, new_token
from crucible.server.wires.e2b.lifetime import Lifetimes
from crucible.server.wires.e2b.models import body_of
from crucible.server.wires.e2b.names import told_domain
from crucible.values import replace

BASE = "base"
# Templates that their clients ask for by themselves.
TEMPLATES = {"base": BASE, "code-interpreter-v1": BASE, "code-interpreter": BASE}
CLIENT_ID = "crucible"
MOST_LISTED = 100
_TAG = re.compile(r"[^A-Za-z0-9._-]")


async def create(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.NewSandbox)
    asked.check()
    name = "i" + secrets.token_hex(10)
    record = await _made(domain, caller_of(request), name, asked)
    facts = Facts(
        token=new_token(),
        template=asked.templateID,
        metadata=asked.metadata,
        is_public=asked.network is None or asked.network.allowPublicTraffic is not False,
    )
    keep(record, facts)
    how = "pause" if asked.autoPause else "kill"
    _lifetimes(request).set(record, asked.timeout, "pause" if how == "pause" else "kill")
    return JSONResponse(_opened(request, record), 201)


async def connect(request: Request) -> Response:
    """Goes on if it was paused. A timeout makes its time longer, never shorter."""
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Connect)
    asked.check()
    record = _found(domain, request)
    was_paused = record.state == "paused"
    if was_paused:
        await domain.manager.resume(record.name)
        if (held := domain.manager.held.get(record.id)) is not None:
            await domain.executions.wake(held)
    elif record.state != "running":
        raise SandboxMissing(record.name)
    record = domain.manager.records.find(record.name)
    seconds = 15.0 if asked.timeout is None else float(asked.timeout)
    if was_paused or time.time() + seconds > facts_of(record).end_at:
        _lifetimes(request).set(record, seconds)
    return JSONResponse(_opened(request, record), 201 if was_paused else 200)


async def list_all(request: Request) -> Response:
    domain = _domain(request, Scope.READ)
    query = request.query_params
    states = [state for state in query.get("state", "").split(",") if state]
    wanted = _metadata(query.get("metadata", ""))
    is_paged = request.url.path.endswith("/v2/sandboxes")
    if not is_paged:
        states = ["running"]
    found = [
        record
        for record in _visible(domain, caller_of(request))
        if (not states or record.state in states)
        and wanted.items() <= dict(facts_of(record).metadata).items()
    ]
    if not is_paged:
        return JSONResponse([_described(record) for record in found])
    part = page(
        found,
        key=lambda one: f"{one.created_at:020.6f}{one.name}",
        show=_described,
        limit=_limit(query.get("limit")),
        cursor=query.get("nextToken") or None,
    )
    return JSONResponse(part.items, headers={"x-next-token": part.next} if part.next else {})


async def get(request: Request) -> Response:
    domain = _domain(request, Scope.READ)
    record = _found(domain, request)
    facts = facts_of(record)
    return JSONResponse(
        {
            **_described(record),
            "envdAccessToken": facts.token,
            "domain": _told_domain(request),
            "allowInternetAccess": record.spec.network != "off",
            "network": {"allowOut": list(record.spec.allow), "denyOut": list(record.spec.deny)},
            "lifecycle": {"autoResume": False, "onTimeout": facts.on_timeout},
        }
    )


async def kill(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    record = _found(domain, request)
    await domain.manager.remove(record.name, force=True)
    forget_sandbox(domain.store, record.id)
    return Response(status_code=204)


async def set_timeout(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Timeout)
    _lifetimes(request).set(_found(domain, request, "running"), asked.timeout)
    return Response(status_code=204)


async def refresh(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Refresh)
    record = _found(domain, request, "running")
    if time.time() + asked.duration > facts_of(record).end_at:
        _lifetimes(request).set(record, asked.duration)
    return Response(status_code=204)


async def pause(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Pause)
    asked.check()
    record = _found(domain, request)
    if record.state == "paused":
        return JSONResponse(
            {"code": 409, "message": f"Sandbox {record.name} is paused already"}, 409
        )
    await domain.manager.pause(record.name)
    _lifetimes(request).suspend(record)
    return Response(status_code=204)


async def fork(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Fork)
    source = _found(domain, request, "running")
    names = ["i" + secrets.token_hex(10) for _ in range(asked.count)]
    copies = await domain.snapshots.fork(source.name, names)
    answers = []
    for copy in copies:
        await domain.executions.take_over(copy)
        keep(copy.record, replace(facts_of(source), token=new_token()))
        seconds = 15.0 if asked.timeout is None else float(asked.timeout)
        _lifetimes(request).set(copy.record, seconds)
        answers.append({"sandbox": _opened(request, copy.record)})
    return JSONResponse(answers, 201)


async def take_snapshot(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Snapshot)
    asked.check()
    record = _found(domain, request, "running")
    tag = _TAG.sub("-", asked.name or "") or f"{record.name}-{secrets.token_hex(4)}"
    await domain.snapshots.take(record.name, tag)
    return JSONResponse({"snapshotID": tag, "names": [tag]}, 201)


async def list_snapshots(request: Request) -> Response:
    domain = _domain(request, Scope.READ)
    source, name = request.query_params.get("sandboxID"), request.query_params.get("name")
    found = [
        {"snapshotID": one.tag, "names": [one.tag]}
        for one in snapshots_of(domain, caller_of(request))
        if source in (None, one.sandbox_name) and name in (None, one.tag)
    ]
    limit = _limit(request.query_params.get("limit"))
    part = page(
        found,
        key=lambda one: str(one["snapshotID"]),
        show=lambda one: one,
        limit=limit,
        cursor=request.query_params.get("nextToken") or None,
    )
    return JSONResponse(part.items, headers={"x-next-token": part.next} if part.next else {})


async def remove_snapshot(request: Request) -> Response:
    domain = _domain(request, Scope.RUN)
    await domain.snapshots.remove(request.path_params["tag"])
    return Response(status_code=204)


async def metrics(request: Request) -> Response:
    domain = _domain(request, Scope.READ)
    record = _found(domain, request)
    if record.state != "running":
        return JSONResponse([])
    stats = await domain.manager.running(record.name).machine.stats()
    used = 100 * stats.cpu_s / max(stats.uptime_s, 0.001) / record.spec.cpus
    now = time.time()
    return JSONResponse(
        [
            {
                "timestamp": timestamp(now),
                "timestampUnix": int(now),
                "cpuCount": record.spec.cpus,
                "cpuUsedPct": round(min(used, 100.0), 2),
                "memTotal": stats.memory_total,
                "memUsed": stats.memory_total - stats.memory_available,
                "memCache": 0,
                "diskTotal": stats.disk_total,
                "diskUsed": stats.disk_total - stats.disk_free,
            }
        ]
    )


async def change_network(request: Request) -> Response:
    """All rules at once: what is left out is not allowed any more."""
    domain = _domain(request, Scope.RUN)
    asked = await body_of(request, models.Network)
    record = _found(domain, request, "running")
    mode, allowed, denied = asked.policy("full")

    def change(spec: SandboxSpec) -> SandboxSpec:
        return _with_policy(spec, mode, allowed, denied)

    await domain.manager.change_network(record.name, change)
    return Response(status_code=204)


async def not_served(request: Request) -> Response:
    raise Unsupported(
        f"{request.method} {request.path_params['rest'][:80]} of E2B is not served here"
    )


async def _made(
    domain: Domain, caller: Caller, name: str, asked: models.NewSandbox
) -> SandboxRecord:
    """From a snapshot of that name, or from an image. One that cannot be started was never made."""
    default = "off" if asked.allow_internet_access is False else "full"
    mode, allowed, denied = (asked.network or models.Network()).policy(default)
    template = TEMPLATES.get(asked.templateID)
    if template is None:
        try:
            find_snapshot(domain, caller, asked.templateID)
        except SnapshotMissing:
            template = asked.templateID
        else:
            held = await domain.snapshots.restore(asked.templateID, name)
            await domain.executions.take_over(held)
            return held.record
    spec = SandboxSpec(image=template, environment=dict(asked.envVars))
    policed = _with_policy(spec, mode, allowed, denied)
    await domain.manager.create(name, policed, owner=caller.user)
    try:
        return await domain.manager.start(name)
    except BaseException:
        await finish(domain.manager.remove(name, force=True))
        raise


def _with_policy(
    spec: SandboxSpec, mode: str, allowed: tuple[str, ...], denied: tuple[str, ...]
) -> SandboxSpec:
    from crucible.network.policy import Policy

    policy = Policy.parse(mode, list(allowed), list(denied))
    return replace(
        spec,
        network=mode,
        allow=tuple(rule.text for rule in policy.allow),
        deny=tuple(rule.text for rule in policy.deny),
    )


def _domain(request: Request, scope: Scope) -> Domain:
    allow(request, scope)
    return domain_of(request)


def _lifetimes(request: Request) -> Lifetimes:
    lifetimes: Lifetimes = request.app.state.lifetimes
    return lifetimes


def _visible(domain: Domain, caller: Caller) -> list[SandboxRecord]:
    return [
        record
        for record in sandboxes_of(domain, caller)
        if not record.is_temporary and record.state in ("running", "paused")
    ]


def _found(domain: Domain, request: Request, *states: str) -> SandboxRecord:
    record = domain.manager.records.find(request.path_params["name"])
    if record.is_temporary or record.state not in (states or ("running", "paused")):
        raise SandboxMissing(record.name)
    return record


def _told_domain(request: Request) -> str | None:
    return told_domain(request, request.app.state.names)


def _opened(request: Request, record: SandboxRecord) -> dict[str, Any]:
    facts = facts_of(record)
    return {
        "sandboxID": record.name,
        "templateID": facts.template,
        "clientID": CLIENT_ID,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": facts.token,
        "trafficAccessToken": facts.token,
        "domain": _told_domain(request),
    }


def _described(record: SandboxRecord) -> dict[str, Any]:
    facts = facts_of(record)
    return {
        "sandboxID": record.name,
        "templateID": facts.template,
        "alias": facts.template,
        "clientID": CLIENT_ID,
        "startedAt": timestamp(record.started_at or record.created_at),
        "endAt": timestamp(facts.end_at or time.time() + FOREVER_S),
        "envdVersion": ENVD_VERSION,
        "cpuCount": record.spec.cpus,
        "memoryMB": record.spec.memory_mib,
        "diskSizeMB": record.spec.disk_mib,
        "state": record.state,
        "metadata": dict(facts.metadata),
    }


def _metadata(text: str) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=100))


def _limit(text: str | None) -> int:
    if text is None:
        return MOST_LISTED
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 1000:
        raise BadRequest("limit is not a number from 1 to 1000")
    return min(int(text), MOST_LISTED)


_ONE = "/sandboxes/{name}"
routes: list[BaseRoute] = [
    Route("/sandboxes", create, methods=["POST"]),
    Route("/v2/sandboxes", create, methods=["POST"]),
    Route("/sandboxes", list_all, methods=["GET"]),
    Route("/v2/sandboxes", list_all, methods=["GET"]),
    Route(_ONE, get, methods=["GET"]),
    Route(_ONE, kill, methods=["DELETE"]),
    Route(f"{_ONE}/connect", connect, methods=["POST"]),
    Route(f"/v2{_ONE}/connect", connect, methods=["POST"]),
    Route(f"{_ONE}/resume", connect, methods=["POST"]),
    Route(f"{_ONE}/timeout", set_timeout, methods=["POST"]),
    Route(f"{_ONE}/refreshes", refresh, methods=["POST"]),
    Route(f"{_ONE}/pause", pause, methods=["POST"]),
    Route(f"{_ONE}/fork", fork, methods=["POST"]),
    Route(f"{_ONE}/snapshots", take_snapshot, methods=["POST"]),
    Route(f"{_ONE}/metrics", metrics, methods=["GET"]),
    Route(f"{_ONE}/network", change_network, methods=["PUT"]),
    Route("/snapshots", list_snapshots, methods=["GET"]),
    Route("/templates/{tag}", remove_snapshot, methods=["DELETE"]),
    Route("/{rest:path}", not_served, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
]
