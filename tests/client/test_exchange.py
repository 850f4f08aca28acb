"""Requests without a terminal: answers, errors, progress, and bytes in both directions."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.scripted_service import Peer, playing

from crucible.client import protocol
from crucible.client.answers import ServiceError
from crucible.client.exchange import PIECE_BYTES, Unseen, ask
from crucible.client.flows import CallSink, Outbound
from crucible.client.protocol import INPUT, OUTPUT, WINDOW
from crucible.errors import OwnerUnreachable


def test_the_answer_is_what_the_service_says(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        assert peer.request() == {"verb": "stat", "path": "/\udcff"}
        peer.say(accepted={})
        peer.say(ok={"entry": {"size": 3}})

    with playing(tmp_path, script) as service:
        answer = ask(service.connect, {"verb": "stat", "path": "/\udcff"}, progress=Unseen())
    assert answer == {"entry": {"size": 3}}


def test_an_error_keeps_its_code_hint_and_status(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.say(error={"code": "name-taken", "message": "m", "hint": "h", "exit_status": 126})

    with playing(tmp_path, script) as service, pytest.raises(ServiceError) as caught:
        ask(service.connect, {"verb": "create"}, progress=Unseen())
    error = caught.value
    assert (error.code, error.message, error.hint, error.exit_status) == (
        "name-taken",
        "m",
        "h",
        126,
    )


@pytest.mark.parametrize("status", [0, -1, 256, "7", None, True])
def test_an_error_never_ends_us_with_success(tmp_path: Path, status: object) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.say(error={"exit_status": status})

    with playing(tmp_path, script) as service, pytest.raises(ServiceError) as caught:
        ask(service.connect, {"verb": "create"}, progress=Unseen())
    assert caught.value.exit_status in (1, 125)


def test_progress_is_passed_on(tmp_path: Path) -> None:
    notes: list[tuple[str, str]] = []

    class Watched(Unseen):
        def note(self, stage: str, detail: str) -> None:
            notes.append((stage, detail))

    def script(peer: Peer) -> None:
        peer.request()
        peer.say(progress=["kernel", "fetching"])
        peer.say(progress="nonsense")
        peer.say(ok={})

    with playing(tmp_path, script) as service:
        ask(service.connect, {"verb": "start"}, progress=Watched())
    assert notes == [("kernel", "fetching")]


@pytest.mark.parametrize("sizes", [[], [0, 1], [WINDOW * 3 + 1], [PIECE_BYTES] * 20, [7] * 5000])
def test_an_upload_comes_whole_and_within_its_window(tmp_path: Path, sizes: list[int]) -> None:
    pieces = [os.urandom(size) for size in sizes]

    def script(peer: Peer) -> None:
        peer.request()
        received = b""
        while True:
            kind, payload = peer.frame()
            if kind == protocol.END:
                break
            received += payload[1:]
            assert len(payload) - 1 <= PIECE_BYTES
            peer.send(protocol.taken_frame(INPUT, len(payload) - 1))
        assert received == b"".join(pieces)
        peer.say(ok={"count": len(pieces)})

    with playing(tmp_path, script) as service:
        answer = ask(
            service.connect, {"verb": "tar_in"}, progress=Unseen(), upload=lambda: iter(pieces)
        )
    assert answer == {"count": len(pieces)}


def test_a_service_that_refuses_an_upload_is_heard_before_its_end(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(PIECE_BYTES)

    def script(peer: Peer) -> None:
        peer.request()
        peer.say(
            error={"code": "host-disk-full", "message": "full", "hint": "", "exit_status": 125}
        )

    with playing(tmp_path, script) as service, pytest.raises(ServiceError) as caught:
        ask(service.connect, {"verb": "tar_in"}, progress=Unseen(), upload=endless)
    assert caught.value.code == "host-disk-full"


def test_a_download_needs_bounded_memory(tmp_path: Path) -> None:
    piece = bytes(PIECE_BYTES)
    count = 2000

    def script(peer: Peer) -> None:
        peer.request()
        for _ in range(count):
            peer.output(piece)
        peer.say(ok={})

    sink = CallSink(len)
    tracemalloc.start()
    with playing(tmp_path, script) as service:
        ask(service.connect, {"verb": "tar_out"}, progress=Unseen(), sinks={OUTPUT: sink})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sink.written == count * len(piece)
    assert peak < 8 << 20


def test_an_answer_that_never_came_is_an_error_and_not_asked_for_again(tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.say(accepted={})

    with playing(tmp_path, script) as service, pytest.raises(OwnerUnreachable):
        ask(service.connect, {"verb": "remove"}, progress=Unseen())


def test_a_request_nobody_took_is_made_again_with_its_upload(tmp_path: Path) -> None:
    def leave(peer: Peer) -> None:
        peer.request()

    def serve(peer: Peer) -> None:
        peer.request()
        assert peer.input() == b"abc"
        peer.say(ok={})

    with playing(tmp_path, leave, serve) as service:
        ask(service.connect, {"verb": "tar_in"}, progress=Unseen(), upload=lambda: [b"abc"])


@given(st.lists(st.binary(max_size=300), max_size=10), st.integers(0, 4000), st.booleans())
def test_input_sent_again_begins_where_the_service_stands(
    pieces: list[bytes], position: int, is_ended: bool
) -> None:
    outbound = Outbound()
    for piece in pieces:
        outbound.frame(piece)
    if is_ended:
        outbound.end()
    whole = b"".join(pieces)
    position = min(position, len(whole))
    rest = whole[position:]
    expected = protocol.data_frame(INPUT, rest) if rest else b""
    expected += protocol.end_frame(INPUT) if is_ended else b""
    assert outbound.again(position) == expected
