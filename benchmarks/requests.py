"""The HTTP door of a warm daemon, on a connection that is kept: runs, commands, much output, many sandboxes.

As in `warm`, the pool is full before each run that is measured. What the server adds to a command is what its caller
waited less the time from when the agent was asked for it until the agent told its end.
"""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.crowd import held_mb
from benchmarks.figures import AtMost, AtMostTimes, Figure, TailAtMost
from benchmarks.place import Place, unpack_image
from benchmarks.rounds import Case, Readings, interleave, milliseconds, say, timed
from benchmarks.starts import crucible, podman_command, why_unusable
from benchmarks.warm import wait_until_full

_BOX = "requests"
_MEGABYTES = 100
_AT_ONCE = 8
_HOST_MB = 24 * (1 << 30) / 1e6
_WRITE = f"import sys\nfor _ in range({_MEGABYTES}): sys.stdout.write('x' * 999_999 + '\\n')"


def measure(place: Place, *, rounds: int, streams: int, alive: int) -> list[Figure]:
    rootfs = unpack_image(place)
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        podman = podman_command(Path(storage), rootfs)
        why_no_podman = why_unusable(podman, place)
        with _daemon(place) as caller:
            samples = _one_by_one(place, caller, [] if why_no_podman else podman, rounds)
            streamed = interleave(
                "requests", [Case(measure=lambda: _stream(place, caller))], streams
            )
            caller.ask("DELETE", f"/api/v1/sandboxes/{_BOX}?force=true")
            return [
                *_figures({**samples, **streamed}, why_no_podman),
                *_alive(place, caller, alive),
            ]


class Caller:
    """A client with a token; each thread has a connection of its own, which is kept."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._own = threading.local()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = self.send(method, path, body)
        told = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {told.decode(errors='replace')}")
        return json.loads(told) if told else None

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> http.client.HTTPResponse:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        connection: http.client.HTTPConnection = self._own.connection
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, self._headers)
        return connection.getresponse()


@contextmanager
def _daemon(place: Place) -> Iterator[Caller]:
    port = _free_port()
    timed([*crucible(), "daemon", "start", "--http", f"127.0.0.1:{port}"], place.environment)
    try:
        made = subprocess.run(
            [*crucible(), "token", "create", "bench", "--scope", "admin"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, cwd="/",
            env=dict(place.environment),
        )  # fmt: skip
        caller = Caller(port, made.stdout.strip())
        caller.ask("POST", "/api/v1/sandboxes", {"name": _BOX, "settings": {"network": "off"}})
        yield caller
    finally:
        timed([*crucible(), "daemon", "stop"], place.environment)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _one_by_one(
    place: Place, caller: Caller, podman: list[str], rounds: int
) -> dict[str, list[float]]:
    cases = [Case(measure=lambda: _run(place, caller)), Case(measure=lambda: _exec(caller))]
    if podman:
        cases.append(Case(measure=lambda: {"http-podman": timed(podman, place.environment)}))
    return interleave("requests", cases, rounds)


def _run(place: Place, caller: Caller) -> Readings:
    wait_until_full(place)
    began = time.perf_counter()
    told = caller.ask("POST", "/run", {"command": ["true"], "image": "base"})
    wall = time.perf_counter() - began
    if not told["success"]:
        raise RuntimeError(f"the run failed: {told}")
    stages = place.durations()
    return {"http-run": wall, "http-run-rest": wall - stages.get("total", 0.0)}


def _exec(caller: Caller) -> Readings:
    began = time.perf_counter()
    answer = caller.send("POST", f"/api/v1/sandboxes/{_BOX}/exec", {"argv": ["true"]})
    told = json.loads(answer.read())
    wall = time.perf_counter() - began
    spent = float((answer.getheader("Server-Timing") or "").partition("dur=")[2]) / 1000
    return {
        "http-exec": wall,
        "http-exec-inside": told["exit"]["wall_s"],
        "http-exec-agent": spent,
        "http-added": wall - spent,
    }


def _stream(place: Place, caller: Caller) -> Readings:
    """Peak of the daemon's memory above what it was: the kernel is told to forget the peak before."""
    pid = place.owner_pid()
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = _status_mb(pid, "VmRSS")
    began = time.perf_counter()
    answer = caller.send(
        "POST", f"/api/v1/sandboxes/{_BOX}/exec/stream", {"argv": ["python3", "-c", _WRITE]}
    )
    count = 0
    for line in answer:
        if line.startswith(b'data: {"text"'):
            count += len(json.loads(line[6:])["text"])
    seconds = time.perf_counter() - began
    if count != _MEGABYTES * 1_000_000:
        raise RuntimeError(f"{count} bytes came of {_MEGABYTES} MB")
    return {"http-stream": seconds, "http-stream-memory": _status_mb(pid, "VmHWM") - before}


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"the kernel does not tell {name}")


def _alive(place: Place, caller: Caller, count: int) -> list[Figure]:
    """So many sandboxes that all run, each of which does what it is told when the last one has come."""
    failed: list[str] = []

    def attempt(what: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        say(f"requests: {what}")
        try:
            caller.ask(method, path, body)
        except Exception as error:
            failed.append(str(error))

    def start(name: str) -> None:
        settings = {"network": "off"}
        attempt(f"start {name}", "POST", "/api/v1/sandboxes", {"name": name, "settings": settings})

    def use(name: str) -> None:
        attempt(f"use {name}", "POST", f"/api/v1/sandboxes/{name}/exec", {"argv": ["true"]})

    def remove(name: str) -> None:
        attempt(f"remove {name}", "DELETE", f"/api/v1/sandboxes/{name}?force=true")

    names = [f"alive-{number}" for number in range(1, count + 1)]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as crowd:
        began = time.perf_counter()
        list(crowd.map(start, names))
        ready = time.perf_counter() - began
        list(crowd.map(use, names))
        alive = [record for record in place.records() if record.state == "running"]
        running = len({record.name for record in alive}.intersection(names))
        held = held_mb(place)
        list(crowd.map(remove, names))
    reason = f" ({sorted(failed)[0]})" if failed else ""
    return [
        Figure(key="alive-ready", name=f"{count} sandboxes over HTTP, {_AT_ONCE} at a time, all ready",
               unit="s", samples=(ready,)),
        Figure(key="alive-missing", name=f"of {count} alive at once, those that did not run{reason}",
               unit="count", samples=(float(count - running + len(failed)),), targets=(AtMost(limit=0),)),
        Figure(key="alive-memory", name=f"memory of {count} alive at once, all that ran a command: sum of Pss",
               unit="MB", samples=() if held is None else (held,), targets=(AtMost(limit=_HOST_MB),),
               why_missing="the kernel does not let us read it"),
    ]  # fmt: skip


def _figures(samples: Mapping[str, list[float]], why_no_podman: str) -> list[Figure]:
    def figure(key: str, name: str, **more: object) -> Figure:
        return Figure(key=key, name=name, samples=milliseconds(samples.get(key)), **more)  # type: ignore[arg-type]

    return [
        figure("http-podman", "podman run --rm (runc) true, beside requests", why_missing=why_no_podman),
        figure("http-run", "POST /run of true, daemon warm, connection kept",
               targets=(AtMostTimes(factor=0.35, other="http-podman"), TailAtMost(factor=4))),
        figure("http-run-rest", "of that: before the machine is asked for and after it is gone"),
        figure("http-exec", "POST exec of true in a sandbox that runs"),
        figure("http-exec-inside", "of that: the command itself"),
        figure("http-exec-agent", "of that: from asking the agent to its word that the command ended"),
        figure("http-added", "of that: what the server added", targets=(AtMost(limit=5),)),
        Figure(key="http-stream", name=f"{_MEGABYTES} MB of output as events", unit="s",
               samples=tuple(samples.get("http-stream", ()))),
        Figure(key="http-stream-memory", name="memory of the daemon at most above what it was, meanwhile",
               unit="MB", samples=tuple(samples.get("http-stream-memory", ())), targets=(AtMost(limit=32),)),
    ]  # fmt: skip
