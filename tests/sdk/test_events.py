"""Events out of bytes: cut anywhere, they are the same; nothing that comes is anything but an event or a BadAnswer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from crucible_client import events
from crucible_client.errors import BadAnswer
from crucible_client.events import Event, EventDecoder

OBJECTS = some.dictionaries(some.text(max_size=5), some.text() | some.integers(), max_size=4)


def decoded(*pieces: bytes) -> list[Event]:
    decoder = EventDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


@given(some.lists(OBJECTS, max_size=4), some.data())
def test_where_the_bytes_are_cut_does_not_matter(told: list[dict[str, Any]], data: Any) -> None:
    stream = b"".join(
        b": beat\n\nevent: e\nid: 1.0\ndata: %s\n\n" % json.dumps(one).encode() for one in told
    )
    cuts = sorted(data.draw(some.lists(some.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decoded(*pieces) == [Event(kind="e", data=one, number="1.0") for one in told]


@given(some.lists(some.binary(max_size=60), max_size=8))
def test_noise_is_refused_or_means_nothing(pieces: list[bytes]) -> None:
    try:
        found = decoded(*pieces)
    except BadAnswer:
        return
    assert all(isinstance(event, Event) for event in found)


def test_lines_may_end_as_elsewhere_and_data_may_have_several() -> None:
    assert decoded(b'event: a\r\ndata: {"x":\r\ndata: 1}\r\n\r\n') == [
        Event(kind="a", data={"x": 1})
    ]


def test_what_never_ends_is_refused_before_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LARGEST_EVENT", 1000)
    with pytest.raises(BadAnswer):
        decoded(*[b"x" * 100] * 11)
    with pytest.raises(BadAnswer):
        decoded(*[b"data: 1234567890\n"] * 100)
