"""Large input goes by way of the exchange, within its slots, and never over bytes still unread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crucible.sandbox.backend import EXCHANGE_BYTES
from crucible.sandbox.guest.exchange import Exchange
from crucible.wire.frames import WINDOW_BYTES

SLOTS = EXCHANGE_BYTES // WINDOW_BYTES
WINDOW = memoryview(bytes(WINDOW_BYTES))


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "exchange.raw"
    path.write_bytes(bytes(EXCHANGE_BYTES))
    return path


@pytest.fixture
def exchange(disk: Path) -> Iterator[Exchange]:
    made = Exchange(os.open(disk, os.O_WRONLY))
    yield made
    made.close()


def test_what_is_laid_down_lies_at_the_place_that_is_told(exchange: Exchange, disk: Path) -> None:
    place = exchange.lay(1, memoryview(b"letter" * 4096), 6 * 4096)
    assert place is not None
    assert place % 4096 == 0
    assert disk.read_bytes()[place : place + 6 * 4096] == b"letter" * 4096


def test_no_two_pieces_share_a_place(exchange: Exchange) -> None:
    places = [exchange.lay(1, WINDOW, end) for end in range(1, SLOTS + 1)]
    assert sorted(place for place in places if place is not None) == list(
        range(0, EXCHANGE_BYTES, WINDOW_BYTES)
    )


def test_a_full_exchange_takes_nothing_more(exchange: Exchange) -> None:
    for end in range(SLOTS):
        assert exchange.lay(1, WINDOW, end + 1) is not None
    assert exchange.lay(2, WINDOW, 1) is None


def test_a_place_is_used_again_only_when_all_its_bytes_are_acknowledged(exchange: Exchange) -> None:
    for number in range(SLOTS):
        exchange.lay(1, WINDOW, (number + 1) * WINDOW_BYTES)
    exchange.acknowledge(1, WINDOW_BYTES - 1)
    assert exchange.lay(1, WINDOW, 99 * WINDOW_BYTES) is None
    exchange.acknowledge(1, WINDOW_BYTES)
    assert exchange.lay(1, WINDOW, 99 * WINDOW_BYTES) is not None
    assert exchange.lay(1, WINDOW, 99 * WINDOW_BYTES) is None


def test_a_stream_that_is_over_gives_its_places_back_and_no_others(exchange: Exchange) -> None:
    for number in range(SLOTS):
        exchange.lay(number % 2, WINDOW, number + 1)
    exchange.drop(1)
    free = 0
    while exchange.lay(2, WINDOW, 1) is not None:
        free += 1
    assert free == SLOTS // 2
