"""A server that plays the providers: real sockets, real wire formats, and every fault on request.

    with ProviderServer() as server:
        server.script([Turn(text="hello")])
        ...  # with the variables of `server.environment()`
        server.requests  # what was asked

A script with `match` is for conversations in which that expression is found, so that many sessions can talk at once.
As a process of its own: `python -m tests.providers.server SCRIPTS.json`, which prints the address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.providers import anthropic_wire, openai_wire
from tests.providers.turns import Received, Turn, Use

FLAVOURS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "groq": "/openai/v1/chat/completions",
    "together": "/v1/chat/completions",
    "deepseek": "/chat/completions",
    "ollama": "/v1/chat/completions",
    "compatible": "/v1/chat/completions",
}
_VARIABLES = {
    "anthropic": "ANTHROPIC",
    "openai": "OPENAI",
    "groq": "GROQ",
    "together": "TOGETHER",
    "deepseek": "DEEPSEEK",
    "ollama": "OLLAMA",
    "compatible": "LLM",
}
KEY = "sk-test-0123456789abcdef"
_LONGEST_HEAD, _LONGEST_BODY = 64 * 1024, 64 << 20


@dataclass(slots=True)
class _Book:
    match: str
    turns: list[Turn]
    place: int = 0


class ProviderServer:
    """`key` is what it wants to be shown. `gone` counts clients that left in the middle of an answer."""

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.requests: list[Received] = []
        self.gone = 0
        self.url = ""
        self._books: list[_Book] = []
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def script(self, turns: Sequence[Turn], match: str = "") -> None:
        with self._changed:
            self._books.append(_Book(match, list(turns)))

    def clear(self) -> None:
        with self._changed:
            self._books.clear()
            self.requests.clear()
            self.gone = 0

    def base_url(self, flavour: str) -> str:
        path = FLAVOURS[flavour].removesuffix("/chat/completions").removesuffix("/v1/messages")
        return f"{self.url}/{flavour}{path}"

    def environment(self, *flavours: str) -> dict[str, str]:
        """Keys and addresses of these providers, or of all."""
        values: dict[str, str] = {}
        for flavour in flavours or FLAVOURS:
            values[f"{_VARIABLES[flavour]}_API_KEY"] = self.key
            values[f"{_VARIABLES[flavour]}_BASE_URL"] = self.base_url(flavour)
        return values

    def wait_for(self, condition: Callable[[ProviderServer], bool], timeout_s: float = 300) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout_s)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LONGEST_HEAD, backlog=512)
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        received = await _read(reader)
        if received is None:
            return False
        turn = self._turn(received)
        answer = _Answer(turn, received, self.key)
        leaving = asyncio.ensure_future(_left(reader))
        sending = asyncio.ensure_future(answer.send(writer))
        await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        is_left = leaving.done()
        leaving.cancel()
        sending.cancel()
        await asyncio.wait({leaving, sending})
        if is_left or sending.cancelled() or sending.exception() is not None:
            with self._changed:
                self.gone += 1
                self._changed.notify_all()
            return False
        return sending.result()

    def _turn(self, received: Received) -> Turn | None:
        text = json.dumps(received.body.get("messages", ""), ensure_ascii=False)
        with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
            for book in sorted(self._books, key=lambda one: not one.match):
                if re.search(book.match, text) and book.place < len(book.turns):
                    book.place += 1
                    return book.turns[book.place - 1]
        return None


class _Answer:
    def __init__(self, turn: Turn | None, received: Received, key: str) -> None:
        self._turn = turn or Turn(fault="refused")
        self._said = "" if turn else "the script is over"
        self._received = received
        self._key = key

    async def send(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may be used again."""
        turn, fault = self._turn, self._turn.fault
        shown = self._shown()
        if fault == "silent":
            await asyncio.Event().wait()
        if shown != self._key:
            return await self._error(writer, "wrong-key", "")
        if fault == "echo-key":
            return await self._error(writer, "wrong-key", f"Incorrect API key provided: {shown}")
        if fault == "html":
            return await _plain(writer, 200, b"<html>gateway</html>", {"Content-Type": "text/html"})
        if fault == "redirect":
            return await _plain(writer, 307, b"", {"Location": "http://127.0.0.1:9/elsewhere"})
        if fault in anthropic_wire.ERRORS:
            return await self._error(writer, fault, self._said)
        if not self._received.body.get("stream"):
            return await _plain(writer, 200, json.dumps(self._whole()).encode(), {})
        await self._stream(writer, turn)
        return fault is None

    async def _error(self, writer: asyncio.StreamWriter, fault: Any, said: str) -> bool:
        model = str(self._received.body.get("model"))
        if self._received.flavour == "anthropic":
            status, body = anthropic_wire.error_body(fault, model, said)
        else:
            status, body = openai_wire.error_body(fault, self._received.flavour, model, said)
        head = {"retry-after": self._turn.retry_after} if self._turn.retry_after else {}
        return await _plain(writer, status, json.dumps(body).encode(), head)

    def _shown(self) -> str:
        head = self._received.head
        return head.get("x-api-key") or head.get("authorization", "").removeprefix("Bearer ")

    def _whole(self) -> dict[str, Any]:
        if self._received.flavour == "anthropic":
            return anthropic_wire.message(self._turn, self._received.body)
        return openai_wire.completion(self._turn, self._received.flavour, self._received.body)

    def _frames(self) -> Iterator[bytes]:
        if self._received.flavour == "anthropic":
            return anthropic_wire.events(self._turn, self._received.body)
        return openai_wire.chunks(self._turn, self._received.flavour, self._received.body)

    async def _stream(self, writer: asyncio.StreamWriter, turn: Turn) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        if turn.fault == "cut-early":
            await writer.drain()
            writer.transport.abort()
            return
        frames = list(self._frames())
        middle = len(frames) // 2
        for number, frame in enumerate(frames):
            if number == middle and turn.fault and await self._spoil(writer, frame):
                return
            if turn.fault == "slow":
                for byte in frame:
                    await _chunk(writer, bytes([byte]))
            else:
                await _chunk(writer, frame)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _spoil(self, writer: asyncio.StreamWriter, frame: bytes) -> bool:
        is_anthropic = self._received.flavour == "anthropic"
        match self._turn.fault:
            case "cut":
                await _chunk(writer, frame[: len(frame) // 2])
                writer.transport.abort()
                return True
            case "error-within":
                error = anthropic_wire.error_event if is_anthropic else openai_wire.error_chunk
                await _chunk(writer, error())
            case "malformed-json":
                kind = b"event: content_block_delta\n" if is_anthropic else b""
                await _chunk(writer, kind + b'data: {"choices": [{"delta": {"conte\n\n')
            case "malformed-events":
                await _chunk(writer, b"\xff\xfe nonsense \0 : : \n\n\ndata\n\n")
            case "stalled":
                await asyncio.Event().wait()
            case "endless":
                while True:
                    await _chunk(writer, frame)
                    await asyncio.sleep(0.001)
        return False


async def _left(reader: asyncio.StreamReader) -> None:
    """Until the client has gone: it says nothing more while it listens."""
    with contextlib.suppress(ConnectionError):
        await reader.read(1)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    named = {key.lower(): value.strip() for key, _, value in (one.partition(":") for one in lines)}
    length = int(named.get("content-length", "0"))
    assert length <= _LONGEST_BODY
    body = json.loads(await reader.readexactly(length) or b"{}")
    path = first.split()[1].partition("?")[0]
    flavour = path.split("/")[1]
    return Received(flavour=flavour, path=path, head=named, body=body)


async def _plain(
    writer: asyncio.StreamWriter, status: int, body: bytes, head: dict[str, str]
) -> bool:
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **head}
    lines = "".join(f"{key}: {value}\r\n" for key, value in named.items())
    writer.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)
    await writer.drain()
    return True


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


def _read_scripts(path: Path) -> Iterator[tuple[str, list[Turn]]]:
    for entry in json.loads(path.read_text()):
        turns = [
            Turn(**{**one, "uses": tuple(Use(**use) for use in one.get("uses", ()))})
            for one in entry["turns"]
        ]
        yield entry.get("match", ""), turns


def main() -> None:
    with ProviderServer() as server:
        for match, turns in _read_scripts(Path(sys.argv[1])):
            server.script(turns, match)
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
