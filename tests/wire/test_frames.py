"""Frames against the golden vectors, and against any chunking and any bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.vectors import load, named

from crucible.errors import ProtocolBroken
from crucible.wire.decoder import CAPACITY, PIECE_BYTES, Decoder
from crucible.wire.frames import MAX_PAYLOAD, MAX_STREAM, Frame, Kind, encode
from crucible.wire.generation import Hello

NONCE = bytes(range(16))
HELLO = encode(Kind.HELLO, 0, Hello(NONCE, 1, 9, 1, "agent").encode())

streams = st.integers(1, MAX_STREAM)
channels = st.integers(0, 2)
frames = st.one_of(
    st.builds(Frame, st.just(Kind.DATA), channels, streams, st.binary(min_size=1, max_size=300)),
    st.builds(Frame, st.just(Kind.END), channels, streams, st.just(b"")),
    st.builds(Frame, st.just(Kind.WINDOW), channels, streams, st.binary(min_size=8, max_size=8)),
    st.builds(Frame, st.just(Kind.OPEN), st.just(0), streams, st.binary(min_size=1, max_size=99)),
    st.builds(Frame, st.just(Kind.RESULT), st.just(0), streams, st.binary(max_size=99)),
    st.builds(Frame, st.just(Kind.FORGET), st.just(0), streams, st.just(b"")),
)


def encoded(frame: Frame) -> bytes:
    return encode(frame.kind, frame.stream, frame.payload, frame.channel)


def fed_in_pieces(decoder: Decoder, data: bytes, cuts: list[int]) -> list[Frame]:
    ends = [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    found, start = [], 0
    for end in ends:
        found += list(decoder.feed(data[start:end]))
        start = end
    return found


@pytest.mark.parametrize("vector", load("frames"), ids=named)
def test_frames_are_written_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    frame = Frame(
        Kind(vector["kind"]),
        vector["channel"],
        vector["stream"],
        bytes.fromhex(vector["payload"]),
    )
    data = bytes.fromhex(vector["hex"])
    assert encoded(frame) == data
    assert list(Decoder().feed(data)) == [frame]


@pytest.mark.parametrize("vector", load("rejected"), ids=named)
def test_what_no_honest_peer_sends_is_refused(vector: dict[str, Any]) -> None:
    decoder = Decoder()
    with pytest.raises(ProtocolBroken):
        list(decoder.feed(bytes.fromhex(vector["hex"])))
    with pytest.raises(ProtocolBroken):
        list(decoder.feed(encode(Kind.DATA, 1, b"x", 1)))


def test_a_length_above_the_cap_is_refused_before_its_payload_comes() -> None:
    decoder = Decoder()
    header = encode(Kind.DATA, 1, bytes(MAX_PAYLOAD + 1), 1)[:12]
    assert list(decoder.feed(header[:11])) == []
    with pytest.raises(ProtocolBroken, match="65537"):
        list(decoder.feed(header[11:]))


def test_frames_before_the_malformed_one_are_delivered() -> None:
    frames_read = Decoder().feed(encode(Kind.DATA, 1, b"x", 1) + bytes(12))
    assert next(frames_read).payload == b"x"
    with pytest.raises(ProtocolBroken):
        next(frames_read)


@given(st.lists(frames, max_size=8), st.lists(st.integers(0), max_size=20))
def test_any_chunking_gives_the_same_frames(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encoded(frame) for frame in sent)
    assert fed_in_pieces(Decoder(), data, cuts) == sent


def test_byte_by_byte_gives_the_same_frames() -> None:
    sent = [Frame(Kind.DATA, 1, 5, bytes(MAX_PAYLOAD)), Frame(Kind.END, 1, 5, b"")]
    decoder = Decoder()
    data = b"".join(encoded(frame) for frame in sent)
    assert [frame for byte in data for frame in decoder.feed(bytes([byte]))] == sent


@given(st.binary(max_size=2000), st.lists(st.integers(0), max_size=5), st.booleans())
def test_random_bytes_raise_nothing_but_protocol_broken(
    data: bytes, cuts: list[int], is_seeking: bool
) -> None:
    decoder = Decoder(nonce=NONCE if is_seeking else b"")
    try:
        fed_in_pieces(decoder, data, cuts)
    except ProtocolBroken:
        assert not is_seeking


@given(st.lists(st.binary(max_size=20_000), max_size=30))
def test_no_more_than_a_frame_and_a_piece_is_ever_held(pieces: list[bytes]) -> None:
    """A DATA frame that never ends, then whatever comes: the buffer neither grows nor overflows."""
    decoder = Decoder()
    header = encode(Kind.DATA, 1, bytes(MAX_PAYLOAD), 1)[:12]
    try:
        for piece in [header, *pieces]:
            list(decoder.feed(piece))
            assert decoder.held <= 12 + MAX_PAYLOAD
            assert PIECE_BYTES <= len(decoder.room()) <= CAPACITY
    except ProtocolBroken:
        pass


@given(st.binary(max_size=500), st.lists(st.integers(0), max_size=10))
def test_garbage_before_hello_is_skipped(garbage: bytes, cuts: list[int]) -> None:
    decoder = Decoder(nonce=NONCE)
    after = encode(Kind.DATA, 1, b"x", 1)
    found = fed_in_pieces(decoder, garbage + HELLO + after, cuts)
    assert [frame.kind for frame in found] == [Kind.HELLO, Kind.DATA]


@pytest.mark.parametrize(
    "decoy",
    [
        HELLO[:12],
        HELLO[:40],
        HELLO[12:44],
        bytes(12) + HELLO[12:44],
        encode(Kind.HELLO, 0, Hello(bytes(16), 1, 9, 1, "another nonce").encode()),
        encode(Kind.DATA, 1, HELLO[12:44], 1),
        encode(Kind.DATA, 1, bytes(MAX_PAYLOAD), 1)[:5000],
    ],
    ids=["header", "cut", "no header", "wrong header", "nonce", "inside data", "cut data"],
)
def test_what_only_looks_like_the_wanted_hello_is_skipped(decoy: bytes) -> None:
    decoder = Decoder(nonce=NONCE)
    found = list(decoder.feed(decoy + HELLO * 2))
    assert all(frame.kind is Kind.HELLO for frame in found)
    assert found


def test_seeking_holds_no_more_than_the_beginning_of_a_hello() -> None:
    decoder = Decoder(nonce=NONCE)
    for _ in range(50):
        assert list(decoder.feed(b"\xc5\x02" * 50_000)) == []
        assert decoder.held < 44


def test_a_channel_that_says_little_holds_little() -> None:
    before = _resident_bytes()
    decoders = [Decoder() for _ in range(200)]
    for decoder in decoders:
        assert list(decoder.feed(encode(Kind.END, 1))) != []
    assert _resident_bytes() - before < len(decoders) * CAPACITY // 4


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
