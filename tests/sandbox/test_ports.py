"""Ports as people write them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.errors import BadSetting
from crucible.sandbox.doors import listening
from crucible.sandbox.doors.notices import MOST_NOTICES, Notices
from crucible.sandbox.doors.ports import parse_port
from crucible.sandbox.session import Files


@pytest.mark.parametrize(
    "text, port",
    [
        ("8080", ("127.0.0.1", 8080, 8080)),
        ("9000:80", ("127.0.0.1", 9000, 80)),
        ("0:80", ("127.0.0.1", 0, 80)),
        ("localhost:9000:80", ("127.0.0.1", 9000, 80)),
        ("0.0.0.0:9000:80", ("0.0.0.0", 9000, 80)),
        ("[::1]:9000:80", ("::1", 9000, 80)),
        ("127.0.0.2::80", ("127.0.0.2", 80, 80)),
    ],
)
def test_what_is_understood(text: str, port: tuple[str, int, int]) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize(
    "text",
    ["", "0", ":", "a", "80:", "65536", "1:65536", "80:0", "::", ":80:80", "host:1:2", "1.2.3:1:2",
     "-1", "+80", "٨٠", " 80", "1:2:3:4", "1.1.1.1:80"],
)  # fmt: skip
def test_what_is_not(text: str) -> None:
    with pytest.raises(BadSetting, match="names no port"):
        parse_port(text)


@given(text=st.text(alphabet="0123456789.:[]ax", max_size=24))
def test_whatever_is_understood_is_understood_again(text: str) -> None:
    try:
        port = parse_port(text)
    except BadSetting:
        return
    assert parse_port(str(port)) == port


def test_a_notice_is_told_once_and_only_to_those_who_listen() -> None:
    notices, heard = Notices(), list[str]()
    notices.tell("nobody hears this")
    with notices.to(heard.append):
        notices.tell("a")
        notices.tell("a")
    notices.tell("b")
    assert heard == ["a"]


def test_whoever_comes_later_is_told_again() -> None:
    notices, first, second = Notices(), list[str](), list[str]()
    with notices.to(first.append):
        notices.tell("a")
        with notices.to(second.append):
            notices.tell("a")
    assert (first, second) == (["a"], ["a"])


def test_a_sandbox_that_has_much_to_say_is_cut_short() -> None:
    notices, heard = Notices(), list[str]()
    with notices.to(heard.append):
        for number in range(10 * MOST_NOTICES):
            notices.tell(str(number))
    assert len(heard) == MOST_NOTICES + 1
    assert "not shown" in heard[-1]


class Tables:
    """The files in which a kernel tells where programs listen, one after the other as they are asked for."""

    def __init__(self, *looks: Collection[int]) -> None:
        self._looks = list(looks)
        self.are_read = asyncio.Event()

    async def read(self, path: bytes, *, length: int) -> AsyncIterator[bytes]:
        if path.endswith(b"6"):
            return
        if not self._looks:
            self.are_read.set()
            await asyncio.Event().wait()
        yield b"head\n" + b"".join(
            b"0: 0100007F:%04X 00000000:0000 0A\n" % port for port in self._looks.pop(0)
        )


def test_a_port_is_offered_once_even_if_it_was_open_at_the_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "_LOOK_EVERY_S", 0.0)
    notices, heard, offered = Notices(), list[str](), set[int]()

    async def look(*looks: Collection[int]) -> list[str]:
        heard.clear()
        tables = Tables(*looks)
        with notices.to(heard.append):
            offering = asyncio.create_task(
                listening.offer_ports(cast(Files, tables), notices, {80}, offered, "web")
            )
            await tables.are_read.wait()
            offering.cancel()
        return [text.split()[1] for text in heard]

    assert asyncio.run(look([80, 8000], [80, 8000, 9000], [80])) == ["8000", "9000"]
    assert asyncio.run(look([8000], [8000])) == ["8000"]
    # Somebody else has been told of this one.
    assert asyncio.run(look([8000])) == []
