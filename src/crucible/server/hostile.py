"""Bytes that somebody else wrote, for a browser: it shows them as text or keeps them as a file, and runs nothing."""

from __future__ import annotations

from starlette.responses import Response

TEXT = "text/plain; charset=utf-8"
OCTETS = "application/octet-stream"
_LOCKED = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def locked(data: bytes, *, name: str, download: bool, headers: dict[str, str]) -> Response:
    """As text if it is some; what is not, or is asked for as a download, goes into a file of that name."""
    is_text = _is_text(data)
    way = "inline" if is_text and not download else "attachment"
    told = {**_LOCKED, "Content-Disposition": f'{way}; filename="{name}"', **headers}
    return Response(data, media_type=TEXT if is_text else OCTETS, headers=told)


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError as error:
        # The first bytes of a longer text may end within a character.
        return error.reason == "unexpected end of data" and len(data) - error.start < 4
    return True
