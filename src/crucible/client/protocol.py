"""What a client and the owner say to each other over the owner's UNIX socket.

One connection carries one request. A frame is a kind (1 byte), a length (4 bytes, big-endian) and
that many bytes:

    J  a JSON object
    D  a channel (1 byte: 0 input, 1 output, 2 errors) and data
    E  a channel: nothing more comes on it
    W  a channel and a count (4 bytes): so many bytes of that channel were taken by their reader

The client begins with J `{"verb": …, …}`. The owner takes it with J `{"accepted": {}}` before it does anything
(a client that loses the connection without having got any frame asks again), and then answers with any number of
J `{"progress": [stage, detail]}` and `{"notice": text}` (worth a person's eye), for streaming verbs
J `{"started": {…}}` and frames D and E, and at last J `{"ok": {…}}` or
`{"error": {"code", "message", "hint", "exit_status"}}`, and closes.

While an exec runs the client may send J `{"signal": number}`, `{"resize": [rows, columns]}` and, to leave the
command to itself, `{"detach": true}`, which is answered with `{"ok": {}}`. A client that just goes takes its
command with it. A `run` or `create` with an upload sends the tar on channel 0 first and ends it with E; its
acknowledgements come before `started`, where the count of that channel begins anew for the command's input.

A `lend` is the channel of a machine for another host: D frames in both directions are its bytes. Its client may send
J `{"pause": true}`, `{"resume": true}` and `{"console": true}`, each of which is answered with one J `{"done": {…}}`,
and sends `{"alive": true}` now and then, without which the owner takes it for gone.

Whoever sends D stays within WINDOW bytes of what W has acknowledged. Bytes that a client has acknowledged are
never sent again; all others are, if it comes back with verb `attach` after the owner has died (with `waits`, so
that it waits for a sandbox that was paused meanwhile, instead of being refused). The answer's
`started` then says where the channels go on: `output` and `errors` as asked for, `input` how much has been taken.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from crucible.errors import CrucibleError

JSON = ord("J")
DATA = ord("D")
END = ord("E")
TAKEN = ord("W")

INPUT, OUTPUT, ERRORS = 0, 1, 2

MAX_PAYLOAD = (1 << 20) + 1
WINDOW = 262_144
SOCKET_NAME = "owner.sock"
# Counts the changes of `lend` and of what surrounds it: two hosts with different numbers do not understand each other.
LENDING = 1

_HEADER = struct.Struct(">BI")
_TAKEN = struct.Struct(">BI")
HEADER_BYTES = _HEADER.size


class BrokenFrame(CrucibleError):
    code = "owner-protocol"


def json_frame(message: dict[str, Any]) -> bytes:
    payload = json.dumps(message).encode()
    return _HEADER.pack(JSON, len(payload)) + payload


def data_frame(channel: int, data: bytes | memoryview) -> bytes:
    return b"".join((_HEADER.pack(DATA, len(data) + 1), bytes((channel,)), data))


def end_frame(channel: int) -> bytes:
    return _HEADER.pack(END, 1) + bytes((channel,))


def taken_frame(channel: int, count: int) -> bytes:
    return _HEADER.pack(TAKEN, _TAKEN.size) + _TAKEN.pack(channel, count)


def parse_header(header: bytes) -> tuple[int, int]:
    kind, length = _HEADER.unpack(header)
    if kind not in (JSON, DATA, END, TAKEN) or length > MAX_PAYLOAD:
        raise BrokenFrame("The other side does not speak the owner's protocol")
    return kind, length


def parse_json(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        raise BrokenFrame("A message was not JSON") from None
    if not isinstance(message, dict):
        raise BrokenFrame("A message was not an object")
    return message


def parse_taken(payload: bytes) -> tuple[int, int]:
    if len(payload) != _TAKEN.size:
        raise BrokenFrame("An acknowledgement has the wrong size")
    channel, count = _TAKEN.unpack(payload)
    return channel, count
