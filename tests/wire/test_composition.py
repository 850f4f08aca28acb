"""What lies before several images in one root, as the vectors have it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.vectors import load, named

from crucible.errors import ProtocolBroken, Refused
from crucible.wire.composition import (
    BODY_AT,
    MAGIC,
    Part,
    decode_composition,
    encode_composition,
    header,
)


@pytest.mark.parametrize("vector", load("compositions"), ids=named)
def test_compositions_are_written_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    parts = tuple(
        Part(
            part["name"],
            part["offset"],
            part["length"],
            part["user"],
            bytes.fromhex(part["workdir"]),
            tuple((bytes.fromhex(key), bytes.fromhex(value)) for key, value in part["env"]),
        )
        for part in vector["parts"]
    )
    assert encode_composition(parts).hex() == vector["hex"]
    again = decode_composition(bytes.fromhex(vector["hex"]))
    assert [part._replace(env=tuple(part.env)) for part in again] == list(parts)


def test_the_page_before_them_is_no_partition_table() -> None:
    first = Part("", 0, 4096, "", b"/", [(b"A", b"\x55\xaa" * 4000)])
    made = header([first])
    assert made.startswith(MAGIC)
    assert len(made) % 4096 == 0
    assert made[510:512] == b"\0\0"
    assert made[BODY_AT:].startswith(encode_composition([first]))


def test_more_than_a_message_may_say_is_refused() -> None:
    with pytest.raises(Refused):
        header([Part("", 0, 4096, "", b"/", [(b"A", b"x" * 70_000)])])


@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ProtocolBroken):
        decode_composition(data)
