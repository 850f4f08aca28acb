"""A file on its way to a server, as the one part of a form."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from crucible_client import trees
from crucible_client._async.http import AsyncHttp
from crucible_client._async.waiting import beside
from crucible_client.conversations import Upload

UPLOAD_S = 600.0


async def send_file(
    http: AsyncHttp, source: str | os.PathLike[str] | bytes, name: str | None
) -> Upload:
    """A file by its path, read as it is sent, or bytes, which need a name."""
    boundary = secrets.token_hex(16)
    kind = f"multipart/form-data; boundary={boundary}"
    end = f"\r\n--{boundary}--\r\n".encode()
    if isinstance(source, bytes):
        if name is None:
            raise TypeError("bytes need a name")
        body = _head(boundary, name) + source + end
        told = await http.call(
            "POST", "/upload", content=body, content_type=kind, timeout_s=UPLOAD_S
        )
        return Upload.read(told)
    local = Path(source)
    head = _head(boundary, local.name if name is None else name)
    with await beside(lambda: local.open("rb")) as file:
        pieces = _form(head, file, end)
        told = await http.call(
            "POST", "/upload", content=pieces, content_type=kind, timeout_s=UPLOAD_S
        )
    return Upload.read(told)


async def _form(head: bytes, file: trees.Readable, end: bytes) -> AsyncIterator[bytes]:
    yield head
    while data := await beside(lambda: file.read(trees.PIECE)):
        yield data
    yield end


def _head(boundary: str, name: str) -> bytes:
    # Whatever it is called, it ends neither its quotes nor its line.
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    inert = "".join(one if one.isprintable() else "_" for one in quoted)
    return (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="file"; filename="{inert}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode(errors="replace")
