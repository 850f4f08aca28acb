"""What the guest answers: RESULT for every verb, FAIL, and records that come one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from crucible.errors import ProtocolBroken
from crucible.wire.frames import MAX_PAYLOAD
from crucible.wire.requests import Verb
from crucible.wire.values import (
    BYTES,
    FLAG,
    TEXT,
    U16,
    U32,
    U64,
    Field,
    Reader,
    Writer,
    group,
    list_of,
    up_to,
)

EXITED: Final = 0
KILLED: Final = 1
TIMED_OUT: Final = 2
ENTRY_TYPES: Final = ("file", "directory", "symlink", "other")
CHANGES: Final = ("created", "written", "removed", "renamed", "attributes", "overflow")
FAIL_CODES: Final = frozenset(
    (
        "not-prepared",
        "frozen",
        "bad-request",
        "not-found",
        "not-executable",
        "no-such-user",
        "no-such-workdir",
        "exists",
        "not-a-directory",
        "is-a-directory",
        "permission",
        "no-space",
        "too-large",
        "refused",
        "reset",
        "unsafe-archive",
        "io",
    )
)


class Done(NamedTuple):
    """A result that says nothing more."""


HIT_MEMORY: Final = 1
HIT_PROCESSES: Final = 2


class Ended(NamedTuple):
    how: int
    code: int
    hit: int
    wall_ns: int
    cpu_ns: int
    peak_bytes: int


class ExecRecord(NamedTuple):
    stream: int
    pid: int
    done: bool
    started_ns: int
    argv0: bytes


class Execs(NamedTuple):
    execs: Sequence[ExecRecord]


class Size(NamedTuple):
    size: int


class Count(NamedTuple):
    total: int


class EntryRecord(NamedTuple):
    name: bytes
    type: int
    mode: int
    size: int
    mtime_ns: int
    uid: int
    gid: int
    target: bytes
    sha256: bytes


class AskRecord(NamedTuple):
    number: int
    name: bytes
    address: bytes
    port: int


class ChangeRecord(NamedTuple):
    kind: int
    name: bytes


class Statted(NamedTuple):
    entry: EntryRecord


class Measured(NamedTuple):
    uptime_ns: int
    cpu_ns: int
    memory_total: int
    memory_available: int
    memory_user: int
    memory_peak: int
    disk_total: int
    disk_free: int
    inodes_free: int
    processes: int
    oom_kills: int


class Grown(NamedTuple):
    disk_total: int


class Fail(NamedTuple):
    code: str
    message: str


Answer = Done | Ended | Execs | Size | Count | Statted | Measured | Grown

_ENTRY: Final = group(
    EntryRecord, BYTES, up_to(3, "entry type"), U32, U64, U64, U32, U32, BYTES, BYTES
)
_ASK: Final = group(AskRecord, U32, BYTES, BYTES, U16)
_CHANGE: Final = group(ChangeRecord, up_to(len(CHANGES) - 1, "a kind of change"), BYTES)
_DONE: Final = group(Done)
_SIZE: Final = group(Size, U64)
_COUNT: Final = group(Count, U64)
_FAIL: Final = group(Fail, TEXT, TEXT)
_ENDED: Final = group(
    Ended, up_to(2, "a way to end"), U32, up_to(3, "a set of limits"), U64, U64, U64
)
_BODIES: Final[dict[Verb, Field]] = {
    Verb.PREPARE: _DONE,
    Verb.EXEC: _ENDED,
    Verb.EXEC_IN: _ENDED,
    Verb.LIST: group(Execs, list_of(group(ExecRecord, U32, U32, FLAG, U64, BYTES))),
    Verb.READ: _SIZE,
    Verb.WRITE: _SIZE,
    Verb.STAT: group(Statted, _ENTRY),
    Verb.LISTDIR: _COUNT,
    Verb.REMOVE: _DONE,
    Verb.RENAME: _DONE,
    Verb.MKDIR: _DONE,
    Verb.TAR_OUT: _COUNT,
    Verb.TAR_IN: _COUNT,
    Verb.DIAL: _DONE,
    Verb.TREE: _COUNT,
    Verb.STATS: group(Measured, *[U64] * 11),
    Verb.GROW: group(Grown, U64),
    Verb.FREEZE: _DONE,
    Verb.THAW: _DONE,
    Verb.SHUTDOWN: _DONE,
    Verb.END_ALL: _DONE,
    Verb.SYNC_DISK: _DONE,
    Verb.LISTEN: _DONE,
    Verb.TAKE: _DONE,
    Verb.REFUSE: _DONE,
    Verb.CONFINE: _DONE,
    Verb.LAYER_OUT: _COUNT,
    Verb.WATCH: _DONE,
}


def encode_answer(verb: Verb, answer: Answer) -> bytes:
    return _encode(_BODIES[verb], answer)


def decode_answer(verb: Verb, payload: bytes) -> Answer:
    answer: Answer = _decode(_BODIES[verb], payload)
    return answer


def encode_fail(fail: Fail) -> bytes:
    return _encode(_FAIL, fail)


def decode_fail(payload: bytes) -> Fail:
    fail: Fail = _decode(_FAIL, payload)
    if fail.code not in FAIL_CODES:
        raise ProtocolBroken(f"a FAIL has the code {fail.code[:80]!r}, which does not exist")
    return fail


def encode_record(record: EntryRecord | AskRecord | ChangeRecord) -> bytes:
    body = _encode(_RECORDS[type(record)], record)
    return len(body).to_bytes(4, "little") + body


_RECORDS: Final[dict[type[Any], Field]] = {
    EntryRecord: _ENTRY,
    AskRecord: _ASK,
    ChangeRecord: _CHANGE,
}
RecordT = TypeVar("RecordT")


class Records(Generic[RecordT]):
    """Records pay no heed to where a DATA frame ends."""

    __slots__ = ("_decode", "_held")

    def __init__(self, decode: Callable[[bytes], RecordT]) -> None:
        self._decode = decode
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[RecordT]:
        held = self._held
        held += data
        at = 0
        while len(held) - at >= 4:
            length = int.from_bytes(held[at : at + 4], "little")
            if length > MAX_PAYLOAD:
                raise ProtocolBroken(f"a record is {length} bytes long; the most is {MAX_PAYLOAD}")
            if len(held) - at - 4 < length:
                break
            yield self._decode(bytes(held[at + 4 : at + 4 + length]))
            at += 4 + length
        del held[:at]

    def end(self) -> None:
        if self._held:
            raise ProtocolBroken("the last record is cut short")


def decode_entry(body: bytes) -> EntryRecord:
    """An entry of LISTDIR and TREE."""
    entry: EntryRecord = _decode(_ENTRY, body)
    return entry


def decode_ask(body: bytes) -> AskRecord:
    """A connection that LISTEN tells of."""
    ask: AskRecord = _decode(_ASK, body)
    if len(ask.address) not in (4, 16):
        raise ProtocolBroken(f"an address has {len(ask.address)} bytes")
    return ask


def decode_change(body: bytes) -> ChangeRecord:
    """Something that WATCH tells of."""
    change: ChangeRecord = _decode(_CHANGE, body)
    return change


def _encode(field: Field, value: Any) -> bytes:
    writer = Writer()
    field.write(writer, value)
    return writer.body()


def _decode(field: Field, payload: bytes) -> Any:
    reader = Reader(payload)
    value = field.read(reader)
    reader.end()
    return value
