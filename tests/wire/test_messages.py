"""Bodies against the golden vectors, both ways, and against random bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.vectors import load, named

from crucible.errors import ProtocolBroken, Refused
from crucible.wire import answers, notes, requests
from crucible.wire.frames import Kind
from crucible.wire.generation import Hello, Sync
from crucible.wire.requests import Exec, Read, Verb


def decoded(vector: dict[str, Any]) -> tuple[Any, bytes]:
    """The message of a vector, and that message written again."""
    payload = bytes.fromhex(vector["hex"])
    message: Any
    match Kind(vector["frame_kind"]):
        case Kind.SYNC:
            message = Sync.decode(payload)
            return message, message.encode()
        case Kind.HELLO:
            message = Hello.decode(payload)
            return message, message.encode()
        case Kind.OPEN:
            message = requests.decode_request(payload)
            return message, requests.encode_request(message)
        case Kind.NOTE:
            message = notes.decode_note(payload)
            return message, notes.encode_note(message)
        case Kind.RESULT:
            message = answers.decode_answer(Verb(vector["verb"]), payload)
            return message, answers.encode_answer(Verb(vector["verb"]), message)
        case Kind.FAIL:
            message = answers.decode_fail(payload)
            return message, answers.encode_fail(message)
        case Kind.WINDOW:
            message = notes.decode_window(payload)
            return message, notes.encode_window(message.limit)
        case Kind.ATTACH:
            message = notes.decode_attach(payload)
            return message, notes.encode_attach(message)
        case Kind.FETCH:
            message = notes.decode_place(payload)
            return message, notes.encode_place(message)
        case Kind.DATA:
            decoders: dict[int, Callable[[bytes], Any]] = {
                Verb.LISTEN: answers.decode_ask,
                Verb.WATCH: answers.decode_change,
            }
            records = answers.Records(decoders.get(vector["verb"], answers.decode_entry))
            found = list(records.feed(payload))
            records.end()
            return found, b"".join(answers.encode_record(record) for record in found)
        case kind:
            raise AssertionError(kind)


def plain(value: Any) -> Any:
    """A message in the words of the vectors: bytes as hex, tuples as lists, names as there."""
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "_asdict"):
        fields = {name: plain(item) for name, item in value._asdict().items()}
        return {{"total": "count"}.get(name, name): item for name, item in fields.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


@pytest.mark.parametrize("vector", load("messages"), ids=named)
def test_messages_are_written_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    message, again = decoded(vector)
    fields = plain(message)
    if isinstance(message, list):
        lists = {Verb.LISTEN: "asks", Verb.WATCH: "changes"}
        fields = {lists.get(vector["verb"], "entries"): fields}
    if isinstance(message, requests.Plain):
        assert fields.pop("verb") == vector["verb"]
    assert fields == vector["fields"]
    assert again.hex() == vector["hex"]


@pytest.mark.parametrize("vector", load("rejected_bodies"), ids=named)
def test_bodies_that_do_not_add_up_are_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(ProtocolBroken):
        decoded(vector)


def test_the_vectors_cover_every_verb_note_and_result() -> None:
    messages = load("messages")
    opened = {vector["verb"] for vector in messages if vector["frame_kind"] == Kind.OPEN}
    answered = {vector["verb"] for vector in messages if vector["frame_kind"] == Kind.RESULT}
    noted = {vector["note"] for vector in messages if vector["frame_kind"] == Kind.NOTE}
    assert opened == answered == set(Verb)
    assert noted == {1, 2, 3, 4, 5, 6, 7}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
u64 = st.integers(0, 2**64 - 1)


@given(
    st.builds(
        Exec,
        st.lists(st.binary(max_size=20), max_size=5).map(tuple),
        st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=5).map(tuple),
        st.binary(max_size=30),
        texts,
        st.integers(0, 255),
        st.integers(0, 65535),
        st.integers(0, 65535),
        st.integers(0, 2**32 - 1),
        st.lists(st.tuples(st.integers(0, 255), u64), max_size=5).map(tuple),
    )
)
def test_exec_survives_the_wire(request_sent: Exec) -> None:
    assert requests.decode_request(requests.encode_request(request_sent)) == request_sent


entries = st.builds(
    answers.EntryRecord,
    st.binary(max_size=50),
    st.integers(0, 3),
    st.integers(0, 0o7777),
    u64,
    u64,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=20),
    st.binary(max_size=32),
)


@given(st.lists(entries, max_size=6), st.integers(1, 60))
def test_records_come_through_whatever_the_pieces(
    sent: list[answers.EntryRecord], size: int
) -> None:
    data = b"".join(answers.encode_record(entry) for entry in sent)
    records, found = answers.Records(answers.decode_entry), []
    for start in range(0, len(data), size):
        found += list(records.feed(data[start : start + size]))
    records.end()
    assert found == sent


asks = st.builds(
    answers.AskRecord,
    st.integers(0, 2**32 - 1),
    st.binary(max_size=60),
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 65535),
)


@given(st.lists(asks, max_size=6), st.integers(1, 60))
def test_asks_come_through_whatever_the_pieces(sent: list[answers.AskRecord], size: int) -> None:
    data = b"".join(answers.encode_record(ask) for ask in sent)
    records, found = answers.Records(answers.decode_ask), []
    for start in range(0, len(data), size):
        found += list(records.feed(data[start : start + size]))
    records.end()
    assert found == sent


def test_a_record_that_is_cut_short_or_too_long_is_refused() -> None:
    records = answers.Records(answers.decode_entry)
    assert list(records.feed(b"\x05\0\0\0ab")) == []
    with pytest.raises(ProtocolBroken):
        records.end()
    with pytest.raises(ProtocolBroken):
        list(answers.Records(answers.decode_entry).feed(b"\xff\xff\xff\xff"))


@given(st.sampled_from(sorted(Verb)), st.binary(max_size=200))
def test_random_bodies_raise_nothing_but_protocol_broken(verb: Verb, body: bytes) -> None:
    for decode in (
        lambda: answers.decode_answer(verb, body),
        lambda: requests.decode_request(bytes([verb]) + body),
        lambda: notes.decode_note(bytes([verb]) + body),
        lambda: answers.decode_fail(body),
        lambda: list(answers.Records(answers.decode_entry).feed(body)),
        lambda: list(answers.Records(answers.decode_ask).feed(body)),
        lambda: Hello.decode(body),
    ):
        with suppress(ProtocolBroken):
            decode()


@pytest.mark.parametrize(
    "request_sent",
    [
        Read(b"/x", -1, 0),
        Read(b"/x", 2**64, 0),
        Read(b"/" * 70_000, 0, 0),
        Exec([b""] * 4097, (), b"", "", 0, 0, 0, 0, ()),
        Exec((), (), b"", "\ud800", 0, 0, 0, 0, ()),
        Exec((), (), b"", "", 0, 65536, 0, 0, ()),
    ],
    ids=["negative", "u64", "body", "list", "surrogate", "rows"],
)
def test_what_does_not_fit_a_request_is_the_callers_fault(
    request_sent: requests.Request,
) -> None:
    with pytest.raises(Refused):
        requests.encode_request(request_sent)


def test_another_generation_is_refused_by_its_number() -> None:
    hello = Hello(bytes(16), 2, 1, 0, "agent").encode()
    with pytest.raises(ProtocolBroken, match="generation 2"):
        Hello.decode(hello)


def test_fail_codes_are_a_closed_set() -> None:
    with pytest.raises(ProtocolBroken, match="nonsense"):
        answers.decode_fail(answers.encode_fail(answers.Fail("nonsense", "")))
