"""What is inside a sandbox and is no RPC: files up and down, whether it is well, its variables and figures."""

from __future__ import annotations

import os
import posixpath
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from crucible.errors import BadRequest, CrucibleError, GuestRefused, RequestTooLarge, Unsupported
from crucible.server.domain import domain_of
from crucible.server.wires.e2b.access import named_sandbox, sandbox_of
from crucible.server.wires.e2b.answers import is_gone, not_running, refuse
from crucible.server.wires.e2b.inside import Inside, inside_of

MOST_FILE_BYTES = 4 << 30
MOST_FILES = 1000
_PIECE = 65_536


async def download(request: Request) -> Response:
    try:
        inside = await inside_of(request)
    except CrucibleError as error:
        return _gone_or(request, error)
    path = inside.path(request.query_params.get("path", ""))
    files = inside.held.machine.files
    entry = await files.stat(path)
    if entry.type != "file":
        raise BadRequest(f"{path.decode(errors='replace')} is not a file")
    headers = (
        {"Content-Length": str(entry.size)}
        if entry.size and not path.startswith((b"/proc", b"/sys"))
        else {}
    )
    return StreamingResponse(
        _content(inside, path), media_type="application/octet-stream", headers=headers
    )


async def _content(inside: Inside, path: bytes) -> AsyncIterator[bytes]:
    """A sandbox that ends meanwhile cuts the answer short, which is told by hanging up."""
    try:
        async for data in inside.held.machine.files.read(path):
            yield data
    except CrucibleError as error:
        raise ConnectionResetError(error.message) from None


async def upload(request: Request) -> Response:
    try:
        inside = await inside_of(request)
    except CrucibleError as error:
        return _gone_or(request, error)
    if any(name.startswith("x-metadata-") for name in request.headers):
        raise Unsupported("Metadata of files is not served here")
    request.state.most_bytes = MOST_FILE_BYTES
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return JSONResponse(await _parts(request, inside))
    if kind in ("application/octet-stream", ""):
        path = inside.path(request.query_params.get("path", ""))
        return JSONResponse([await _write(inside, path, _decoded(request))])
    raise BadRequest(f"A body of type {kind[:80]!r} cannot be taken")


async def health(request: Request) -> Response:
    name = named_sandbox(request)
    try:
        domain_of(request).manager.running(name)
    except CrucibleError:
        return not_running(name)
    return Response(status_code=204)


async def variables(request: Request) -> Response:
    inside = await inside_of(request)
    return JSONResponse(dict(inside.held.record.spec.environment))


async def figures(request: Request) -> Response:
    inside = await inside_of(request)
    stats = await inside.held.machine.stats()
    spec = inside.held.record.spec
    return JSONResponse(
        {
            "ts": int(time.time()),
            "cpu_count": spec.cpus,
            "cpu_used_pct": round(100 * stats.cpu_s / max(stats.uptime_s, 0.001) / spec.cpus, 2),
            "mem_total": stats.memory_total,
            "mem_used": stats.memory_total - stats.memory_available,
            "disk_total": stats.disk_total,
            "disk_used": stats.disk_total - stats.disk_free,
        }
    )


async def not_served(request: Request) -> Response:
    sandbox_of(request)
    raise Unsupported(f"{request.url.path[:80]} of E2B is not served here")


async def _parts(request: Request, inside: Inside) -> list[dict[str, Any]]:
    """The path stands in the address, or is each file's own name."""
    named = request.query_params.get("path")
    written = []
    async with request.form(max_files=MOST_FILES, max_fields=MOST_FILES) as form:
        for _, part in form.multi_items():
            if isinstance(part, str):
                continue
            path = inside.path(named or part.filename or "")

            async def pieces(part: Any = part) -> AsyncIterator[bytes]:
                while data := await part.read(_PIECE):
                    yield data

            written.append(await _write(inside, path, pieces()))
    if not written:
        raise BadRequest("The form has no file")
    return written


async def _write(inside: Inside, path: bytes, data: AsyncIterator[bytes]) -> dict[str, Any]:
    files = inside.held.machine.files
    try:
        mode = (await files.stat(path)).mode
    except GuestRefused:
        mode = 0o644
    await files.write(path, data, mode=mode, owner=inside.user, make_parents=True)
    name = posixpath.basename(path)
    return {"path": os.fsdecode(path), "name": os.fsdecode(name), "type": "file"}


async def _decoded(request: Request) -> AsyncIterator[bytes]:
    """The body; unpacked if it is packed, and never to more than a file may have."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        async for data in request.stream():
            if data:
                yield data
        return
    if encoding != "gzip":
        raise BadRequest(f"A body packed with {encoding[:40]!r} cannot be taken")
    unpacking, size = zlib.decompressobj(wbits=31), 0
    try:
        async for data in request.stream():
            while data:
                piece = unpacking.decompress(data, _PIECE)
                data = unpacking.unconsumed_tail
                size += len(piece)
                if size > MOST_FILE_BYTES:
                    raise RequestTooLarge(MOST_FILE_BYTES)
                if piece:
                    yield piece
    except zlib.error:
        raise BadRequest("The body is not packed with gzip") from None
    if not unpacking.eof:
        raise BadRequest("The packed body is cut short")


def _gone_or(request: Request, error: CrucibleError) -> Response:
    if is_gone(error):
        return not_running(named_sandbox(request))
    return refuse(error, request.state.request_id)


routes: list[BaseRoute] = [
    Route("/files", download, methods=["GET"]),
    Route("/files", upload, methods=["POST"]),
    Route("/files/compose", not_served, methods=["POST"]),
    Route("/health", health, methods=["GET"]),
    Route("/envs", variables, methods=["GET"]),
    Route("/metrics", figures, methods=["GET"]),
]
signed_routes: list[BaseRoute] = [
    Route("/files", download, methods=["GET"]),
    Route("/files", upload, methods=["POST"]),
]
