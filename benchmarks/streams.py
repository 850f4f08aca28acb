"""Through a policy: connections by name, and streams in and out beside copies of as many bytes.

All of them go to this host under its own name, which a rule allows. Times are those of the program that connects.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.images.registry import make_tar

from benchmarks import peer
from benchmarks.figures import AtMostTimes, Figure
from benchmarks.peer import ANSWER, SEND, TAKE
from benchmarks.place import Place
from benchmarks.rounds import Case, Readings, interleave, milliseconds
from benchmarks.starts import crucible
from crucible.client.connection import Owner
from crucible.client.exchange import Unseen, ask
from crucible.client.flows import CallSink
from crucible.client.protocol import OUTPUT

_MEGABYTES = 50
_BYTES = _MEGABYTES * 1_000_000
LATER = 5
_BOX = "streams"
_FILE = "stream.bin"

CONNECT = f"""
import socket, sys, time
for _ in range({LATER + 1}):
    began = time.perf_counter()
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as peer:
        peer.sendall({ANSWER!r})
        assert peer.recv(1)
    print(time.perf_counter() - began)
"""
STREAM = f"""
import socket, sys, time
def reach(verb):
    peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    peer.sendall(verb)
    return peer
began, left, buffer = time.perf_counter(), {_BYTES}, bytearray(1 << 18)
with reach({SEND!r} + left.to_bytes(8, "big")) as peer:
    while left:
        count = peer.recv_into(buffer)
        assert count
        left -= count
print(time.perf_counter() - began)
began = time.perf_counter()
with reach({TAKE!r}) as peer:
    for _ in range({_BYTES} // 250_000):
        peer.sendall(bytes(250_000))
    peer.shutdown(socket.SHUT_WR)
    assert peer.recv(1)
print(time.perf_counter() - began)
"""


def measure(place: Place, *, rounds: int) -> list[Figure]:
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return _figures({}, "this host's own name has no address")
    with running_peer(address) as port:
        target = (name, str(port))
        rule = f"{name}:{port}+private"
        place.start(_BOX, network="allowlist", allow=[rule])
        cases = [
            Case(measure=lambda: _connect(place, rule, target)),
            Case(measure=lambda: _stream(place, target)),
            Case(measure=lambda: _copy(place)),
        ]
        try:
            samples = interleave("streams", cases, rounds)
        finally:
            place.remove(_BOX)
            place.end_owner()
    return _figures(samples, "")


@contextmanager
def running_peer(address: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, peer.__file__, address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def _connect(place: Place, rule: str, target: tuple[str, str]) -> Readings:
    listed = ["--network", "allowlist", "--allow", rule]
    inside = _seconds(
        place,
        [*crucible(), "run", "--image", "base", *listed, "--", "python3", "-c", CONNECT, *target],
    )
    outside = _seconds(place, [sys.executable, "-c", CONNECT, *target])
    return {
        "connect-first": inside[0],
        "connect-later": sorted(inside[1:])[LATER // 2],
        "connect-outside": sorted(outside[1:])[LATER // 2],
    }


def _stream(place: Place, target: tuple[str, str]) -> Readings:
    words = [*crucible(), "exec", _BOX, "python3", "-c", STREAM, *target]
    into, out = _seconds(place, words)
    return {"stream-in": into, "stream-out": out}


def _copy(place: Place) -> Readings:
    tar = memoryview(make_tar({_FILE: bytes(_BYTES)}))
    pieces = [bytes(tar[start : start + (1 << 18)]) for start in range(0, len(tar), 1 << 18)]
    fields = {"name": _BOX, "path": "/tmp"}
    connect = Owner(place.home).connect
    began = time.perf_counter()
    ask(
        connect,
        {"verb": "tar_in", **fields, "owner": ""},
        progress=Unseen(),
        upload=lambda: pieces,
    )
    there = time.perf_counter()
    sink = CallSink(len)
    ask(
        connect,
        {"verb": "tar_out", **fields, "names": [_FILE]},
        progress=Unseen(),
        sinks={OUTPUT: sink},
    )
    back = time.perf_counter()
    if sink.written < _BYTES:
        raise RuntimeError(f"only {sink.written} bytes came back")
    return {"tar-in": there - began, "tar-out": back - there}


def _seconds(place: Place, argv: list[str]) -> list[float]:
    """What a program printed, outside of any project."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        env=dict(place.environment),
        check=False,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"{argv[0]} failed: {done.stderr.decode(errors='replace')}")
    return [float(line) for line in done.stdout.split()]


def _figures(samples: Mapping[str, list[float]], why: str) -> list[Figure]:
    connections = {
        "connect-first": "a connection by name through an allowlist, the first of a sandbox",
        "connect-later": "a connection by name through an allowlist, later ones",
        "connect-outside": "the same connection without a sandbox",
    }
    transfers = {
        "tar-in": f"a file of {_MEGABYTES} MB in",
        "tar-out": f"a file of {_MEGABYTES} MB out",
        "stream-in": f"an allowed TCP stream of {_MEGABYTES} MB in",
        "stream-out": f"an allowed TCP stream of {_MEGABYTES} MB out",
    }
    targets = {
        f"stream-{way}": (AtMostTimes(factor=2, other=f"tar-{way}"),) for way in ("in", "out")
    }
    return [
        *(
            Figure(key=key, name=name, samples=milliseconds(samples.get(key)), why_missing=why)
            for key, name in connections.items()
        ),
        *(
            Figure(
                key=key,
                name=name,
                unit="s",
                samples=tuple(samples.get(key, ())),
                targets=targets.get(key, ()),
                why_missing=why,
            )
            for key, name in transfers.items()
        ),
    ]
