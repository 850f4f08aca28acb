"""One conversation with the worker's owner, over the standard streams of one process here.

All that a worker sends is hostile: it is bounded before it is looked at, and its words are shown as text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any, Final

import crucible
from crucible.backends.worker.address import Worker
from crucible.client import protocol
from crucible.client.answers import service_error, table
from crucible.errors import WorkerLacksCrucible, WorkerMismatch, WorkerUnreachable
from crucible.values import dataclass
from crucible.wire.generation import GENERATION

OPEN_S: Final = 60.0
ASK_S: Final = 120.0
LARGEST_GREETING: Final = 1 << 16
_LARGEST_ERRORS = 4096
_CLOSE_S = 2.0
_SSH_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 255, 126, 127


class ConnectionLost(Exception):
    """The process between us and the worker has ended; whoever catches it knows what that means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a worker says of itself. `missing` is why it cannot run sandboxes, `fix` what mends that there."""

    version: str
    backend: str
    isolation: str
    missing: str = ""
    fix: str = ""


class Connection:
    """Made by `open`. The worker waits for the request a while."""

    def __init__(self, worker: Worker, process: asyncio.subprocess.Process) -> None:
        self.worker = worker
        self.claims: Claims
        self._process = process
        self._errors = bytearray()
        self._listening = asyncio.create_task(self._listen())
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018, S101
        self._input, self._output = process.stdin, process.stdout

    @classmethod
    async def open(cls, worker: Worker) -> Connection:
        """Raises WorkerUnreachable, WorkerLacksCrucible or WorkerMismatch; then nothing is left."""
        nonce = os.urandom(16).hex()
        try:
            process = await asyncio.create_subprocess_exec(
                *worker.words, "connect", "--nonce", nonce,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, limit=LARGEST_GREETING,
                # What a person types at our terminal is not for it.
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise WorkerUnreachable(
                worker.label, f"{worker.words[0]}: {error.strerror}",
                hint=f"Install {worker.words[0]!r} here, or set LOCAL_MICROVM_BACKEND_CLI",
            ) from None  # fmt: skip
        connection = cls(worker, process)
        try:
            connection.claims = await connection._greeted(nonce.encode())
        except BaseException:
            connection.abort()
            await connection.close()
            raise
        return connection

    async def send(self, frame: bytes) -> None:
        try:
            self._input.write(frame)
            await self._input.drain()
        except OSError:
            raise ConnectionLost(self._last_words()) from None

    async def frame(self) -> tuple[int, bytes]:
        try:
            kind, length = protocol.parse_header(
                await self._output.readexactly(protocol.HEADER_BYTES)
            )
            return kind, await self._output.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            raise ConnectionLost(self._last_words()) from None

    async def message(self) -> dict[str, Any]:
        """The next thing that is said; raises the error if it is one."""
        while True:
            kind, payload = await self.frame()
            if kind != protocol.JSON:
                raise protocol.BrokenFrame("The worker sent data where none was expected")
            message = protocol.parse_json(payload)
            if "error" in message:
                raise service_error(message["error"])
            if not message.keys() & {"accepted", "progress", "notice"}:
                return message

    def abort(self) -> None:
        """What still comes is not worth waiting for, from it or from what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        self._input.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            self.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._process.wait()
        finally:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            # A connection that is shared leaves a process behind that has our end of its errors.
            self._process._transport.close()  # type: ignore[attr-defined]

    async def _greeted(self, nonce: bytes) -> Claims:
        try:
            async with asyncio.timeout(OPEN_S):
                line = await self._find(nonce)
        except TimeoutError:
            raise WorkerUnreachable(
                self.worker.label, f"nothing was heard from it within {OPEN_S:g} s",
                hint="Try the command by hand: " + _shown(" ".join(self.worker.words)) + " probe",
            ) from None  # fmt: skip
        return self._claims(line)

    async def _find(self, nonce: bytes) -> bytes:
        """The line that begins with our nonce. What a login shell writes before it is passed over."""
        seen = 0
        while True:
            try:
                line = await self._output.readline()
            except ValueError:
                raise self._no_crucible("it sent a line without end") from None
            if not line.endswith(b"\n"):
                raise await self._refusal()
            if line.startswith(nonce + b" "):
                return line[len(nonce) + 1 :]
            seen += len(line)
            if seen > LARGEST_GREETING:
                raise self._no_crucible("it sent other things")

    def _claims(self, line: bytes) -> Claims:
        try:
            facts = json.loads(line)
        except (ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict):
            raise self._no_crucible("its greeting cannot be read")
        version = _shown(str(facts.get("crucible")))
        if facts.get("lending") != protocol.LENDING or facts.get("generation") != GENERATION:
            raise WorkerMismatch(self.worker.label, version, crucible.__version__)
        missing = facts.get("missing")
        said = service_error(missing) if missing is not None else None
        return Claims(
            version=version,
            backend=_shown(str(facts.get("backend", ""))),
            isolation=_shown(str(facts.get("isolation", ""))),
            missing="" if said is None else _shown(said.message),
            fix="" if said is None else _shown(said.hint),
        )

    async def _refusal(self) -> WorkerUnreachable | WorkerLacksCrucible:
        """Why there was no greeting, as well as the way to the worker tells it."""
        status = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                status = await self._process.wait()
                await asyncio.wait({self._listening}, timeout=_CLOSE_S / 4)
        why = self._last_words() or f"the command ended with status {status}"
        if status in (_NOT_FOUND, _NOT_EXECUTABLE):
            return self._no_crucible(why)
        if status == _SSH_FAILED:
            return WorkerUnreachable(self.worker.label, why, hint=_hint(why, self.worker))
        return self._no_crucible(why)

    def _no_crucible(self, why: str) -> WorkerLacksCrucible:
        return WorkerLacksCrucible(self.worker.label, why, crucible.__version__)

    def _last_words(self) -> str:
        text = self._errors.decode(errors="replace")
        spoken = [line.strip() for line in text.splitlines() if line.strip()]
        return _shown(spoken[-1]) if spoken else ""

    async def _listen(self) -> None:
        """Keeps the end of what is said on standard error, and reads all of it: a full pipe would hold up the rest."""
        errors = self._process.stderr
        while errors is not None and (data := await errors.read(_LARGEST_ERRORS)):
            self._errors += data
            del self._errors[:-_LARGEST_ERRORS]


async def ask(worker: Worker, verb: str, fields: dict[str, Any]) -> dict[str, Any]:
    """One request that is one answer, on a connection of its own. Raises ConnectionLost, too."""
    connection = await Connection.open(worker)
    try:
        async with asyncio.timeout(ASK_S):
            await connection.send(protocol.json_frame({"verb": verb, **fields}))
            return table(await connection.message(), "ok")
    except TimeoutError:
        raise ConnectionLost(f"no answer came within {ASK_S:g} s") from None
    finally:
        await connection.close()


def _hint(why: str, worker: Worker) -> str:
    if "host key" in why.lower():
        return (
            "Compare the worker's host key and add it to known_hosts: connect once by hand with ssh"
        )
    if "permission denied" in why.lower():
        return "Give ssh a key that the worker takes without asking: see `ssh-copy-id`"
    return "Check the host and the port, and try it by hand with ssh"


def _shown(text: str) -> str:
    """A worker's words, safe to be shown."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:300]
