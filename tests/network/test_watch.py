"""Whatever is sent, however it is cut: the server never gets a whole request or hello for somebody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.hellos import made_hello, record, server_name

from crucible.network.claims import Expected
from crucible.network.violation import Violation
from crucible.network.watch import Watch

HOSTS = st.sampled_from(
    ["good.example", "GOOD.example:80", "evil.example", "good.example.evil.example", ""]
)
PREFIXES = st.sampled_from(
    [b"", b"\r\n", b"\r\n\r\n", b"\n", b"X", b"SSH-2.0\r\n", b" ", b"\0", b"GET"]
)


def expected(port: int = 8080) -> Expected:
    return Expected(name="good.example", address="", port=port, allows=lambda host: False)


def passed(stream: bytes, sizes: list[int], port: int = 8080) -> tuple[bytes, bool]:
    """What the server gets, and whether the connection was ended for it."""
    watch = Watch(expected(port))
    out = b""
    rest = stream
    try:
        for size in [*sizes, len(stream)]:
            out += watch.up(rest[:size])
            rest = rest[size:]
        watch.end()
    except Violation:
        return out, True
    return out, False


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    target = draw(st.sampled_from(["/", "http://evil.example/", "http://good.example/", "*"]))
    lines = [f"{draw(st.sampled_from(['GET', 'POST', 'FOO', 'OPTIONS']))} {target} HTTP/1.1"]
    lines += [f"Host: {draw(HOSTS)}"] * draw(st.integers(0, 2))
    body = draw(st.sampled_from(["", "abc", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"]))
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join([*lines, "", ""]) + body).encode()


def heads_for_somebody_else(stream: bytes) -> bool:
    """Reads as a lenient server would: heads end at an empty line, bodies by their length."""
    while b"\r\n\r\n" in (stream := stream.lstrip(b"\r\n")):
        head, _, stream = stream.partition(b"\r\n\r\n")
        if not head.partition(b"\r\n")[0].endswith(b"HTTP/1.1"):
            return False
        if b"evil.example" in head or b"Host:" not in head:
            return True
        for line in head.split(b"\r\n"):
            if line.startswith(b"Content-Length: "):
                stream = stream[int(line[16:]) :]
    return False


@given(
    PREFIXES,
    st.lists(requests(), max_size=4),
    st.lists(st.integers(1, 40), max_size=40),
    st.sampled_from([80, 8080]),
)
def test_no_request_for_somebody_else_arrives_whole(
    prefix: bytes, sent: list[bytes], sizes: list[int], port: int
) -> None:
    out, _ = passed(prefix + b"".join(sent), sizes, port)
    assert not heads_for_somebody_else(out)


@given(st.lists(st.integers(1, 60), max_size=40))
def test_good_requests_pass_whole_however_they_are_cut(sizes: list[int]) -> None:
    stream = b"POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 3\r\n\r\nabc" * 3
    assert passed(stream, sizes) == (stream, False)


@given(st.lists(st.integers(1, 60), max_size=40), st.binary(max_size=80))
def test_no_hello_for_somebody_else_arrives_whole(sizes: list[int], tail: bytes) -> None:
    forged = made_hello(server_name(b"evil.example"))
    out, was_ended = passed(forged + tail, sizes)
    assert was_ended
    assert out == b""


@given(
    st.lists(st.integers(1, 60), max_size=40),
    st.lists(st.binary(min_size=1, max_size=50), max_size=5),
)
def test_a_second_hello_for_somebody_else_arrives_never(
    sizes: list[int], between: list[bytes]
) -> None:
    forged = made_hello(server_name(b"evil.example"))
    early = b"".join(record(piece, 23) for piece in between)
    good = made_hello(server_name(b"good.example"))
    out, was_ended = passed(good + early + forged, sizes)
    assert was_ended
    assert b"evil.example" not in out


@given(st.binary(max_size=300), st.lists(st.integers(1, 60), max_size=40))
def test_any_bytes_pass_unchanged_or_end_the_connection(stream: bytes, sizes: list[int]) -> None:
    out, was_ended = passed(stream, sizes)
    assert stream.startswith(out) or was_ended
    if not was_ended:
        assert out == stream


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\rHost: evil.example\r\r",
        b"GET / HTTP/1.1\r\rHost: evil.example\r\n\r\n",
        b"LONGMETHOD" * 20 + b" / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"get / http/1.1\nhost: evil.example\n\n",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_ends_of_lines_that_only_some_servers_know_do_not_help(stream: bytes, size: int) -> None:
    out, was_ended = passed(stream, [size] * (len(stream) // size))
    assert was_ended
    assert b"evil.example" not in out
