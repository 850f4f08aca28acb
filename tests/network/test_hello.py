"""The server name in a client's first flight is found however it is cut, or the flight is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.hellos import (
    made_body,
    made_hello,
    message,
    real_hello,
    record,
    server_name,
)

from crucible.network.hello import MAX_HELLO, Hello, HelloReader, parse_hello
from crucible.network.violation import Malformed


def read(*pieces: bytes) -> list[Hello]:
    reader = HelloReader()
    return [hello for piece in pieces for hello in reader.feed(piece)]


def test_a_real_hello_gives_its_server_name_and_protocols() -> None:
    flight = real_hello("Example.com", ("h2", "http/1.1"))
    assert read(flight) == [Hello(server_name="example.com", protocols=("h2", "http/1.1"))]


def test_a_hello_without_a_server_name_says_so() -> None:
    assert read(real_hello(None)) == [Hello(server_name="")]
    assert read(made_hello()) == [Hello(server_name="")]


def test_a_hello_may_come_in_any_segments() -> None:
    flight = real_hello("example.com")
    assert read(*(flight[at : at + 1] for at in range(len(flight))))[0].server_name == "example.com"


@given(st.data())
def test_a_hello_may_be_cut_into_any_records(data: st.DataObject) -> None:
    whole = message(made_body(server_name(b"example.com")))
    records = b""
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        records += record(whole[:size])
        whole = whole[size:]
    middle = data.draw(st.integers(0, len(records)))
    assert read(records[:middle], records[middle:]) == [Hello(server_name="example.com")]


def test_a_second_hello_is_seen_too() -> None:
    first, second = made_hello(server_name(b"a.example")), made_hello(server_name(b"b.example"))
    change, early = record(b"\x01", 20), record(b"early data", 23)
    names = [hello.server_name for hello in read(first, early, change, second)]
    assert names == ["a.example", "b.example"]


def test_what_follows_a_hello_is_not_mistaken_for_another() -> None:
    reader = HelloReader()
    key_exchange = record(b"\x10\x00\x00\x01x")
    assert len(reader.feed(made_hello(server_name(b"a.example")) + key_exchange)) == 1
    assert reader.is_over
    assert reader.feed(b"anything") == []


@pytest.mark.parametrize(
    "flight",
    [
        made_hello(server_name(b"a.example", b"b.example")),
        made_hello(server_name(b"a.example"), server_name(b"b.example")),
        made_hello(server_name(b"a.example"), server_name(b"a.example")),
        made_hello(server_name(b"a.example", kind=1)),
        made_hello(server_name()),
        made_hello(server_name(b"")),
        made_hello(server_name(b"a\0b.example")),
        made_hello(server_name("ä.example".encode())),
        made_hello(server_name(b"127.0.0.1")),
        made_hello(b"\0\0\0\x05\0\x09\0\0"),
        record(message(made_body(server_name(b"a.example")))[:-1] + b"xx"),
        record(message(made_body(server_name(b"a.example"))) + b"\x01"),
        record(message(made_body(server_name(b"a.example")) + b"\0")),
        record(b"\x02\0\0\0"),
        record(b"x", 23),
        record(b"\x01", 20),
        record(b""),
        b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\xff\xff",
        record(b"\x01" + (MAX_HELLO + 1).to_bytes(3, "big")),
    ],
)
def test_a_hello_that_can_be_read_in_two_ways_is_refused(flight: bytes) -> None:
    with pytest.raises(Malformed):
        read(flight)


def test_a_hello_without_end_is_refused() -> None:
    flight = record(b"\x01\x00\xff\xff" + bytes(16000)) * 100
    with pytest.raises(Malformed):
        read(flight)


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    reader = HelloReader()
    try:
        reader.feed(b"\x16\x03\x01" + data)
        parse_hello(data)
    except Malformed:
        return


@given(st.integers(0, 400), st.integers(0, 255))
def test_one_wrong_byte_gives_a_name_or_a_refusal(at: int, value: int) -> None:
    flight = bytearray(made_hello(server_name(b"example.com")))
    flight[at % len(flight)] = value
    try:
        read(bytes(flight))
    except Malformed:
        return
