"""What the host asks: the body of OPEN for every verb.

Named tuples, not dataclasses: these modules are on the path of every start, and thirty dataclasses
cost that start several milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from crucible.errors import ProtocolBroken
from crucible.wire.values import (
    BYTES,
    FLAG,
    PAIR,
    TEXT,
    U8,
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


class Verb(IntEnum):
    PREPARE = 1
    EXEC = 2
    LIST = 3
    READ = 4
    WRITE = 5
    STAT = 6
    LISTDIR = 7
    REMOVE = 8
    RENAME = 9
    MKDIR = 10
    TAR_OUT = 11
    TAR_IN = 12
    DIAL = 13
    TREE = 14
    STATS = 15
    GROW = 16
    FREEZE = 17
    THAW = 18
    SHUTDOWN = 19
    SYNC_DISK = 20
    LISTEN = 21
    TAKE = 22
    REFUSE = 23
    CONFINE = 24
    LAYER_OUT = 25
    EXEC_IN = 26
    WATCH = 27
    END_ALL = 28


EXEC_PTY: Final = 1
EXEC_INPUT: Final = 2
EXEC_MAKE_WORKDIR: Final = 4
WRITE_APPEND: Final = 1
WRITE_PARENTS: Final = 2
LAYER_CHANGES: Final = 0
CONFINE_READ_ONLY: Final = 1
CONFINE_NO_POWERS: Final = 2
WATCH_RECURSIVE: Final = 1


class Prepare(NamedTuple):
    entropy: bytes
    realtime_ns: int
    hostname: str
    machine_id: str
    boot_id: str


class Exec(NamedTuple):
    argv: Sequence[bytes]
    env: Sequence[tuple[bytes, bytes]]
    workdir: bytes
    user: str
    flags: int
    rows: int
    columns: int
    timeout_ms: int
    limits: Sequence[tuple[int, int]]


class ExecIn(NamedTuple):
    """EXEC in the namespaces of a further image."""

    image: str
    argv: Sequence[bytes]
    env: Sequence[tuple[bytes, bytes]]
    workdir: bytes
    user: str
    flags: int
    rows: int
    columns: int
    timeout_ms: int
    limits: Sequence[tuple[int, int]]


class Read(NamedTuple):
    path: bytes
    offset: int
    length: int


class Write(NamedTuple):
    path: bytes
    mode: int
    owner: str
    flags: int


class Stat(NamedTuple):
    path: bytes
    follow: bool


class ListDir(NamedTuple):
    path: bytes


class Remove(NamedTuple):
    path: bytes
    recursive: bool


class Rename(NamedTuple):
    old: bytes
    new: bytes


class MakeDir(NamedTuple):
    path: bytes
    mode: int
    owner: str
    parents: bool


class TarOut(NamedTuple):
    root: bytes
    names: Sequence[bytes]


class TarIn(NamedTuple):
    root: bytes
    owner: str


class Dial(NamedTuple):
    port: int


class Tree(NamedTuple):
    root: bytes
    hash: bool


class Shutdown(NamedTuple):
    grace_ms: int


class EndAll(NamedTuple):
    grace_ms: int


class Take(NamedTuple):
    number: int


class RefuseAsk(NamedTuple):
    number: int


class Confine(NamedTuple):
    flags: int


class LayerOut(NamedTuple):
    what: int


class Watch(NamedTuple):
    path: bytes
    flags: int


class Plain(NamedTuple):
    """A verb that has no body."""

    verb: Verb


Request = (
    Prepare
    | Exec
    | ExecIn
    | Read
    | Write
    | Stat
    | ListDir
    | Remove
    | Rename
    | MakeDir
    | TarOut
    | TarIn
    | Dial
    | Tree
    | Shutdown
    | EndAll
    | Take
    | RefuseAsk
    | Confine
    | LayerOut
    | Watch
    | Plain
)

_LIMIT: Final = group(lambda resource, value: (resource, value), U8, U64)
_EXEC: Final = (
    *(list_of(BYTES), list_of(PAIR), BYTES, TEXT, U8, U16, U16, U32),
    list_of(_LIMIT),
)
_BODIES: Final[dict[type[Any], tuple[Verb, Field]]] = {
    kind: (verb, group(kind, *fields))
    for kind, verb, fields in (
        (Prepare, Verb.PREPARE, (BYTES, U64, TEXT, TEXT, TEXT)),
        (Exec, Verb.EXEC, _EXEC),
        (ExecIn, Verb.EXEC_IN, (TEXT, *_EXEC)),
        (Read, Verb.READ, (BYTES, U64, U64)),
        (Write, Verb.WRITE, (BYTES, U32, TEXT, U8)),
        (Stat, Verb.STAT, (BYTES, FLAG)),
        (ListDir, Verb.LISTDIR, (BYTES,)),
        (Remove, Verb.REMOVE, (BYTES, FLAG)),
        (Rename, Verb.RENAME, (BYTES, BYTES)),
        (MakeDir, Verb.MKDIR, (BYTES, U32, TEXT, FLAG)),
        (TarOut, Verb.TAR_OUT, (BYTES, list_of(BYTES))),
        (TarIn, Verb.TAR_IN, (BYTES, TEXT)),
        (Dial, Verb.DIAL, (U16,)),
        (Tree, Verb.TREE, (BYTES, FLAG)),
        (Shutdown, Verb.SHUTDOWN, (U32,)),
        (EndAll, Verb.END_ALL, (U32,)),
        (Take, Verb.TAKE, (U32,)),
        (RefuseAsk, Verb.REFUSE, (U32,)),
        (Confine, Verb.CONFINE, (U8,)),
        (LayerOut, Verb.LAYER_OUT, (up_to(LAYER_CHANGES, "a kind of layer"),)),
        (Watch, Verb.WATCH, (BYTES, up_to(WATCH_RECURSIVE, "a set of flags"))),
    )
}
_BY_VERB: Final = dict(_BODIES.values())


def verb_of(request: Request) -> Verb:
    if isinstance(request, Plain):
        return request.verb
    return _BODIES[type(request)][0]


def encode_request(request: Request) -> bytes:
    """The payload of OPEN. Raises Refused when a value does not fit."""
    writer = Writer()
    writer.u8(verb_of(request))
    if not isinstance(request, Plain):
        _BODIES[type(request)][1].write(writer, request)
    return writer.body()


def decode_request(payload: bytes) -> Request:
    reader = Reader(payload)
    number = reader.u8()
    try:
        verb = Verb(number)
    except ValueError:
        raise ProtocolBroken(f"an OPEN names verb {number}, which does not exist") from None
    body = _BY_VERB.get(verb)
    request: Request = body.read(reader) if body else Plain(verb)
    reader.end()
    return request
