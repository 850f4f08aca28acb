"""The web application's own files, as `scripts/web.py` built them: the page for its addresses, and what it loads.

Only what lay in the directory when it was looked through is served, found by its exact name: no path of a request is
ever joined to one of the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from pathlib import Path

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from crucible.errors import RouteMissing
from crucible.server.auth import ANYBODY
from crucible.server.callers import Caller
from crucible.server.domain import Domain
from crucible.server.problems import problem
from crucible.server.wire import Wire
from crucible.values import dataclass, replace

STATIC = Path(__file__).parent / "static"
# First parts of the addresses that the page itself knows; `web/src/pages/index.tsx` has the rest.
CLIENT_ROUTES = frozenset(
    ("", "c", "sandboxes", "runs", "memory", "settings", "sign-in", "sign-up", "enter")
)
# Programs that speak AgentKernel's API call these too; a browser says that it wants a page.
_SHARED = frozenset(("sandboxes",))
_INDEX = "/index.html"
_FRAMES = "/frames/"
_HASHED = "/assets/"
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
_TYPES = {".js": "text/javascript", ".woff2": "font/woff2", ".map": "application/json"}
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"

# Neither scripts nor styles come from anywhere but our own files; `web/src/ui/scripted-styles.ts` is for who wants to.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self' blob:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
# A chart is drawn from what a sandbox made: in an origin of its own, with no way out.
FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_COMMON = {
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Crucible</title>
<h1>The pages are not built</h1>
<p>This server runs from sources whose web application was never built. Run <code>make setup</code>, or
<code>python3 scripts/web.py build</code>, then load this page again. The API is there all the same.</p>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: Path
    media_type: str
    tag: str
    encodings: tuple[str, ...]


class Pages:
    def __init__(self, directory: Path = STATIC) -> None:
        self._directory = directory
        self._files: dict[str, _File] = {}
        self._seen = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"]
        files = await asyncio.to_thread(self._look)
        name = path if path in files else _INDEX if _first(path) in CLIENT_ROUTES else ""
        if not files:
            return HTMLResponse(_NOT_BUILT, status_code=503, headers=_headers(_INDEX))
        if name not in files:
            known = request.scope.get("state", {}).get("request_id", "")
            return problem(RouteMissing(), known)
        file = files[name]
        headers = {**_headers(name), "ETag": file.tag}
        encoding = _encoding(request, file)
        if encoding:
            headers["Content-Encoding"] = encoding
            headers["ETag"] = f'{file.tag[:-1]}-{encoding}"'
        if file.encodings:
            headers["Vary"] = "Accept-Encoding"
        if headers["ETag"] in _tags(request):
            return Response(status_code=304, headers=headers)
        body = await asyncio.to_thread(_read, file, encoding)
        return Response(body, headers=headers, media_type=file.media_type)

    def _look(self) -> dict[str, _File]:
        """Looks through the directory again when another page was built."""
        try:
            seen = (self._directory / "index.html").stat().st_mtime_ns
        except OSError:
            return {}
        if seen != self._seen:
            self._files = _files(self._directory)
            self._seen = seen
        return self._files


def pages_wire(app: ASGIApp | None = None) -> Wire:
    """Asked before all others, whether a request is for a page."""
    return Wire(
        name="pages",
        prefix="",
        app=app or Pages(),
        authenticate=_nobody_in_particular,
        shows=is_page,
    )


def is_page(connection: HTTPConnection) -> bool:
    if connection.scope["type"] != "http" or connection.scope["method"] not in ("GET", "HEAD"):
        return False
    path: str = connection.scope["path"]
    first = _first(path)
    if path.startswith((_HASHED, _FRAMES)) or path in ("/theme.js", "/mark.svg"):
        return True
    if first in _SHARED:
        return "text/html" in connection.headers.get("accept", "")
    return first in CLIENT_ROUTES


def _nobody_in_particular(_: Domain, connection: HTTPConnection) -> Caller:
    address = connection.client.host if connection.client else ""
    return replace(ANYBODY, id=f"page {address}")


def _files(directory: Path) -> dict[str, _File]:
    found = {}
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or path.suffix in (".br", ".gz") or ".vite" in path.parts:
            continue
        name = "/" + path.relative_to(directory).as_posix()
        encodings = (
            encoding
            for encoding, suffix in _ENCODINGS
            if path.with_name(path.name + suffix).is_file()
        )
        found[name] = _File(
            path=path,
            media_type=_TYPES.get(path.suffix)
            or mimetypes.guess_type(path.name)[0]
            or "application/octet-stream",
            tag=f'"{hashlib.sha256(path.read_bytes()).hexdigest()[:20]}"',
            encodings=tuple(encodings),
        )
    return found


def _read(file: _File, encoding: str) -> bytes:
    suffix = dict(_ENCODINGS).get(encoding, "")
    return file.path.with_name(file.path.name + suffix).read_bytes()


def _headers(name: str) -> dict[str, str]:
    if name.startswith(_FRAMES):
        # Its origin is nobody's, so what it loads is from elsewhere, to a browser.
        return {
            "Content-Security-Policy": FRAME_POLICY,
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "cross-origin",
            "Cache-Control": _ASK_AGAIN,
        }
    return {
        **_COMMON,
        "Content-Security-Policy": POLICY,
        "X-Frame-Options": "DENY",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": _FOR_EVER if name.startswith(_HASHED) else _ASK_AGAIN,
    }


def _encoding(request: Request, file: _File) -> str:
    wanted = request.headers.get("accept-encoding", "")
    names = {
        part.split(";")[0].strip().lower()
        for part in wanted.split(",")
        if not part.replace(" ", "").endswith(";q=0")
    }
    return next((encoding for encoding in file.encodings if encoding in names), "")


def _tags(request: Request) -> set[str]:
    given = request.headers.get("if-none-match", "")
    return {tag.strip().removeprefix("W/") for tag in given.split(",")}


def _first(path: str) -> str:
    return path.split("/", 2)[1] if path.startswith("/") else path
