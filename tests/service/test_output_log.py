"""The log of a sandbox's commands: nothing twice, nothing hidden by a piece that was cut short."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crucible.sandbox import output_log
from crucible.sandbox.output_log import OutputLog
from crucible.sandbox.session import Channel, Chunk

ZERO = {Channel.OUTPUT: 0, Channel.ERRORS: 0}


def out(offset: int, data: bytes) -> Chunk:
    return Chunk(channel=Channel.OUTPUT, offset=offset, data=data)


def said(log: OutputLog) -> bytes:
    return b"".join(piece.data for piece in log.pieces() if piece.channel is Channel.OUTPUT)


def test_what_comes_again_is_kept_once(tmp_path: Path) -> None:
    stream = OutputLog(tmp_path).follow(1, {})
    for chunk in (out(0, b"abc"), out(0, b"abc"), out(1, b"bcde"), out(5, b"f")):
        stream.keep(chunk)
    assert said(OutputLog(tmp_path)) == b"abcdef"


def test_another_process_goes_on_where_the_log_stops(tmp_path: Path) -> None:
    OutputLog(tmp_path).follow(1, {"detached": False}).keep(out(0, b"abc"))
    resumed = OutputLog(tmp_path).resume(1)
    assert resumed.facts == {"detached": False}
    assert resumed.ends == {Channel.OUTPUT: 3, Channel.ERRORS: 0}
    resumed.keep(out(2, b"cd"))
    assert said(OutputLog(tmp_path)) == b"abcd"


def test_a_number_means_another_command_in_another_machine(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    log.mark_machine()
    log.follow(1, {"detached": True}).keep(out(0, b"of the first"))
    log.mark_machine()
    resumed = log.resume(1)
    assert (resumed.facts, resumed.ends) == ({}, ZERO)
    resumed.keep(out(0, b"of the second"))
    assert [chunk.data for chunk in resumed.since(ZERO)] == [b"of the second"]


def test_what_was_said_is_given_from_any_offset_on(tmp_path: Path) -> None:
    stream = OutputLog(tmp_path).follow(1, {})
    stream.keep(out(0, b"abc"))
    stream.keep(Chunk(channel=Channel.ERRORS, offset=0, data=b"errors"))
    stream.keep(out(3, b"def"))
    found = stream.since({Channel.OUTPUT: 2, Channel.ERRORS: 6})
    assert [(chunk.offset, chunk.data) for chunk in found] == [(2, b"c"), (3, b"def")]


def test_facts_are_amended_without_losing_output(tmp_path: Path) -> None:
    stream = OutputLog(tmp_path).follow(1, {"argv": ["x"], "detached": False})
    stream.keep(out(0, b"abc"))
    stream.amend({"detached": True})
    resumed = OutputLog(tmp_path).resume(1)
    assert resumed.facts == {"argv": ["x"], "detached": True}
    assert resumed.ends[Channel.OUTPUT] == 3


@settings(max_examples=50)
@given(st.integers(0, 200), st.binary(max_size=5))
def test_a_piece_that_was_cut_short_hides_nothing_that_comes_after(cut: int, junk: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        first = OutputLog(Path(directory)).follow(1, {})
        first.keep(out(0, b"first"))
        whole = Path(directory, output_log.FILE_NAME)
        kept = len(whole.read_bytes())
        first.keep(out(5, bytes(100)))
        data = whole.read_bytes()
        whole.write_bytes(data[: kept + cut % (len(data) - kept)] + (junk if cut == 0 else b""))
        later = OutputLog(Path(directory))
        later.resume(1).keep(out(5, b" later"))
        assert said(later) == b"first later"


def test_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_log, "MOST_BYTES", 10_000)
    log = OutputLog(tmp_path)
    stream = log.follow(1, {})
    for number in range(100):
        stream.keep(out(number * 1000, bytes([number]) * 1000))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 25_000
    assert said(log).endswith(bytes([99]) * 1000)


def test_after_its_end_nothing_is_kept(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    stream = log.follow(1, {})
    log.close()
    stream.keep(out(0, b"late"))
    assert said(OutputLog(tmp_path)) == b""
