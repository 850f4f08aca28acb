"""A model provider of the tests' own: real HTTP, the formats of Anthropic and OpenAI, and what they do on a bad day."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.network.world import close

Document = dict[str, Any]


@dataclass
class Call:
    line: str
    head: str
    body: bytes

    @property
    def document(self) -> Document:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


@dataclass
class ModelServer:
    """`fault` is what goes wrong: cut, silent, gzip, status, plain (no usage), close."""

    input_tokens: int = 100
    output_tokens: int = 20
    cached: int = 0
    fault: str = ""
    status: int = 429
    usage: Document | None = None
    calls: list[Call] = field(default_factory=list)
    waiting: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                line, _, rest = head.partition("\r\n")
                length = 0
                for field_ in rest.split("\r\n"):
                    name, _, value = field_.partition(":")
                    if name.lower() == "content-length":
                        length = int(value)
                self.calls.append(Call(line, head, await reader.readexactly(length)))
                if self.waiting is not None:
                    await self.waiting.wait()
                if not await self._answer(writer, self.calls[-1]):
                    return
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            await close(writer)

    async def _answer(self, writer: asyncio.StreamWriter, call: Call) -> bool:
        if self.fault == "silent":
            return False
        if self.fault == "status":
            kind = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
            _write(writer, self.status, "application/json", json.dumps(kind).encode())
            return True
        if not call.body:
            _write(writer, 200, "application/json", b'{"object":"list","data":[]}')
            return True
        path = call.line.split()[1].partition("?")[0]
        if call.document.get("stream") or "streamGenerate" in path:
            return await self._stream(writer, self._events(path))
        extra = "Content-Encoding: gzip\r\n" if self.fault == "gzip" else ""
        text = json.dumps(self._whole(path)).encode()
        _write(writer, 200, "application/json", text, extra)
        await writer.drain()
        return self.fault != "close"

    async def _stream(self, writer: asyncio.StreamWriter, events: Iterator[str]) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for number, event in enumerate(events):
            if self.fault == "cut" and number == 2:
                return False
            data = event.encode()
            # Cut where no event ends.
            for piece in (data[:7], data[7:]):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _whole(self, path: str) -> Document:
        if path.endswith("/messages"):
            return self._message()
        if path.endswith("/responses"):
            return self._response()
        if ":generateContent" in path:
            return {"candidates": [], "usageMetadata": self._gemini()}
        if path.endswith("/embeddings"):
            usage = {"prompt_tokens": self.input_tokens, "total_tokens": self.input_tokens}
            return {"object": "list", "model": "m", "data": [], "usage": usage}
        choice = {"index": 0, "finish_reason": "stop", "logprobs": None,
                  "message": {"role": "assistant", "content": "hello", "refusal": None}}  # fmt: skip
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [choice], **self._chat()}  # fmt: skip

    def _events(self, path: str) -> Iterator[str]:
        if path.endswith("/messages"):
            usage = {**self._messages(), "output_tokens": 1}
            message = {**self._message(), "content": [], "stop_reason": None, "usage": usage}
            yield _event({"type": "message_start", "message": message}, "message_start")
            block = {"type": "text", "text": ""}
            yield _event(
                {"type": "content_block_start", "index": 0, "content_block": block},
                "content_block_start",
            )
            delta = {"type": "text_delta", "text": "hello"}
            yield _event(
                {"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta"
            )
            yield _event({"type": "content_block_stop", "index": 0}, "content_block_stop")
            ended = {"stop_reason": "end_turn", "stop_sequence": None}
            yield _event(
                {"type": "message_delta", "delta": ended,
                 "usage": {"output_tokens": self.output_tokens}},
                "message_delta",
            )  # fmt: skip
            yield _event({"type": "message_stop"}, "message_stop")
            return
        if path.endswith("/responses"):
            created = {**self._response(), "status": "in_progress", "output": [], "usage": None}
            yield _event({"type": "response.created", "sequence_number": 0, "response": created})
            yield _event(
                {"type": "response.in_progress", "sequence_number": 1, "response": created}
            )
            done = self._response()
            yield _event({"type": "response.completed", "sequence_number": 2, "response": done})
            return
        if "streamGenerate" in path:
            yield _event({"candidates": [{"content": {"parts": [{"text": "a"}]}}],
                          "usageMetadata": {**self._gemini(), "candidatesTokenCount": 1}})  # fmt: skip
            yield _event(
                {"candidates": [{"finishReason": "STOP"}], "usageMetadata": self._gemini()}
            )
            return
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        for word in ("hel", "lo"):
            choice = {
                "index": 0,
                "delta": {"role": "assistant", "content": word},
                "finish_reason": None,
            }
            yield _event({**chunk, "choices": [choice]})
        asked = self.calls[-1].document.get("stream_options") or {}
        if asked.get("include_usage"):
            yield _event({**chunk, "choices": [], **self._chat()})
        yield "data: [DONE]\n\n"

    def _message(self) -> Document:
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "stop_sequence": None, "content": [{"type": "text", "text": "hello"}],
            "usage": self._messages(),
        }  # fmt: skip

    def _messages(self) -> Document:
        if self.usage is not None:
            return self.usage
        return {
            "input_tokens": self.input_tokens - self.cached, "output_tokens": self.output_tokens,
            "cache_read_input_tokens": self.cached, "cache_creation_input_tokens": 0,
        }  # fmt: skip

    def _chat(self) -> Document:
        if self.usage is not None:
            return {"usage": self.usage}
        usage = {
            "prompt_tokens": self.input_tokens, "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }  # fmt: skip
        return {"usage": usage}

    def _response(self) -> Document:
        usage = {
            "input_tokens": self.input_tokens, "input_tokens_details": {"cached_tokens": self.cached},
            "output_tokens": self.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.input_tokens + self.output_tokens,
        }  # fmt: skip
        text = {"type": "output_text", "text": "hello", "annotations": []}
        item = {
            "id": "i",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
        return {
            "id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed",
            "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "usage": usage, "error": None, "incomplete_details": None, "instructions": None,
            "metadata": {}, "temperature": 1.0, "top_p": 1.0,
        }  # fmt: skip

    def _gemini(self) -> Document:
        return {"promptTokenCount": self.input_tokens, "candidatesTokenCount": self.output_tokens}


def _event(document: Document, name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(document)}\n\n"


def _write(
    writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, extra: str = ""
) -> None:
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
