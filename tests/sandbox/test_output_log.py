"""The log of what commands said: bounded, whole after a crash, each byte once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crucible.sandbox.output_log import FILE_NAME, MOST_BYTES, OLD_NAME, OutputLog, Piece
from crucible.sandbox.session import Channel, Chunk

OUTPUT, ERRORS = Channel.OUTPUT, Channel.ERRORS


def piece(data: bytes, *, stream: int = 1, offset: int = 0, channel: Channel = OUTPUT) -> Piece:
    return Piece(stream=stream, channel=channel, offset=offset, data=data)


def chunk(data: bytes, offset: int, channel: Channel = OUTPUT) -> Chunk:
    return Chunk(channel=channel, offset=offset, data=data)


def test_what_was_written_is_read_in_order(tmp_path: Path) -> None:
    pieces = [
        piece(b"one"),
        piece(b"", offset=3),
        piece(bytes(range(256)), channel=ERRORS, stream=9),
    ]
    log = OutputLog(tmp_path)
    for item in pieces:
        log.append(item)
    assert list(log.pieces()) == pieces
    assert list(OutputLog(tmp_path).pieces()) == pieces


def test_a_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert list(OutputLog(tmp_path).pieces()) == []


def test_the_log_is_for_us_alone(tmp_path: Path) -> None:
    OutputLog(tmp_path).append(piece(b"secret"))
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_two_files_hold_the_newest_and_never_grow_beyond_their_bound(tmp_path: Path) -> None:
    log, data, count = OutputLog(tmp_path), bytes(60_000), 0
    while count < 4 * MOST_BYTES:
        log.append(piece(data, offset=count))
        count += len(data)
    assert {path.name for path in tmp_path.iterdir()} <= {FILE_NAME, OLD_NAME}
    assert all(path.stat().st_size < MOST_BYTES + 2 * len(data) for path in tmp_path.iterdir())
    offsets = [item.offset for item in log.pieces()]
    assert offsets[-1] == count - len(data)
    assert offsets == list(range(offsets[0], count, len(data)))
    assert count - offsets[0] > MOST_BYTES - len(data)


@pytest.mark.parametrize("cut", [1, 5, 16, 17, 20])
def test_a_piece_cut_short_is_left_out_and_what_comes_later_is_read(
    tmp_path: Path, cut: int
) -> None:
    log = OutputLog(tmp_path)
    log.append(piece(b"whole"))
    log.append(piece(b"torn", offset=5))
    log.close()
    path = tmp_path / FILE_NAME
    os.truncate(path, path.stat().st_size - cut)
    again = OutputLog(tmp_path)
    again.append(piece(b"later", offset=5))
    assert [item.data for item in again.pieces()] == [b"whole", b"later"]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.binary(max_size=200))
def test_a_file_of_any_bytes_is_read_without_harm(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(data)
    log = OutputLog(tmp_path)
    assert sum(len(item.data) for item in log.pieces()) <= len(data)
    log.append(piece(b"after"))
    assert list(log.pieces())[-1].data == b"after"
    log.close()


def test_a_command_goes_on_where_its_log_ends(tmp_path: Path) -> None:
    first = OutputLog(tmp_path).follow(7, {"argv": ["x"]})
    first.keep(chunk(b"abc", 0))
    first.keep(chunk(b"E", 0, ERRORS))
    first.amend({"detached": True})
    found = OutputLog(tmp_path).resume(7)
    assert found.ends == {OUTPUT: 3, ERRORS: 1}
    assert found.facts == {"argv": ["x"], "detached": True}


def test_bytes_that_come_again_are_kept_once(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    command = log.follow(7, {})
    command.keep(chunk(b"abcdef", 0))
    command.keep(chunk(b"defghi", 3))
    command.keep(chunk(b"abc", 0))
    assert b"".join(item.data for item in log.pieces() if item.channel is OUTPUT) == b"abcdefghi"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), max_size=20))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_replay_from_anywhere_never_repeats_a_byte(
    tmp_path: Path, replays: list[tuple[int, int]]
) -> None:
    text = bytes(range(100))
    directory = tmp_path / os.urandom(6).hex()
    directory.mkdir()
    log = OutputLog(directory)
    command = log.follow(7, {})
    for start, length in replays:
        begin = min(start, command.ends[OUTPUT])
        command.keep(chunk(text[begin : begin + length], begin))
    kept = b"".join(item.data for item in log.pieces() if item.channel is OUTPUT)
    assert kept == text[: len(kept)]
    log.close()


def test_a_number_that_is_used_again_is_another_command(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    log.follow(7, {"argv": ["old"]}).keep(chunk(b"old output", 0))
    log.mark_machine()
    assert log.resume(7).ends[OUTPUT] == 0
    fresh = log.follow(7, {"argv": ["new"]})
    fresh.keep(chunk(b"new", 0))
    assert log.resume(7).facts == {"argv": ["new"]}
    assert [item.data for item in fresh.since({OUTPUT: 0})] == [b"new"]


def test_what_was_kept_is_given_from_any_offset(tmp_path: Path) -> None:
    command = OutputLog(tmp_path).follow(7, {})
    command.keep(chunk(b"abc", 0))
    command.keep(chunk(b"def", 3))
    assert [(item.offset, item.data) for item in command.since({OUTPUT: 2})] == [
        (2, b"c"),
        (3, b"def"),
    ]
    assert command.since({OUTPUT: 6}) == []


def test_a_closed_log_takes_nothing_more(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    log.append(piece(b"before"))
    log.close()
    log.append(piece(b"after"))
    assert [item.data for item in OutputLog(tmp_path).pieces()] == [b"before"]


def test_a_log_that_cannot_be_written_disturbs_nobody(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "gone")
    log.follow(7, {}).keep(chunk(b"abc", 0))
    assert list(log.pieces()) == []
