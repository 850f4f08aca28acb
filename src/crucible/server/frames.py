"""How the bytes that a sandbox made are handed to a browser: never as a document of the application.

Each answer has a policy of its own: a frame without an origin, from which nothing can be reached and nothing loaded.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.requests import Request

from crucible.conversations.names import safe_name
from crucible.server.domain import domain_of

# The charts of Plotly name its script at its maker's address; ours is served here.
PLOTLY = "/frames/plotly.min.js"
_LARGEST_REWRITTEN = 16 << 20
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,127}")
_HOST = re.compile(r"[A-Za-z0-9.\[\]:-]{1,260}")
_UNKNOWN = "application/octet-stream"
_HTML = "text/html"
_HOSTS = rb"cdn\.plot\.ly|cdn\.jsdelivr\.net|unpkg\.com|cdnjs\.cloudflare\.com"
_PLOTLY_SCRIPT = re.compile(
    rb"<script\b[^<>]{0,400}?\bsrc\s*=\s*[\"']?(?:https?:)?//(?:"
    + _HOSTS
    + rb")/[^\"'\s<>]{0,200}?plotly[^\"'\s<>]{0,200}?\.js[\"']?[^<>]{0,400}>",
    re.IGNORECASE,
)


def headers_for(
    request: Request, *, name: str, media_type: str, is_download: bool
) -> dict[str, str]:
    """What goes with the bytes. Name and type are as something hostile said they were."""
    return {
        "Content-Type": _content_type(media_type),
        "Content-Disposition": disposition(name, is_download=is_download),
        "Content-Security-Policy": policy(request),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


def policy(request: Request) -> str:
    """Nothing but what is in the document itself, and the one script that draws charts."""
    host = request.headers.get("host", "")
    own = f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else ""
    own = domain_of(request).access.public_url or own
    plotly = f" {own}{PLOTLY}" if own else ""
    return (
        "sandbox allow-scripts; default-src 'none'; "
        f"script-src 'unsafe-inline'{plotly}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'self'"
    )


def disposition(name: str, *, is_download: bool) -> str:
    """With a name in ASCII for all, and the real one for who reads RFC 6266."""
    kind = "attachment" if is_download else "inline"
    safe = safe_name(name)
    plain = "".join(one if one.isascii() and one not in '"\\%;' else "_" for one in safe)
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}"


def with_own_plotly(media_type: str, data: bytes) -> bytes:
    """A chart that would load its script from elsewhere takes ours."""
    if not media_type.startswith(_HTML) or len(data) > _LARGEST_REWRITTEN:
        return data
    return _PLOTLY_SCRIPT.sub(f'<script src="{PLOTLY}">'.encode(), data)


def _content_type(media_type: str) -> str:
    told = media_type.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(told):
        return _UNKNOWN
    is_text = told.startswith("text/") or told in ("application/json", "image/svg+xml")
    return f"{told}; charset=utf-8" if is_text else told
