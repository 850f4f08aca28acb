"""Requests are read in one way only, pass unchanged in meaning, and what can be read in two ways is refused."""

from __future__ import annotations

import h2.config
import h2.connection
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.network.http1 import MAX_HEAD, Request, RequestReader, split_authority
from crucible.network.http2 import MAX_BLOCK, PREFACE, FrameReader, Head
from crucible.network.violation import Malformed

GET = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(*pieces: bytes) -> tuple[list[Request], bytes]:
    seen: list[Request] = []

    def note(request: Request) -> Request:
        seen.append(request)
        return request

    reader = RequestReader(note)
    return seen, b"".join(reader.feed(piece) for piece in pieces)


def test_every_request_of_a_pipeline_is_seen() -> None:
    stream = GET + b"POST /x HTTP/1.1\r\nHost: b.example:80\r\nContent-Length: 3\r\n\r\nabc" + GET
    seen, passed = read(stream)
    assert [request.hosts for request in seen] == [("a.example",), ("b.example",), ("a.example",)]
    assert passed == stream


def test_a_body_is_not_searched_for_requests() -> None:
    body = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n" % len(body)
    seen, passed = read(head + body + GET)
    assert [request.hosts for request in seen] == [("a.example",)] * 2
    assert passed == head + body + GET


def test_chunks_and_trailers_pass_and_the_next_request_is_seen() -> None:
    stream = CHUNKED + b"5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n" + GET
    seen, passed = read(stream)
    assert len(seen) == 2
    assert passed == stream.replace(b";ext=1", b"")


@given(st.lists(st.integers(1, 60), max_size=30))
def test_requests_may_come_in_any_pieces(sizes: list[int]) -> None:
    stream = GET + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + GET
    pieces = []
    rest = stream
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    seen, passed = read(*pieces, rest)
    assert len(seen) == 3
    assert passed == stream


def test_absolute_targets_name_a_host_too() -> None:
    seen, _ = read(b"GET http://B.example:8080/x HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert seen[0].hosts == ("a.example", "b.example")


def head(*lines: bytes, first: bytes = b"POST / HTTP/1.1") -> bytes:
    return b"\r\n".join([first, b"Host: a.example", *lines, b"", b""])


SMUGGLING = [
    head(b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    head(b"Content-Length: 5", b"Content-Length: 6"),
    head(b"Content-Length: 5", b"Content-Length: 5"),
    head(b"Content-Length: 5, 5"),
    head(b"Content-Length: +5"),
    head(b"Content-Length: 0x5"),
    head(b"Content-Length: -1"),
    head(b"Content-Length:"),
    head(b"Content-Length: 99999999999999999999"),
    head(b"Transfer-Encoding: gzip, chunked"),
    head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"),
    head(b"Transfer-Encoding: xchunked"),
    head(b"Transfer-Encoding: \x0bchunked"),
    head(b"Transfer-Encoding : chunked"),
    head(b" Transfer-Encoding: chunked"),
    head(b"X: 1", b"\tHost: b.example"),
    head(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0"),
    head(b"Host: b.example"),
    head(b"Host : b.example"),
    head(b"\0Host: b.example"),
    head(b"X: a\rHost: b.example"),
    head(b"X: a\0b"),
    head(b"Connection: close, Host"),
    head(b"Connection: Content-Length"),
    head(b"no colon"),
    head(first=b"GET  / HTTP/1.1"),
    head(first=b"GET\t/ HTTP/1.1"),
    head(first=b"GET / HTTP/1.1 "),
    head(first=b"GET / HTTP/2.0"),
    head(first=b"GET / HTTP/1.2"),
    head(first=b"GET / http/1.1"),
    head(first=b"GET /"),
    head(first=b"GET /a b HTTP/1.1"),
    head(first=b"GET evil.example HTTP/1.1"),
    head(first=b"GET http://user@b.example/ HTTP/1.1"),
    head(first=b"GET ftp://b.example/ HTTP/1.1"),
    head(first=b"GET http:/// HTTP/1.1"),
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a.example\n\n",
    b"GET / HTTP/1.1\r\nHost: a.example\n\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.example:80:80\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.example/b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.1\r\n\r\n",
    CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5 x\r\nhello\r\n",
    CHUNKED + b"-5\r\nhello\r\n",
    CHUNKED + b"0x5\r\nhello\r\n",
    CHUNKED + b"\r\nhello\r\n",
    CHUNKED + b"ffffffffffffffffff\r\n",
    CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n",
    CHUNKED + b"5;" + b"x" * 2000,
    CHUNKED + b"0\r\nHost: b.example\r\n\r\n",
    CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD,
    b"GET / HTTP/1.1\r\nHost: a.example\r\n" + b"X: 1\r\n" * 300 + b"\r\n",
]  # fmt: skip


@pytest.mark.parametrize("stream", SMUGGLING)
def test_a_request_that_can_be_read_in_two_ways_is_refused(stream: bytes) -> None:
    with pytest.raises(Malformed):
        read(stream)
    with pytest.raises(Malformed):
        read(*(stream[at : at + 7] for at in range(0, len(stream), 7)))


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_bytes_break_the_reader(tail: bytes, size: int) -> None:
    for stream in (tail, b"GET / HTTP/1.1\r\n" + tail + b"\r\n\r\n", CHUNKED + tail):
        try:
            seen, passed = read(*(stream[at : at + size] for at in range(0, len(stream), size)))
        except Malformed:
            continue
        assert all(len(request.hosts) <= 2 for request in seen)
        assert len(passed) <= len(stream) + len(seen) * 300


@given(st.binary(max_size=60))
def test_a_host_is_normal_or_refused(text: bytes) -> None:
    try:
        host, port = split_authority(text)
    except Malformed:
        return
    assert host == host.lower()
    assert port is None or 1 <= port <= 65535


def client() -> h2.connection.H2Connection:
    made = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    made.initiate_connection()
    return made


def fields(authority: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [
        (":method", "GET"),
        (":path", "/"),
        (":scheme", "http"),
        (":authority", authority),
        *more,
    ]


def read_frames(stream: bytes, size: int = 1 << 20) -> tuple[list[tuple[str, ...]], bytes]:
    assert stream.startswith(PREFACE)
    seen: list[tuple[str, ...]] = []

    def note(head: Head, hosts: tuple[str, ...]) -> None:
        seen.append(hosts)

    reader = FrameReader(note)
    rest = stream[len(PREFACE) :]
    passed = [reader.feed(rest[at : at + size]) for at in range(0, len(rest), size)]
    return seen, b"".join(passed)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_every_stream_of_http2_is_seen_and_passes_unchanged(size: int) -> None:
    made = client()
    made.send_headers(1, fields("a.example"), end_stream=True)
    made.send_headers(3, fields("b.example:80", ("x", "y" * 30000)))
    made.send_data(3, b"x" * 5000, end_stream=False, pad_length=7)
    made.send_headers(3, [("x-sum", "1")], end_stream=True)
    made.send_headers(5, fields("a.example"), end_stream=True)
    stream = made.data_to_send()
    seen, passed = read_frames(stream, size)
    assert seen == [("a.example",), ("b.example",), (), ("a.example",)]
    assert PREFACE + passed == stream


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    header = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return header + payload


def encoded(*head: tuple[str, str]) -> bytes:
    from hpack import Encoder

    return bytes(Encoder().encode(list(head)))


@pytest.mark.parametrize(
    "frames",
    [
        frame(1, 0x4, 1, b"\xff\xff\xff\xff\xff\xff"),
        frame(1, 0x4, 0, encoded(*fields("a.example"))),
        frame(9, 0x4, 1, encoded(*fields("a.example"))),
        frame(1, 0x0, 1, encoded(*fields("a.example"))) + frame(0, 0, 1, b"x"),
        frame(1, 0x0, 1, encoded(*fields("a.example"))) + frame(9, 4, 3, b""),
        frame(1, 0xC, 1, b"\xff"),
        frame(1, 0xC, 1, b""),
        frame(5, 0x4, 1, b"\0\0\0\2"),
        frame(1, 0x4, 1, encoded(*fields("a.example", (":authority", "b.example")))),
        frame(1, 0x4, 1, encoded(*fields("a.example", ("host", "a.example"), ("host", "b.example")))),
        frame(1, 0x4, 1, encoded(*fields("a.example", ("x", "1"), (":path", "/")))),
        frame(1, 0x4, 1, encoded(*fields("a.example/b"))),
        frame(1, 0x4, 1, encoded((":method", "CONNECT"), (":authority", "b.example:443"))),
        frame(1, 0x4, 3, encoded(*fields("a.example"))) + frame(1, 0x4, 1, encoded(*fields("b.example"))),
        frame(1, 0x0, 1, bytes(16000)) + frame(9, 0, 1, bytes(16000)) * (MAX_BLOCK // 16000),
    ],
)  # fmt: skip
def test_http2_that_can_be_read_in_two_ways_is_refused(frames: bytes) -> None:
    with pytest.raises(Malformed):
        read_frames(PREFACE + frames)


@given(st.binary(max_size=200))
def test_no_frames_break_the_reader(tail: bytes) -> None:
    for stream in (tail, frame(1, 0x4, 1, tail), frame(1, 0x2C, 1, tail) + tail):
        try:
            read_frames(PREFACE + stream)
        except Malformed:
            continue
