"""Bodies of several parts, whole and broken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from tests.conftest import Run

from crucible.errors import MalformedBody
from crucible.server.multipart import Part, read_parts


def request(body: bytes, kind: str = "multipart/form-data; boundary=xyz", size: int = 7) -> Request:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]

    async def receive() -> dict[str, Any]:
        data = pieces.pop(0) if pieces else b""
        return {"type": "http.request", "body": data, "more_body": bool(pieces)}

    headers = [(b"content-type", kind.encode("latin-1"))]
    return Request({"type": "http", "headers": headers, "state": {}}, receive)


async def parts_of(asked: Request) -> list[Part]:
    found: AsyncIterator[Part] = read_parts(asked, most_bytes=1 << 20)
    return [part async for part in found]


def body_of(data: bytes, head: bytes = b'form-data; name="file"; filename="a b"') -> bytes:
    first = b"--xyz\r\nContent-Disposition: " + head + b"\r\n\r\n"
    return first + data + b"\r\n--xyz--\r\n"


@given(data=st.binary(max_size=200), size=st.integers(min_value=1, max_value=50))
def test_bytes_come_out_as_they_went_in(run: Run, data: bytes, size: int) -> None:
    if b"\r\n--xyz" in data:
        return
    parts = run(parts_of(request(body_of(data), size=size)))
    assert parts == [Part(name="file", filename="a b", data=data)]


@pytest.mark.parametrize(
    "body, kind",
    [
        (b"{}", "application/json"),
        (b"", "multipart/form-data"),
        (b"", "multipart/form-data; boundary=" + "x" * 1000),
        (b"", "multipart/form-data; boundary=xyz"),
        (body_of(b"cut")[:-12], "multipart/form-data; boundary=xyz"),
        (body_of(b"other"), "multipart/form-data; boundary=abc"),
        (body_of(b"", b"x" * 10_000), "multipart/form-data; boundary=xyz"),
    ],
)
def test_what_is_no_such_body_is_refused(run: Run, body: bytes, kind: str) -> None:
    with pytest.raises(MalformedBody):
        run(parts_of(request(body, kind)))


@given(st.binary(max_size=300))
def test_any_bytes_are_parts_or_refused(run: Run, body: bytes) -> None:
    try:
        run(parts_of(request(b"--xyz\r\n" + body)))
    except MalformedBody:
        return
