"""Asks one of Docker's credential programs (`docker-credential-NAME get`): by argv, with a deadline and a cap."""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from crucible.errors import CredentialsUnreadable

DEADLINE_S = 60.0
_MAX_ANSWER_BYTES = 64 << 10
_CHUNK_BYTES = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOTHING = b"credentials not found"


def ask_program(
    name: str, key: str, environment: Mapping[str, str], *, deadline_s: float = DEADLINE_S
) -> tuple[str, str] | None:
    """User and secret; None when it has nothing under that key. What it printed is never repeated."""
    program = f"docker-credential-{name}"
    if not _NAME.fullmatch(name):
        raise CredentialsUnreadable(f"{name[:80]!r} is no credential program's name")
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise CredentialsUnreadable(
            f"The program `{program}`, which keeps the logins, is not installed",
            hint="Install it, or take it out of Docker's config.json and log in again",
        )
    status, answer = _run([found, "get"], key.encode(), environment, deadline_s, program)
    if status != 0:
        if _NOTHING in answer.lower():
            return None
        raise CredentialsUnreadable(
            f"`{program} get` ended with status {status} for {key}",
            hint=f"Try it by hand: echo {key} | {program} get",
        )
    return _parse(program, answer)


def _run(
    argv: list[str], said: bytes, environment: Mapping[str, str], deadline_s: float, program: str
) -> tuple[int, bytes]:
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,
    )
    with process:
        try:
            answer = _converse(process, said, time.monotonic() + deadline_s)
        except BaseException:
            _end(process)
            raise
        if answer is None:
            _end(process)
            raise CredentialsUnreadable(
                f"`{program} get` did not answer within {deadline_s:g} s, or with too much"
            )
    return process.returncode, answer


def _converse(process: subprocess.Popen[bytes], said: bytes, until: float) -> bytes | None:
    """All it prints; None when that is too late or too much."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
    try:
        process.stdin.write(said)  # shorter than a pipe holds
        process.stdin.close()
    except BrokenPipeError:
        pass  # it answers without reading, or fails; its status tells
    answer = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(answer) <= _MAX_ANSWER_BYTES:
            if not selector.select(max(0.0, until - time.monotonic())):
                return None
            chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                break
            answer += chunk
        else:
            return None
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return bytes(answer)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With whatever it started: it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _parse(program: str, answer: bytes) -> tuple[str, str]:
    try:
        document = json.loads(answer)
        username, secret = document["Username"], document["Secret"]
    except (ValueError, RecursionError, KeyError, TypeError):
        username = secret = None
    if not isinstance(username, str) or not isinstance(secret, str):
        raise CredentialsUnreadable(f"`{program} get` did not answer as it should")
    return username, secret
